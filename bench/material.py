"""What decoding is measured on: runs with random weights, sent out to the others as users would send theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from bench.harness import say
from regard.data.lexicon import Lexicon
from regard.data.tokenizer import SPECIAL, Tokenizer, TokenizerSpec
from regard.errors import RegardError
from regard.kernels.library import SWITCH
from regard.models import presets
from regard.runs.convert import send
from regard.train.checkpoint import Store

TORCH_ALONE = {SWITCH: "off"}  # what tells a side of ours to leave our compiled kernels alone


def make_tokenizer(vocabulary: int) -> Tokenizer:
    """As many words as a model has vectors, none of which means anything."""
    words = " ".join(f"w{number}" for number in range(vocabulary - len(SPECIAL)))
    return TokenizerSpec(pieces="given", vocabulary=vocabulary).train([words])


def make_run(folder: Path, task: str, name: str, **changes: Any) -> Path:
    """A run of a preset with random weights, as training would leave it as far as loading looks at it."""
    torch.manual_seed(1)
    family = presets()[name]
    settings = family.settings.parse(family.tree(name, changes))
    spec, tokenizer = family.compose(settings), make_tokenizer(settings.vocabulary)
    state = {"task": {"kind": task}, "family": settings.model_dump(mode="json"), "moment": {"ranking": [[1.0, 1]]}}
    files = Lexicon((tokenizer, tokenizer), [], []).files()
    weights = {"model": spec.build().state_dict()}
    Store(folder / "checkpoints").save(1, weights, {"spec": spec.model_dump(), "state": state}, files)
    (folder / "run.yaml").write_text(f"model: {name}\n")
    return folder


def send_out(run: Path, *targets: str) -> dict[str, str]:
    """Where the same weights stand for each of the others; for a format that can't be written, a folder without any."""
    places = {target: run.parent / f"{run.name}-{target}" for target in targets}
    for target, place in places.items():
        try:
            send(str(run), target, place)
        except RegardError as error:
            say(f"  {run.name} can't be written as {target}: {error}")
    return {target: str(place) for target, place in places.items()}
