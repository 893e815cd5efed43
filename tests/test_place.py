"""The suite passes wherever a clone stands: in a path with spaces, accents and an @, and called as the package is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def own_runs(folder: str) -> set[str]:
    """The folder of whoever trained in this clone; the package has a room of that name."""
    return {"runs"} if Path(folder) == ROOT else set()


@pytest.mark.long
@pytest.mark.parametrize("name", ["two words", "été à Genève", "me@home", "regard"])
def test_the_suite_passes_in_a_folder_of_any_name(name: str, tmp_path: Path) -> None:
    place = tmp_path / name / "regard"
    hidden = shutil.ignore_patterns(".*", "__pycache__")
    shutil.copytree(ROOT, place, ignore=lambda folder, names: {*hidden(folder, names), *own_runs(folder)})
    temporary = tmp_path / name / "temporary"
    temporary.mkdir()
    own = {"PYTHONPATH": str(place), "PYTEST_DEBUG_TEMPROOT": str(temporary), "TMPDIR": str(temporary)}
    suite = ["-m", "not long", "--maxfail=9", "--ignore=tests/laws", "--ignore=tests/parity"]
    command = [sys.executable, "-m", "pytest", *suite]
    done = subprocess.run(command, cwd=place, env=os.environ | own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
