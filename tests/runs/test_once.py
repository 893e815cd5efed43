"""What a run needs is made once: its family, its model drawn and built, its data verified, its weights read."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import regard
from regard.runs.evaluate import TestSet, evaluate
from regard.runs.train import resume, train
from tests.train.small import document

PACKAGE = str(Path(regard.__file__).parent)


def calls(work: Callable[[], Any]) -> Counter[str]:
    """How often each function of ours is called, by file and name."""
    found = Counter[str]()

    def count(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            found[f"{Path(code.co_filename).relative_to(PACKAGE)} {code.co_qualname}"] += 1

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def test_training_makes_everything_once(tmp_path: Path) -> None:
    done = calls(lambda: train(document(tmp_path / "run", "train.steps=2", "train.evaluate=2")))
    assert done["models/transformer.py compose"] == 1
    assert done["core/model.py ModelSpec.build"] == 2  # drawn when the file is read, built when its tokens are known
    assert done["core/model.py Model.reset"] == 1  # of these, one has weights
    assert done["data/prepared.py Prepared.load"] == 1
    again = calls(lambda: resume(tmp_path / "run", ["train.steps=3"]))
    assert again["data/prepared.py Prepared.load"] == again["core/model.py Model.reset"] == 1


def test_evaluating_loads_the_model_once(tmp_path: Path) -> None:
    train(document(tmp_path / "run", "train.steps=2", "train.evaluate=2"))
    done = calls(lambda: evaluate([str(tmp_path / "run")], TestSet(), {}))
    assert done["runs/load.py load_model"] == 1
    assert done["data/prepared.py Prepared.load"] == 1
