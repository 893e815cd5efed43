"""docs/laboratory.md tells of every experiment, in order, as the command that measured it wrote it."""

from __future__ import annotations

import re
from pathlib import Path

import regard.lab  # noqa: F401  enters every experiment
from regard.lab.apparatus.experiment import list_experiments

PAGE = Path(__file__).parent.parent.parent / "docs" / "laboratory.md"


def test_the_page_has_every_experiment_of_ours_in_order() -> None:
    ours = [one for one in list_experiments() if type(one).__module__ == f"regard.lab.{one.name}"]
    text = PAGE.read_text(encoding="utf-8")
    assert re.findall(r"(?m)^## (.*)$", text) == [one.name for one in ours]
    sections = re.split(r"(?m)^## ", text)[1:]
    for one, section in zip(ours, sections, strict=True):
        assert section.startswith(f"{one.name}\n**{one.question}** {one.claim}\n\n{one.method}\n")
        assert f"`regard lab {one.name} --seed " in section
        (finding,) = re.findall(r"(?m)^\*([^*].*)\*$", section)
        assert finding.endswith(".") and not re.search(r"[.!?] ", finding), "a finding is one sentence"


def test_every_recorded_experiment_kept_to_five_minutes() -> None:
    minutes = [float(found) for found in re.findall(r"seed \d+, ([\d.]+) minutes", PAGE.read_text(encoding="utf-8"))]
    assert len(minutes) == len(re.findall(r"(?m)^## ", PAGE.read_text(encoding="utf-8")))
    assert max(minutes) <= 5
    assert all(one.minutes <= 5 for one in list_experiments() if type(one).__module__.startswith("regard.lab."))
