"""What the model that a run began from says of the answers that it learns from: computed once, and kept on disk.

A file for each split stands beside the prepared data: a number for every token of both answers of a pair. The list of
them, written last, has the digests of the weights and of the data that they follow from and of the files themselves, so
one that is stale, cut short or damaged is computed again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from regard.core.model import Model
from regard.data.column import Column, ColumnSpec, write_column
from regard.data.prepared import Prepared, digest, list_file
from regard.errors import CheckpointError, SpecError
from regard.host.files import aside, explain_disk_errors, replace
from regard.tasks.feedback.likelihood import AnswerBatch, find_logs
from regard.tasks.feedback.pairwise import AnswerPair
from regard.tasks.reward import group_by_length
from regard.tasks.task import Pulse, Reference

FACTS = "reference.json"
RUN = 512  # pairs that are sorted by length together
LOGS = ColumnSpec(dtype="float32")


@dataclass(frozen=True)
class SplitPairs:
    """The pairs of a split: how many there are, and which each is."""

    count: int
    read: Callable[[int], AnswerPair]


Splits = Mapping[str, SplitPairs]


def keep_reference(
    prepared: Prepared, splits: Splits, pad: int, reference: Reference, pulse: Pulse
) -> dict[str, Column]:
    """The log-probabilities of every pair's answers by the model that the run began from, by split.

    A pair's numbers are those of its chosen answer's tokens, then of its rejected one's.
    """
    folder = prepared.folder
    with reference() as model:
        insist_on_tokens(model, prepared)
        facts = {"weights": digest_weights(model), "data": digest_data(prepared)}
        kept = read_files(folder, facts)
        missing = {split: pairs for split, pairs in splits.items() if not set(list_names(split)) <= set(kept)}
        if missing:
            names = [name for split in missing for name in list_names(split)]
            with explain_disk_errors(folder, 0):
                list_file(folder, *names, FACTS)  # first, so that a killed process leaves nothing of unknown owner
                _compute(folder, missing, model, pad, pulse)
                files = {**kept, **{name: digest(folder / name) for name in names}}
                replace(folder / FACTS, json.dumps({**facts, "files": files}, indent=1).encode())
    found = {split: Column(folder / list_names(split)[0], LOGS) for split in splits}
    for split, column in found.items():
        if len(column) != splits[split].count or not column.is_whole():
            raise CheckpointError(f"{folder / FACTS}: damaged", f"delete {folder / FACTS}: it is computed again")
    return found


def list_names(split: str) -> list[str]:
    return [f"reference.{split}", f"reference.{split}.ends"]


def read_files(folder: Path, facts: Mapping[str, str]) -> dict[str, str]:
    """The files that follow from these facts and are what they were when they were written, with their digests."""
    try:
        told = json.loads((folder / FACTS).read_bytes())
        files = told.pop("files") if isinstance(told, dict) else {}
        if told != facts:
            return {}
        return {name: known for name, known in files.items() if _is_whole(folder / name, known)}
    except (OSError, ValueError, KeyError, AttributeError, RecursionError):
        return {}  # it was never finished, or somebody changed it


def _is_whole(path: Path, known: str) -> bool:
    return path.is_file() and digest(path) == known


def digest_weights(model: Model) -> str:
    """A digest of all that a model was given to compute with."""
    hashed = hashlib.sha256()
    for name, weight in sorted(model.state_dict().items()):
        hashed.update(f"{name} {weight.dtype} {tuple(weight.shape)}".encode())
        hashed.update(memoryview(weight.detach().cpu().contiguous().view(torch.uint8).numpy()))
    return hashed.hexdigest()


def digest_data(prepared: Prepared) -> str:
    """A digest of a corpus as it was made ready, tokens included."""
    return hashlib.sha256(json.dumps(prepared.facts["files"], sort_keys=True).encode()).hexdigest()


def insist_on_tokens(model: Model, prepared: Prepared) -> None:
    """Refuse a model of other tokens than the answers are written in; some have more vectors than there are tokens."""
    held, known = model.spec.main.embedding.token_count or 0, len(prepared.lexicon.tokenizer)
    if held < known:
        raise SpecError(
            f"start: the reference knows {held} tokens, and the answers are written in {known}",
            "a start whose tokenizer the corpus was made ready with: train again with out=ANOTHER",
        )


def _compute(folder: Path, splits: Splits, model: Model, pad: int, pulse: Pulse) -> None:
    """Write the files of all splits aside, and put them in place when all are there."""
    paths = [folder / name for split in splits for name in list_names(split)]
    try:
        for split, pairs in splits.items():
            with write_column(folder / list_names(split)[0], LOGS, aside) as add:
                for logs in score_pairs(model, map(pairs.read, range(pairs.count)), pad, pulse):
                    add(logs.float().numpy())
        for path in paths:
            os.replace(aside(path), path)
    finally:
        for path in paths:
            aside(path).unlink(missing_ok=True)


@torch.no_grad()
def score_pairs(model: Model, pairs: Iterator[AnswerPair], pad: int, pulse: Pulse) -> Iterator[Tensor]:
    """The log-probabilities of each pair's answers, token by token, the chosen one's first; in the order of the pairs.

    Pairs of like length are read together, a few hundred at a time, so that memory doesn't grow with their number.
    """
    while run := list(islice(pairs, RUN)):
        found: dict[int, Tensor] = {}
        for group in group_by_length([max(len(pair.chosen), len(pair.rejected)) for pair in run], rows=32):
            pulse()
            sides = [run[n].transcribe() for n in group]
            batch = AnswerBatch.lay_out([side for both in sides for side in both], pad)
            logs = find_logs(model, batch)[batch.learned].cpu()
            sizes = [sum(map(sum, (side.learned for side in both))) for both in sides]
            found |= dict(zip(group, logs.split(sizes), strict=True))
        yield from (found[n] for n in range(len(run)))
