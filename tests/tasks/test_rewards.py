"""Rewards of every kind, in runs that take a second: a judge goes where the run goes, and every number is checked."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
import torch

import regard
from regard.config import Document
from regard.core.plugins import LOADED
from regard.data.corpus import Generated, Split
from regard.data.sample import Form, Sample
from regard.errors import InputError, PluginError, SpecError
from regard.runs.evaluate import TestSet, evaluate
from regard.runs.examples import ask_run
from regard.runs.folder import Run
from regard.runs.load import load
from regard.runs.verify import verify
from regard.tasks.reward import Judge
from tests.tasks.prompting import TREE, Firsts, Steps, begin, find_step, start_task


def test_a_classifier_judges_and_goes_where_the_run_goes(tmp_path: Path) -> None:
    tree: dict[str, Any] = {
        "task": "classification",
        "corpus": {"kind": "grammaticality", "train": 60, "validation": 4, "test": 0, "level": "first"},
        "model": {"kind": "bert-tiny", "width": 16, "depth": 1, "heads": 2, "context": 64, "dropout": 0.0},
        "train": {"steps": 1, "evaluate": 0, "save": 1},
        "out": str(tmp_path / "judge"),
    }

    Run.begin(Document(tree)).trainer().run()
    reward = {"kind": "label", "run": str(tmp_path / "judge"), "label": "correct", "whole": True}
    with pytest.raises(SpecError, match="doesn't know the label 'fine'"):
        begin(tmp_path / "wrong", task={"reward": {**reward, "label": "fine"}})
    assert not (tmp_path / "wrong").exists()
    heard = Steps()
    begin(tmp_path / "first", train={"steps": 1}).trainer().run()
    told = {"task": {"reward": reward}, "train": {"steps": 4}, "start": str(tmp_path / "first")}
    begin(tmp_path / "run", **told).trainer([heard]).run()
    assert 0 < heard.found[0].costs["reward"] < 1
    for gone in ("judge", "first"):
        shutil.rmtree(tmp_path / gone)
    shutil.move(tmp_path / "run", tmp_path / "elsewhere")
    assert verify(tmp_path / "elsewhere", 4).exact
    writer = load(tmp_path / "elsewhere", kind=regard.Writer)
    assert writer.task is not None
    found = writer.task.measure(writer, [{"prompt": [{"role": "user", "content": "a"}]}] * 3)  # type: ignore[attr-defined]
    assert found["count"] == 3 and 0 <= found["kl"] < 1
    assert Run.open(tmp_path / "elsewhere").discard()
    assert not (tmp_path / "elsewhere").exists()


class Pairs(Generated):
    """Answers of one letter, of which the first letter of the word was chosen."""

    gives: ClassVar[tuple[Form, ...]] = ("preferences",)
    kind: Literal["first-pairs"] = "first-pairs"
    train: int = 20
    validation: int = 4
    test: int = 0

    def stream(self, form: Form, split: Split) -> Iterator[Sample]:
        for sample in Firsts().stream("prompts", split):
            yield {"prompt": sample["prompt"], "chosen": sample["answer"], "rejected": "no"}


def test_a_model_that_learned_rewards_judges(tmp_path: Path) -> None:
    """It reads words where the policy reads letters, so the two have other tokens."""

    judge: dict[str, Any] = {
        "task": "reward",
        "corpus": "first-pairs",
        "tokenizer": {"pieces": "byte"},
        "model": {"kind": "gpt2", "width": 16, "depth": 1, "heads": 2, "context": 64},
        "train": {"steps": 2, "evaluate": 0, "save": 2},
        "out": str(tmp_path / "judge"),
    }
    Run.begin(Document(judge)).trainer().run()
    heard = Steps()
    reward = {"kind": "judge", "run": str(tmp_path / "judge")}
    run = begin(tmp_path / "run", task={"reward": reward}, train={"steps": 2})
    run.trainer([heard]).run()
    task, _ = start_task(run)
    assert task.examiner is not None
    sample = {"prompt": [{"role": "user", "content": "ab"}]}
    answers = [task.tokenizer.encode([text])[0] for text in ("a", "dd")]
    wanted = load(tmp_path / "judge", kind=Judge).score_all([sample["prompt"]] * 2, ["a", "dd"])
    assert task.examiner.grade([sample] * 2, answers) == pytest.approx(wanted)
    assert wanted[0] != wanted[1]
    with pytest.raises(SpecError, match="is a writer, and can't score answers"):
        begin(tmp_path / "wrong", task={"reward": {**reward, "run": str(tmp_path / "run")}})


def test_text_is_learned_beside_rewards(tmp_path: Path) -> None:
    """Without rewards to learn from, the loss of the text is what there is; cutting a round changes none of it."""
    (tmp_path / "text").mkdir()
    for split in ("train", "validation"):
        (tmp_path / f"text/{split}.txt").write_text("abcd dcba abba\n\n" * 20)
    told: dict[str, Any] = {name: TREE[name] for name in ("model", "tokenizer", "train")}
    corpus = {"kind": "files", "train": "train.txt", "validation": "validation.txt"}
    tree = {**told, "task": {"kind": "language", "context": 16}, "corpus": corpus, "data": str(tmp_path / "text")}
    Run.begin(Document(tree | {"out": str(tmp_path / "language")})).trainer().run()
    mixture = {"run": str(tmp_path / "language"), "context": 8, "weight": 2.0}
    settings = {"mixture": mixture, "method": {"kind": "grpo", "beta": 0.0}, "epochs": 1}
    found = []
    for parts in (1, 4):
        task = {**settings, "minibatches": parts}
        run = begin(tmp_path / f"{parts}", task=task, start=str(tmp_path / "language"))
        found.append(find_step(run, parts))
    torch.testing.assert_close(found[1][0], found[0][0], rtol=0, atol=1e-6)  # text is lost in single precision
    assert 0.5 < found[0][1] < 6  # twice some nats a token
    shutil.rmtree(tmp_path / "language")
    assert verify(tmp_path / "4", 3).exact
    assert Run.open(tmp_path / "4").discard()
    with pytest.raises(SpecError, match="has no running text"):
        begin(tmp_path / "none", task={"mixture": {"run": str(tmp_path / "1")}})


REWARD = """
def grade_{name}(prompt, answer, sample):
    if {failing}:
        raise ValueError("no such answer")
    return {value}
