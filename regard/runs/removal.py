"""Deleting runs, and replacing one by another: only what is ours goes, and only when nothing can go wrong any more."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from regard.config import Document
from regard.data.prepared import Prepared, ours
from regard.errors import Busy, RegardError
from regard.host.files import aside, explain_disk_errors, sync
from regard.host.meter import SILENT, Meter
from regard.runs.folder import CORPORA, STORES, Run, discard_run
from regard.runs.lock import hold, is_held
from regard.runs.resolve import PREPARING, RUN, is_run, no_run
from regard.runs.spec import RunSpec
from regard.runs.uses import load_uses
from regard.train.checkpoint import list_own


@dataclass
class Removal:
    """A run that was deleted, and what is left in its folder because it isn't the run's."""

    folder: Path
    left: list[Path]


def insist_on_idle(folder: Path) -> None:
    """Insist that a folder holds a run, be it damaged or half made, and that nobody trains in it."""
    if not is_run(folder) and not (folder / PREPARING).is_file():
        raise no_run(folder)
    if is_held(folder):
        raise Busy(f"{folder}: it is being trained", f"regard log {quote(str(folder))} tells when it ends")


def remove_run(folder: Path) -> Removal:
    """Delete a run; one that is being trained is refused."""
    insist_on_idle(folder)
    with explain_disk_errors(folder, 0), hold(folder):
        discard_run(folder)
    return Removal(folder, sorted(_list_files(folder)))


def _list_files(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder):
        yield from (Path(place) / name for name in names)


def find_strangers(folder: Path) -> list[Path]:
    """Files in the folders of a run that the run didn't write: they would be in a new run's way."""
    keeps = {name: ours(folder / name) for name in CORPORA}
    keeps["tensorboard"] = lambda name: name.startswith("events.out.tfevents.")
    found = [folder / name for name in (*keeps, *STORES) if (folder / name).is_symlink()]  # which is never followed
    for path in sorted(_list_files(folder)):
        top, *rest = path.relative_to(folder).parts
        own = len(rest) == 1 and keeps[top](rest[0]) if top in keeps else True
        if top in STORES:
            own = rest == ["latest"] or path.name in list_own(path.parent)
        found += [] if own else [path]
    return found


def replace_run(
    document: Document,
    report: Callable[[str], None] = lambda _: None,
    meter: Meter = SILENT,
    ready: Prepared | None = None,
) -> Run:
    """Begin a run where another is: the new one is made beside it, and the old one goes when that has begun.

    Where there is none, it is begun as usual. Files of others stay where they are, beside the new run. `ready`: what a
    third one has made ready of the same corpus, to be copied.
    """
    load_uses(document)
    place = Path(RunSpec.parse(document.tree, document.where).out)
    if not (place / RUN).exists():
        return Run.begin(document, report, ready, meter)
    with hold(place):
        if strangers := find_strangers(place):
            raise RegardError(f"{strangers[0]}: isn't the run's, and stands where a new one would be", "out=ANOTHER")
        beside = aside(place)
        changed = Document(document.tree | {"out": str(beside)}, document.name, document.lines, document.words)

        def retell(line: str) -> None:
            report(line.replace(str(beside), str(place)))

        fresh = Run.begin(changed, retell, ready, meter)
        with explain_disk_errors(place, 0):
            discard_run(place)
            _move(fresh, place)
    return Run.open(place)


def _move(run: Run, place: Path) -> None:
    """Put a run that has begun where it belongs; its own file goes last, since a folder with it is a run."""
    Run(run.folder, run.spec.replace(out=str(place))).write()
    place.mkdir(parents=True, exist_ok=True)
    names = [path.name for path in run.folder.iterdir() if path.name not in (RUN, "lock")]
    taken = next((name for name in names if (place / name).exists()), None)
    if taken is not None:
        told = f"{place / taken}: files that aren't a run's are in it; the new run is in {run.folder}"
        raise RegardError(told, f"regard resume {quote(str(run.folder))}")
    for name in [*names, RUN]:
        os.rename(run.folder / name, place / name)
    sync(place)
    discard_run(run.folder)
