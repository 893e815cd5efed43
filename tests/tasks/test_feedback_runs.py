"""Runs that learn from preferences: begun, broken off, verified, measured, asked and removed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.config import Document, assignments, merge
from regard.runs.evaluate import TestSet, evaluate
from regard.runs.flops import count_steps
from regard.runs.folder import Run
from regard.runs.plan import plan
from regard.runs.start import Start
from regard.runs.train import resume, train
from regard.runs.verify import verify
from regard.tasks.reward import Judge
from regard.train.listener import Listener, Step, history
from regard.train.moment import Moment
from tests.cli.test_cli import regard as type_regard
from tests.cli.test_verbs import told, typed
from tests.tasks.given_pairs import draw_pairs, know_pairs

PAIRS = {"kind": "given-pairs", "pairs": draw_pairs(40), "held": draw_pairs(8, seed=1)}
MODELS: dict[str, dict[str, Any]] = {
    "attention": {"kind": "gpt2", "width": 16, "depth": 1, "heads": 2, "context": 64, "dropout": 0.1},
    "lstm": {"kind": "lstm", "width": 16, "depth": 1},
    "mamba": {"kind": "mamba-130m", "width": 16, "depth": 1},
}
TASKS: dict[str, dict[str, Any]] = {
    "reward": {"kind": "reward", "dropout": 0.1},
    "preference": {"kind": "preference", "written": 4, "most": 6, "smoothing": 0.1},
    "simpo": {"kind": "preference", "loss": "simpo", "written": 0},
}


@pytest.fixture(scope="module", autouse=True)
def known() -> Iterator[None]:
    torch.set_num_threads(1)
    with know_pairs():
        yield


def describe(out: Path, task: str, model: str | None = "attention", *words: str) -> Document:
    tree: dict[str, Any] = {
        "task": TASKS[task],
        "corpus": PAIRS,
        "tokenizer": {"pieces": "character"},
        "batches": {"rows": 4},
        "train": {"steps": 8, "save": 3, "evaluate": 4, "accumulate": 2, "optimizer": {"rate": 0.01}},
        "device": "cpu",
        "out": str(out),
    }
    return Document(merge(tree | ({} if model is None else {"model": MODELS[model]}), assignments(words)))


class Ear(Listener):
    """Every loss and report to the bit, and an end by force after a step, if wanted."""

    def __init__(self, stop: int = 0) -> None:
        self.stop, self.found = stop, list[tuple[int, str, str]]()

    def on_step(self, step: Step, moment: Moment) -> None:
        self.found.append((step.step, step.loss.hex(), json.dumps(step.costs)))

    def on_save(self, path: Path) -> None:
        if self.stop and len(self.found) >= self.stop:
            raise KeyboardInterrupt


@pytest.mark.parametrize("task", TASKS)
def test_a_run_that_was_broken_off_goes_on_to_the_bit(task: str, tmp_path: Path) -> None:
    straight, broken, rest = Ear(), Ear(stop=3), Ear()
    whole = train(describe(tmp_path / "a", task), listeners=[straight])
    with pytest.raises(KeyboardInterrupt):
        train(describe(tmp_path / "b", task), listeners=[broken])
    gone_on = resume(tmp_path / "b", listeners=[rest])
    assert broken.found + rest.found == straight.found
    assert gone_on.report.measures == whole.report.measures
    assert {"margin", "accuracy"} <= json.loads(straight.found[0][2]).keys()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("task", ["reward", "preference"])
def test_verify_finds_the_same_bits(task: str, model: str, tmp_path: Path) -> None:
    run = Run.begin(describe(tmp_path / "run", task, model))
    proof = verify(run.folder, steps=4)
    assert proof.exact, (proof.straight, proof.resumed)


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model that has read a few words."""
    out = tmp_path_factory.mktemp("start") / "writer"
    with know_pairs():
        train(describe(out, "simpo"))
    return out


