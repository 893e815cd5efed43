"""What a trained translator predicts at each token of its references: for losses and calibration without a search."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from regard.core.model import Model
from regard.data.batches import make_batch
from regard.data.corpus import Split
from regard.decode.translator import Translator
from regard.runs.folder import Run
from regard.runs.load import load
from regard.tasks.measures import Codes, Numbers
from regard.tasks.translation import list_pairs, predict

ROWS = 64  # sentences at a time


class TokenForecast(NamedTuple):
    """The tokens of all references, and how likely each token of the vocabulary was said to be there."""

    tokens: Codes  # (tokens,)
    logs: Numbers  # (tokens, vocabulary): logarithms of probabilities

    @property
    def loss(self) -> float:
        """The mean cross-entropy, in nats a token."""
        return -float(self.logs[np.arange(len(self.tokens)), self.tokens].mean())


@torch.no_grad()
def predict_references(run: Run, split: Split = "test") -> TokenForecast:
    """The predictions of a trained translator at each token of a split that its run kept."""
    translator = load(run.folder, kind=Translator)
    assert isinstance(translator.model, Model)  # one run is no ensemble
    source, target = translator.source, translator.target
    pairs = list_pairs(run.prepared().samples(split))
    sources, targets = source.encode([pair[0] for pair in pairs]), target.encode([pair[1] for pair in pairs])
    tokens, logs = [], []
    for first in range(0, len(pairs), ROWS):
        rows = slice(first, first + ROWS)
        batch = make_batch(sources[rows], targets[rows], source.pad, target.begin, target.end)
        found = predict(translator.model, batch, target)
        tokens.append(found.targets.numpy())
        logs.append(found.factors.table().double().log_softmax(-1).numpy())
    return TokenForecast(np.concatenate(tokens), np.concatenate(logs))
