"""What every export target is: a format that a model is written in, for others to read."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from regard.core.packed import insist_on_whole
from regard.core.registry import Kinds
from regard.core.spec import Spec
from regard.core.weights import drop_value
from regard.errors import RegardError, SpecError
from regard.hub.compare import Comparison
from regard.tasks.bundle import Bundle


class TargetSpec(Spec):
    """A format. Its `kind` is what stands behind `--to`."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds("regard.hub.targets")

    def insist_on_precision(self, precision: str | None) -> None:
        """Refuse what weights can't be written in; asked before a model is loaded. None: as they are."""
        if precision not in (None, "fp32"):
            raise SpecError(f"--precision {precision}: {self.kind} has no place for packed weights", "--to regard")

    def prepare(self, given: Bundle, noun: str) -> Bundle:
        """What goes out of a model: others have no place for packed weights, or for the value beside its words."""
        insist_on_whole(given.model, noun, "written for others")
        given.model = drop_value(given.model)
        return given

    def write(self, given: Bundle, noun: str, place: Path) -> list[Path]:
        """Write a model to a place, whole or not at all; the files. `noun`: what its user calls it, for messages."""
        raise NotImplementedError

    def insist_on_check(self) -> None:
        """Refuse to be compared, where nothing else reads the format; asked before anything is written."""
        raise RegardError(f"--check compares with transformers, which doesn't read {self.kind}", "--to hf")

    def check(self, given: Bundle, place: Path) -> Comparison:
        """How what was written compares with what others make of it."""
        raise NotImplementedError

    def suggest_next(self, place: Path) -> str:
        """What one may type next."""
        return ""
