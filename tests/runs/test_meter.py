"""Long work tells how far it is, to whoever listens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from regard.config import read
from regard.host.meter import Advance, Meter
from regard.runs.average import average
from regard.runs.convert import bring, send
from regard.runs.evaluate import TestSet, evaluate
from regard.runs.index import search
from regard.runs.plan import plan
from regard.runs.train import train
from regard.runs.verify import verify
from tests.runs.test_tasks import RUNS, TRAIN
from tests.train.small import document


class Noted(Meter):
    """What was told, and how much of it was done."""

    def __init__(self) -> None:
        self.done: dict[str, int] = {}
        self.totals: dict[str, int | None] = {}

    @contextmanager
    def watch(self, what: str, total: int | None = None) -> Iterator[Advance]:
        name = what.partition(" ")[0].strip(",")
        self.done[name], self.totals[name] = 0, total

        def advance(count: int = 1) -> None:
            self.done[name] += count

        yield advance


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("metered")
    heard = Noted()
    train(document(folder / "run", "train.steps=4", "train.evaluate=0", "train.save=2"), meter=heard)
    assert heard.done["reading"] == 324
    assert heard.done["cutting"] == heard.totals["cutting"] == 300
    assert "learning" in heard.done
    return folder / "run"


def test_verifying_counts_steps(run: Path) -> None:
    heard = Noted()
    verify(run, 4, heard)
    assert heard.done["verifying"] == heard.totals["verifying"] == 8


def test_averaging_counts_checkpoints_and_weights(run: Path) -> None:
    heard = Noted()
    average(run, last=2, meter=heard)
    assert heard.done["reading"] == 2
    assert heard.done["averaging"] == heard.totals["averaging"]


def test_planning_and_evaluating_count(run: Path) -> None:
    heard = Noted()
    plan(read(run / "run.yaml").change(["train.epochs=1", "train.steps=null"]), heard)
    assert heard.done["counting"] == 300 and heard.done["measuring"] > 0
    evaluate([f"{run}@latest"], TestSet(), {"beam": 1}, meter=heard)
    assert heard.done["evaluating"] == 2  # a batch for the likelihood, and one for the translations


@pytest.mark.parametrize("name", ["language", "embedding"])
def test_every_task_counts_what_it_evaluates(name: str, tmp_path: Path) -> None:
    usual = {
        "tokenizer": {"vocabulary": 200},
        "batches": {"tokens": 256},
        "device": "cpu",
        "out": str(tmp_path / "run"),
    }
    tree = {**usual, **RUNS[name], "train": {**TRAIN, "steps": 2, "evaluate": 0}}
    (tmp_path / "run.yaml").write_text(json.dumps(tree))
    train(read(tmp_path / "run.yaml"))
    heard = Noted()
    evaluate([str(tmp_path / "run")], TestSet(), {}, meter=heard)
    assert heard.done["evaluating"] > 0
    if name == "embedding":
        (tmp_path / "lines.txt").write_text("the cat\n" * 7)
        search(tmp_path / "lines.txt", "a dog", str(tmp_path / "run"), 1, meter=heard)
        assert heard.done["making"] == heard.totals["making"] == 7


def test_bringing_in_and_sending_out_count_tensors(tmp_path: Path) -> None:
    tree = document(tmp_path / "run", "train.steps=2", "train.evaluate=0").tree
    tree |= {
        "task": {"kind": "language", "context": 32},
        "model": {"kind": "gpt2", "width": 16, "depth": 1, "heads": 2},
    }
    (tmp_path / "run.yaml").write_text(json.dumps(tree))
    train(read(tmp_path / "run.yaml"))
    heard = Noted()
    send(str(tmp_path / "run"), "hf", tmp_path / "hf", meter=heard)
    assert "writing" in heard.done
    bring(str(tmp_path / "hf"), None, False, heard)
    assert heard.done["reading"] > 10