@pytest.fixture(scope="module")
def judge(writer: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reward model that began from it."""
    out = tmp_path_factory.mktemp("judges") / "judge"
    train(describe(out, "reward", None, f"start={writer}", "train.steps=30", "train.evaluate=30"))
    return out


def test_a_reward_model_has_the_start_s_weights_and_a_head_of_its_own(writer: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    run = Run.begin(describe(tmp_path / "run", "reward", None, f"start={writer}"), lines.append)
    fresh = next(line for line in lines if "new weights" in line)
    assert "head.classes.weight" in fresh and "blocks" not in fresh
    model, before = Start.recall(run.folder, 0).model, regard.load(writer, kind=regard.Writer).model.state_dict()
    shared = [name for name, weight in model.state_dict().items() if name in before]
    assert shared and all(torch.equal(model.state_dict()[name], before[name]) for name in shared)


def test_a_run_with_adapters_refers_to_the_model_without_them(writer: Path, tmp_path: Path) -> None:
    words = (f"start={writer}", "train.adapt=lora", "train.adapt.rank=2", "train.steps=4")
    run = Run.begin(describe(tmp_path / "run", "preference", None, *words))
    proof = verify(run.folder, steps=4)
    assert proof.exact, (proof.straight, proof.resumed)
    kept = (run.folder / "data" / "reference.train").read_bytes()
    whole = Run.begin(describe(tmp_path / "whole", "preference", None, f"start={writer}", "train.steps=2"))
    verify(whole.folder, steps=2)
    assert (whole.folder / "data" / "reference.train").read_bytes() == kept
    told = [line["costs"] for line in history(train_on(run) / "metrics.jsonl") if line["event"] == "step"]
    assert told[0]["margin"] == pytest.approx(0, abs=1e-5)  # adapters do nothing yet


def train_on(run: Run) -> Path:
    resume(run.folder)
    return run.folder


def test_a_run_of_preferences_is_measured_beside_its_start_and_removed_whole(writer: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = train(describe(out, "preference", None, f"start={writer}", "train.steps=12"))
    measures = done.report.measures
    assert measures is not None
    found = evaluate([f"{out}@latest"], TestSet(split="validation"), {}).measures
    for name in ("loss", "accuracy", "margin", "kl"):
        assert found[name] == pytest.approx(measures[name], abs=1e-5)
    assert {"ranking", "nats", "kl_low", "kl_high"} <= found.keys()
    assert (out / "data" / "reference.json").exists()
    assert type_regard("rm", str(out), "--yes").returncode == 0
    assert not out.exists()


def test_rewards_of_lines_come_in_their_order(judge: Path) -> None:
    pair = {"prompt": "cat", "chosen": "please red", "rejected": "red dog"}
    talk = {"messages": [{"role": "user", "content": "cat"}, {"role": "assistant", "content": "please red"}]}
    lines = [
        "please red",
        "cat\tplease red",
        json.dumps(pair),
        json.dumps(talk),
        '{"prompt": "cat", "answer": "red dog"}',
        json.dumps({"conversations": [{"from": "human", "value": "cat"}, {"from": "gpt", "value": "red dog"}]}),
        json.dumps({side: f"\n\nHuman: cat\n\nAssistant: {pair[side]}" for side in ("chosen", "rejected")}),
        '{"answer": "please red"}',
    ]
    found = told(typed("".join(f"{line}\n" for line in lines), "score", str(judge), "--json"))
    model = regard.load(judge, kind=Judge)
    assert [line["text"] for line in found] == lines
    assert found[0]["reward"] == pytest.approx(model.score("", "please red"), abs=1e-5)
    assert found[1]["reward"] == pytest.approx(model.score("cat", "please red"), abs=1e-5)
    assert found[2]["chosen"] == pytest.approx(found[1]["reward"], abs=1e-5)
    assert found[2]["rejected"] == pytest.approx(found[4]["reward"], abs=1e-5)
    assert found[2]["margin"] == pytest.approx(found[2]["chosen"] - found[2]["rejected"])
    assert found[3]["reward"] == pytest.approx(found[1]["reward"], abs=1e-5)
    assert found[5]["reward"] == pytest.approx(found[4]["reward"], abs=1e-5)
    assert found[6]["margin"] == pytest.approx(found[2]["margin"], abs=1e-5)
    assert found[7]["reward"] == pytest.approx(found[0]["reward"], abs=1e-5)
    plain = type_regard("score", str(judge), "cat\tplease red")
    reward, *rest = plain.stdout.rstrip("\n").split("\t")
    assert float(reward) == pytest.approx(found[1]["reward"], abs=1e-4) and rest == ["cat", "please red"]


def test_a_line_that_can_t_be_scored_loses_no_other(judge: Path, writer: Path) -> None:
    bad = [
        '{"prompt": "cat"}',
        '{"messages": [{"role": "user", "content": "x"}]}',
        "red " * 60,
        '{"prompt": [1], "answer": "x"}',
    ]
    done = typed("".join(f"{line}\n" for line in ["red", *bad, "", "{red"]), "score", str(judge), "--json")
    assert done.returncode == 3
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == 7
    assert all("error" in line for line in lines[1:5])
    assert lines[5]["reward"] is None and isinstance(lines[6]["reward"], float)  # an answer may begin with a brace
    assert "too many tokens" in lines[3]["error"]
    other = type_regard("score", str(writer), "red")
    assert other.returncode == 3 and "learned rewards" in other.stderr


def test_a_reward_run_is_shown_and_compared(judge: Path, tmp_path: Path) -> None:
    found = evaluate([str(judge)], TestSet(split="validation"), {}).measures
    assert found["accuracy"] > 0.5 and "calibration_high" in found
    other = tmp_path / "other"
    train(describe(other, "reward", "lstm", "train.steps=2"))
    compared = regard.compare([judge, other], split="validation")
    assert {"accuracy", "loss", "calibration"} <= compared.measures.keys() and compared.samples == 8


def test_a_run_is_planned_and_its_steps_are_counted(tmp_path: Path) -> None:
    document = describe(tmp_path / "run", "preference")
    assert plan(document).parameters > 0
    run = Run.begin(document)
    once, again = count_steps(run, 2), count_steps(run, 2)
    assert once == again  # what the reference costs is nobody's step
