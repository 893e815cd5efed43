"""What the README shows runs as written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from regard import fit
from regard.models import presets
from regard.runs.spec import RunSpec
from tests.cli.test_cli import regard

README = (Path(__file__).parent.parent / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_the_python_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is a run, as the pages before have it."""
    run = {
        "corpus": {"kind": "en-fr", "train": 60, "validation": 8, "test": 8, "level": "first"},
        "model": {"kind": "transformer-tiny", "width": 16, "depth": 1, "heads": 4},
        "batches": {"tokens": 256},
        "train": {"steps": 1},
    }
    monkeypatch.chdir(tmp_path)
    fit({**run, "device": "cpu", "out": "runs/mine"})
    names: dict[str, Any] = {}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), names)
    assert (tmp_path / "look.html").exists()
    assert names["look"]["decoder.blocks.3.cross.weights"].shape == (2, 4, 7, 9)
    assert names["best"][0][0].attention.shape == (len(names["best"][0][0].tokens), 9)


def test_the_run_files_are_run_files() -> None:
    for block in blocks("yaml"):
        RunSpec.parse(yaml.safe_load(block))


def test_as_many_checkpoints_stay_as_the_readme_averages() -> None:
    (count,) = re.findall(r"regard average \S+ --last (\d+)", README)
    run = next(yaml.safe_load(block) for block in blocks("yaml") if "runs/mine" in block)
    assert RunSpec.parse(run).train.keep >= int(count)


def test_the_commands_run() -> None:
    commands = re.findall(r"^\.venv/bin/regard (.*?)\s*(?:#.*)?$", README, re.MULTILINE)
    assert len(commands) == 4
    for command in commands:
        assert regard(*command.split()).returncode == 0, command


def test_the_number_of_presets_is_right() -> None:
    assert len(presets()) == 87
    assert "Eighty-seven presets" in README
