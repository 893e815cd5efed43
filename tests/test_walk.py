"""A random walk over verbs among files of others, killed at random moments: whatever isn't ours stays as it was."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(("actions", "seed"), [(25, 5), pytest.param(500, 2, marks=pytest.mark.long)])
def test_what_is_not_ours_is_unchanged_after_any_walk(actions: int, seed: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.walking", str(tmp_path), str(actions), str(seed)]
    root = Path(__file__).parent.parent
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["killed"] >= actions // 10  # so many were ended in the middle
    assert sum(found["done"].values()) >= actions // 10  # and so many came to their end
