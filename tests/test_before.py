"""Runs that an earlier version made are loaded, asked and resumed as that version did.

`fixtures/0.1` holds four runs of regard 0.1.0, each stopped after two thirds of its steps, and beside each what that
version answered there and what it came to at the end of its budget.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from regard.cli import app

KEPT = Path(__file__).parent / "fixtures" / "0.1"
NAMES = ("translation", "language", "classification", "tagging")
CLOSE = 1e-3  # other machines sum in another order, and ten steps of training spread it


@pytest.fixture(params=NAMES)
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """A copy of a run, and what is expected of it."""
    folder = tmp_path / str(request.param)
    shutil.copytree(KEPT / str(request.param), folder)
    return folder, json.loads((KEPT / f"{request.param}.json").read_text())


def compare(found: Any, expected: Any) -> None:
    """Insist that all that was said then is said now; numbers may differ by rounding."""
    if isinstance(expected, dict):
        assert not set(expected) - set(found)
        for key, value in expected.items():
            compare(found[key], value)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            compare(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=CLOSE, abs=CLOSE)
    else:
        assert found == expected


def test_an_old_run_answers_as_it_did(kept: tuple[Path, dict[str, Any]]) -> None:
    folder, expected = kept
    words = [f"{folder}@latest" if word == "RUN" else word for word in expected["verb"]]
    result = CliRunner().invoke(app, words, input=expected["input"])
    assert result.exit_code == 0, result.output
    compare([json.loads(line) for line in result.stdout.splitlines()], expected["answers"])


def test_an_old_run_is_resumed_to_where_it_came(kept: tuple[Path, dict[str, Any]]) -> None:
    folder, expected = kept
    result = CliRunner().invoke(app, ["resume", str(folder)])
    assert result.exit_code == 0, result.output
    events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    losses = [event["loss"] for event in events if event["event"] == "step"]
    compare(losses[-len(expected["last_losses"]) :], expected["last_losses"])
    compare([event for event in events if event["event"] == "evaluation"][-1], expected["evaluation"])
