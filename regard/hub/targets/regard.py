"""This house's own: a folder with a model and all that using it takes, and nothing that only training needs.

It is one checkpoint, as a run's are: every file stands in its manifest with its SHA-256. Weights may be packed; then
`packed.json` says which, and the numbers lie in the file row by row, as on any machine. They are brought into the order
of a machine's kernels where they are used.
"""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import Any, Literal

from regard.core.packed import find_precision
from regard.core.packlist import NAME as PACKED
from regard.core.packlist import PackingList
from regard.errors import SpecError
from regard.host.files import write
from regard.hub.save import fill_aside
from regard.hub.targets.target import TargetSpec
from regard.tasks.bundle import Bundle
from regard.train.checkpoint import MODEL, Store


class Regard(TargetSpec):
    """For regard itself, on any machine."""

    kind: Literal["regard"] = "regard"

    def insist_on_precision(self, precision: str | None) -> None:
        if precision == "auto":
            raise SpecError(
                "--precision auto is what is fastest on this machine, and a copy is for any", "--precision int8"
            )

    def prepare(self, given: Bundle, noun: str) -> Bundle:
        return given

    def write(self, given: Bundle, noun: str, place: Path) -> list[Path]:
        model, packing = given.model, PackingList.find(given.model)
        # no ranking: it validated elsewhere. No task: its make says what it can do
        state: dict[str, Any] = {"moment": {"ranking": []}, "family": given.family, "plugins": dict(given.plugins)}
        state["task"] = None if given.task is None else given.task.model_dump(mode="json")
        state |= {} if given.about is None else {"import": given.about}
        data = {"spec": model.spec.model_dump(mode="json"), "state": state}
        data |= {} if packing is None else {PACKED: packing.to_fact()}
        files = {} if given.lexicon is None else given.lexicon.files()
        files |= {} if given.origin is None else given.origin.entries()
        told = {"parameters": model.parameter_count(), "precision": find_precision(model)}
        with fill_aside(place) as folder:
            Store(folder / "checkpoints").save(0, {"model": model.state_dict()}, data, files)
            write(folder / MODEL, (json.dumps(told, indent=1) + "\n").encode())
        return sorted(path for path in place.rglob("*") if path.is_file())

    def suggest_next(self, place: Path) -> str:
        return f"regard show {quote(str(place))}"
