"""Sentences as vectors: the mean of what an encoder makes of their tokens, at unit length (Reimers & Gurevych 2019)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.mask import average
from regard.core.model import Model
from regard.data.batches import padded
from regard.data.tokenizer import Tokenizer
from regard.errors import InputError
from regard.hub.load import imported

ROWS = 32  # texts that are read together


@dataclass
class Embedder:
    """An encoder and its tokenizer."""

    network: Model
    tokenizer: Tokenizer

    @torch.no_grad()
    def embed(self, texts: Sequence[str]) -> Tensor:
        """(texts, width), in their order."""
        rows = [found.ids for found in self.tokenizer.engine.encode_batch(list(texts), add_special_tokens=True)]
        order = sorted(range(len(rows)), key=lambda n: len(rows[n]))
        found: dict[int, Tensor] = {}
        for group in _groups(order):
            tokens, valid = padded([rows[n] for n in group], self.tokenizer.pad)
            try:
                states = self.network.features(tokens, valid=valid)
            except InputError as error:
                longest = max(len(rows[n]) for n in group)
                raise InputError(f"a text of {longest} tokens: {error.message}", error.hint) from None
            vectors = F.normalize(average(states, valid), dim=-1)
            found |= dict(zip(group, vectors, strict=True))
        return torch.stack([found[n] for n in range(len(rows))])


def _groups(order: Sequence[int]) -> Iterator[Sequence[int]]:
    return (order[first : first + ROWS] for first in range(0, len(order), ROWS))


def embedder(noun: str) -> Embedder:
    """From a folder in Hugging Face layout that holds an encoder, such as MiniLM."""
    arrived = imported(Path(noun))
    if arrived.model.encoder is None or arrived.model.decoder is not None:
        raise InputError(f"{noun}: a {arrived.plan.kind} is no encoder alone, and only one of those embeds")
    if arrived.tokenizers is None:
        raise InputError(f"{noun}: there is no tokenizer in it")
    tokenizer = arrived.tokenizers[0]
    # a file may ask for rows of one length; here each text is as long as it is
    tokenizer.engine.no_padding()
    tokenizer.engine.no_truncation()
    return Embedder(arrived.model.float(), tokenizer)