"""


@pytest.fixture(autouse=True)
def forget_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LOADED, "plugins", {})


def use_reward(folder: Path, name: str, value: str, failing: str = "False") -> dict[str, Any]:
    path = folder / f"reward_{name}.py"
    path.write_text(REWARD.format(name=name, value=value, failing=failing))
    return {"uses": [str(path)], "task": {"reward": {"kind": "function", "name": f"grade_{name}"}}}


def test_a_function_of_a_plug_in_rewards(tmp_path: Path) -> None:
    heard = Steps()
    told = use_reward(tmp_path, "size", "len(prompt) + len(sample['answer'])")
    begin(tmp_path / "run", **told, train={"steps": 1}).trainer([heard]).run()
    assert 2 <= heard.found[0].costs["reward"] <= 5


def test_rewards_that_are_no_numbers_are_told_with_prompt_and_answer(tmp_path: Path) -> None:
    run = begin(tmp_path / "infinite", **use_reward(tmp_path, "infinite", "float('inf')"))
    with pytest.raises(InputError, match=r"inf isn't finite, for the answer '.*' to the prompt '[abcd]+'"):
        run.trainer().run()
    run = begin(tmp_path / "failing", **use_reward(tmp_path, "failing", "0", "True"))
    with pytest.raises(PluginError, match=r"grade_failing fails for the answer .* ValueError: no such answer"):
        run.trainer().run()
    run = begin(tmp_path / "missing", task={"reward": {"kind": "function", "name": "grade_nothing"}})
    with pytest.raises(PluginError, match="no plug-in that is loaded has a function grade_nothing"):
        run.trainer().run()


def test_sums_from_instruction_to_evaluation(tmp_path: Path) -> None:
    """The way of the recipes in a few steps: a supervised start, a policy, what `regard eval` and a report tell."""

    corpus = {"kind": "add", "train": 40, "validation": 6, "test": 5, "sizes": [1, 2], "test_sizes": [1, 2]}
    model = {"kind": "decoder-tiny", "width": 16, "depth": 1, "heads": 2}
    told: dict[str, Any] = {"corpus": corpus, "train": {"steps": 4, "evaluate": 2, "save": 2}}
    first = {"task": {"kind": "instruction", "context": 32}, "model": model, "tokenizer": {"pieces": "given"}}
    Run.begin(Document({**told, **first, "out": str(tmp_path / "first")})).trainer().run()
    task = {"kind": "policy", "reward": "right", "method": "ppo", "samples": 2, "most": 5, "validation": 4}
    second = {"task": task, "batches": {"rows": 4}, "start": str(tmp_path / "first")}
    report = Run.begin(Document({**told, **second, "out": str(tmp_path / "second")})).trainer().run()
    assert report.measures is not None and report.measures["count"] == 4
    found = evaluate([str(tmp_path / "second")], TestSet(), {}).measures
    assert found["count"] == 5 and found["kl_low"] <= found["kl"] <= found["kl_high"]
    assert 0 <= found["reward"] <= 1 and 0 <= found["greedy_reward"] <= 1 and 1 <= found["length"] <= 5
    asked = ask_run(str(tmp_path / "second"), 2, ["1 + 2"])
    assert not asked.notes
    assert [example.note[:6] for example in asked.examples] == ["reward", "reward", ""]  # a typed sum has no answer
