"""Hugging Face layout: config.json, safetensors, and the files that go out beside them."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Literal

from regard.errors import RegardError
from regard.hub.compare import Comparison, compare
from regard.hub.outgoing import beside
from regard.hub.save import export_folder, match_model
from regard.hub.targets.target import TargetSpec
from regard.tasks.bundle import Bundle


class HuggingFace(TargetSpec):
    """For transformers and its kin."""

    kind: Literal["hf"] = "hf"

    def write(self, given: Bundle, noun: str, place: Path) -> list[Path]:
        if given.family is None:
            raise RegardError(f"{noun}: a model of one's own has no family, so no Hugging Face layout either")
        plan = match_model(given.model.spec, given.family, noun)
        return export_folder(plan, given.model, place, beside(given, plan, noun))

    def insist_on_check(self) -> None:
        """Transformers reads it."""

    def check(self, given: Bundle, place: Path) -> Comparison:
        return compare(place, given)

    def suggest_next(self, place: Path) -> str:
        return f"regard import {quote(str(place))} --check"
