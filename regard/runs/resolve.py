"""What a noun of the command line means: a run, and which of its checkpoints.

A run is named by its folder: `RUN` is its average if one was made, otherwise the checkpoint that validated best;
`RUN@best`, `RUN@latest`, `RUN@average` and `RUN@step-2000` say which.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from shlex import quote
from typing import TypeVar

from regard.core.hint import nearest
from regard.core.plugins import insist_on_plugins
from regard.errors import CheckpointError, Damage, RegardError, warn
from regard.train.checkpoint import MODEL, Checkpoint, Store, inspect

T = TypeVar("T")

RUN = "run.yaml"  # of a folder that holds a run
PREPARING = "preparing"  # is there while a run is being made: what stands beside it is ours
CHOICE = "precision.json"  # of a run: which precision is fastest on this machine
EVALUATIONS = "evaluations.jsonl"  # of a run: what `regard eval --record` found
IMPORT = "import.json"  # of a folder that holds a model from elsewhere, and was never trained here


def no_run(folder: Path) -> CheckpointError:
    """What there is to say of a folder that isn't a run."""
    from regard.models import presets  # it brings torch along, and a list of runs needs none

    if str(folder) in presets() and not folder.exists():
        known = f"regard import hf:OWNER/{folder} brings weights; a run file with model: {folder} trains some"
        return CheckpointError(f"{folder}: not a run but a preset, which has no weights", known)
    there = "there is no such folder" if not folder.exists() else f"there is no {RUN} in it"
    near = None if folder.exists() else nearest(folder.name, _list_names(folder.parent))
    hint = "regard runs lists those that there are" if near is None else f"did you mean {folder.parent / near}?"
    return CheckpointError(f"{folder}: not a run, {there}", hint)


def _list_names(folder: Path) -> list[str]:
    """The runs in a folder."""
    try:
        return [path.name for path in folder.iterdir() if is_run(path)]
    except OSError:
        return []


def is_folder(path: Path) -> bool:
    """Whether it looks like Hugging Face layout."""
    return (path / "config.json").is_file() and not (path / RUN).exists()


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run, or a model that was brought in or saved by itself."""
    return any((folder / name).is_file() for name in (RUN, IMPORT, MODEL))


def split_noun(noun: str) -> tuple[str, str]:
    """A run's folder, and which of its checkpoints is meant; a folder may have an @ in its own path."""
    name, _, which = noun.rpartition("@")
    return (noun, "") if not name or is_run(Path(noun)) or not is_run(Path(name)) else (name, which)


def resolve(noun: str) -> Checkpoint:
    """The checkpoint that `RUN`, `RUN@best`, `RUN@latest`, `RUN@average` or `RUN@step-2000` names.

    Its files are there in full length; what is in them is compared with their digests when they are read.
    """
    return read_resolved(noun, lambda checkpoint: checkpoint)


def read_resolved(noun: str, read: Callable[[Checkpoint], T]) -> T:
    """What `read` makes of the checkpoint that a noun names; one that proves damaged is told of and stepped over.

    A run that was made with plug-ins that aren't loaded here is refused.
    """
    damaged: dict[Path, Damage] = {}
    while True:
        try:
            checkpoint, told = _choose(noun, damaged)
            insist_on_plugins(checkpoint.json("state").get("plugins"), str(checkpoint.path))
            found = read(checkpoint)
        except Damage as error:
            if error.folder in damaged:  # nothing else can take its place
                raise
            damaged[error.folder] = error
            continue
        for line in told:
            warn(f"{line}; an older one is used")
        return found


def _choose(noun: str, damaged: Mapping[Path, Damage]) -> tuple[Checkpoint, list[str]]:
    """The checkpoint that a noun names if these are damaged, and what there is to say of those in its way."""
    name, which = split_noun(noun)
    folder = Path(name)
    if not is_run(folder):
        raise no_run(folder)

    def check(path: Path) -> Checkpoint:
        if path in damaged:
            raise damaged[path]
        return inspect(path)

    told: list[str] = []
    store, average = (Store(folder / part, warn=told.append) for part in ("checkpoints", "average"))
    if match := re.fullmatch(r"step-(\d+)", which):
        return store.at(int(match[1]), check), told
    if which not in ("", "best", "latest", "average"):
        raise RegardError(
            f"{noun}: {which!r} is no checkpoint", f"{quote(f'{name}@best')}, @latest, @average or @step-N"
        )
    wanted = average.latest(check) if which in ("", "average") else None
    if wanted is None and which == "average":
        raise CheckpointError(
            told[0] if told else f"{name}: there is no average", f"regard average {quote(name)} --last 2"
        )
    newest = wanted or store.latest(check)
    if newest is None:
        raise CheckpointError(told[0] if told else f"{name}: nothing was saved yet", f"regard resume {quote(name)}")
    if which in ("latest", "average") or wanted is not None:
        return newest, told
    best = list_best_steps(newest)
    if not best:
        return newest, told
    kept = {found.step for found in store.list_steps()}
    there = next((step for step in best if step in kept), newest.step)
    if there != best[0]:
        warn(f"{name}: step-{best[0]} validated best and isn't there; step-{there} is used")
    return store.at(there, check), told


def list_best_steps(newest: Checkpoint) -> list[int]:
    """The steps that validated best, by what the newest checkpoint says; a measure that isn't finite says nothing."""
    try:
        ranking = newest.json("state")["moment"]["ranking"]
        return [int(step) for value, step in ranking if math.isfinite(value)]
    except (TypeError, LookupError, ValueError, OverflowError):
        raise CheckpointError(f"{newest.path}/state.json: damaged, its ranking can't be read") from None
