"""Rollouts and rounds: what is drawn for a row is its own, a batch changes no gradient, and a stop changes nothing."""

from __future__ import annotations

import json
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.config import Document
from regard.core.model import Model
from regard.data.dialogue import Transcript
from regard.errors import DataError, SpecError
from regard.runs.folder import Run
from regard.runs.load import load, load_beside
from regard.runs.verify import verify
from regard.tasks.feedback.divergence import diverge
from regard.tasks.feedback.likelihood import AnswerBatch
from regard.tasks.feedback.rollout import Round, Sampling, appraise, draw_answers, rest
from tests.tasks.prompting import TREE, Steps, begin, find_step, start_task

MODELS: dict[str, dict[str, Any]] = {
    "attention": {"kind": "gpt2", "width": 16, "depth": 1, "heads": 2, "context": 24, "dropout": 0.1},
    "lstm": {"kind": "lstm", "width": 16, "depth": 1, "dropout": 0.1},
    "mamba": {"kind": "mamba-130m", "width": 16, "depth": 1},
}
HOW = Sampling(end=3, pad=0, most=6)
PROMPTS = [[2, 5, 6, 7], [2, 9], [2, 4, 4, 4, 4, 8]]


def make(kind: str) -> Model:
    torch.manual_seed(2)
    settings = {**MODELS[kind], "vocabulary": 11}
    return regard.preset(str(settings.pop("kind")), **settings).build().double()


@pytest.mark.parametrize("kind", MODELS)
def test_a_row_draws_the_same_alone_and_among_others(kind: str) -> None:
    model, seeds = make(kind), list(range(6))
    found = draw_answers(model, PROMPTS, seeds, HOW, samples=2)
    for row, answer in enumerate(found):
        assert draw_answers(model, [PROMPTS[row // 2]], [seeds[row]], HOW) == [answer]
    assert len({tuple(answer) for answer in found}) > 3
    assert all(len(answer) <= HOW.most for answer in found)
    assert all(HOW.end not in answer[:-1] for answer in found)
    assert model.training  # as it was


def test_answers_come_as_often_as_the_model_says() -> None:
    """Two tokens at a temperature: each pair within four standard errors of its probability."""
    model, count = make("attention"), 4000
    how = Sampling(end=3, pad=0, most=2, temperature=0.7)
    drawn = draw_answers(model, [[2, 5]], list(range(count)), how, samples=count)
    with rest(model):
        first = (model(torch.tensor([[2, 5]]))[0, -1] / 0.7).log_softmax(-1)
        for token in (0, 5, 9):
            then = (model(torch.tensor([[2, 5, token]]))[0, -1] / 0.7).log_softmax(-1)
            for last in (1, 3, 8):
                share = float((first[token] + then[last]).exp())
                seen = drawn.count([token, last]) / count
                assert abs(seen - share) < 4 * (share * (1 - share) / count) ** 0.5


def test_answers_without_an_end_are_drawn_and_appraised_alike() -> None:
    """Where the end is never drawn, every other token is likelier by what it had."""
    model, count = make("attention"), 4000
    how = Sampling(end=3, pad=0, most=2, temperature=0.7, ends=False)
    drawn = draw_answers(model, [[2, 5]], list(range(count)), how, samples=count)
    assert all(len(answer) == 2 and 3 not in answer for answer in drawn)
    script = Transcript()
    script.add([2, 5], False)
    script.add([0, 8], True)
    model.eval()
    said = appraise(model, AnswerBatch.lay_out([script], 0), torch.ones(1, 2, dtype=torch.bool), how, False)
    (said.logs.sum() + said.entropy.sum()).backward()
    assert all(weight.grad is None or weight.grad.isfinite().all() for weight in model.parameters())
    with rest(model):
        logs = []
        for given in ([2, 5], [2, 5, 0]):
            shares = (model(torch.tensor([given]))[0, -1].double() / 0.7).softmax(-1)
            shares[3] = 0.0
            logs.append((shares / shares.sum()).log())
    torch.testing.assert_close(said.logs[0].double(), torch.stack([logs[0][0], logs[1][8]]), rtol=1e-4, atol=1e-5)
    own = torch.stack([-(log.exp() * log)[log.isfinite()].sum() for log in logs])
    torch.testing.assert_close(said.entropy[0].double(), own, rtol=1e-4, atol=1e-5)
    share = float((logs[0][0] + logs[1][8]).exp())
    assert abs(drawn.count([0, 8]) / count - share) < 4 * (share * (1 - share) / count) ** 0.5
    assert diverge(model, partial(rest, model), [[2, 5]], [[0, 8]], how) == [0.0]


def test_the_likeliest_answer_needs_no_seed() -> None:
    model = make("lstm")
    assert draw_answers(model, PROMPTS, None, HOW) == draw_answers(model, PROMPTS, None, HOW)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("method", ["ppo", "grpo"])
def test_the_first_ratio_is_one_to_the_bit(tmp_path: Path, kind: str, method: str) -> None:
    task, model = start_task(begin(tmp_path / "run", model=MODELS[kind], task={"method": method}))
    place = next(iter(task.batches(0, 0)))
    model.train()
    task.prepare(model, place.batch)
    assert task.round is not None
    rows = place.batch.rows
    now = appraise(
        model, task.round.lay_out(rows, task.tokenizer.pad), task.round.valid[rows], task.sampling, method == "ppo"
    )
    assert torch.equal(now.logs, task.round.tensors["logs"][rows])
    assert now.logs.requires_grad
    assert torch.equal(task.round.tensors["reference"], task.round.tensors["logs"])  # it hasn't moved yet


@pytest.mark.parametrize("method", ["ppo", "grpo"])
@pytest.mark.parametrize("average", ["token", "answer", "most"])
def test_micro_batches_change_no_gradient(tmp_path: Path, method: str, average: str) -> None:
    """However a round is cut, and so however its rows are padded, the sum of all parts is one gradient."""
    settings = {"kind": method, "average": average, "beta": 0.1, "entropy": 0.01}
    task = {"method": settings, "reward": {"kind": "right"}, "cut": 0.7, "epochs": 1}
    found = [
        find_step(begin(tmp_path / f"{parts}", task={**task, "minibatches": parts}), parts) for parts in (1, 2, 4, 12)
    ]
    for gradient, loss in found[1:]:
        torch.testing.assert_close(gradient, found[0][0], rtol=0, atol=1e-12)
        assert loss == pytest.approx(found[0][1], abs=1e-12)
    assert float(found[0][0].norm()) > 1e-3


def test_accumulating_is_one_step_of_fewer_batches(tmp_path: Path) -> None:
    """train.accumulate with twice the mini-batches: the same weights, to 1e-6."""
    models = []
    for parts in (1, 2):
        task = {"method": "grpo", "minibatches": parts, "cut": 0.5}
        train = {"steps": 3, "accumulate": parts, "optimizer": {"kind": "sgd", "rate": 0.1}}
        trainer = begin(tmp_path / f"{parts}", task=task, train=train).trainer()
        trainer.run()
        models.append(trainer.model)
    for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


@pytest.mark.parametrize("method", [{"kind": "ppo", "target": 0.1, "horizon": 50}, "grpo"])
def test_a_stop_in_the_middle_of_a_round_changes_nothing(tmp_path: Path, method: Any) -> None:
    """A round has four steps; the breaks come after its third and its first."""
    begin(tmp_path / "run", task={"method": method})
    assert verify(tmp_path / "run", 6).exact
    assert verify(tmp_path / "run", 10).exact


def test_a_round_survives_a_checkpoint() -> None:
    there = Round(3, 5, [[2, 5], [2]], [[7, 3], [4, 4, 4]], torch.tensor([1.0, 2.0]), {"logs": torch.randn(2, 3)})
    back = Round.unpack(there.pack(), torch.device("cpu"))
    assert (back.epoch, back.number, back.prompts, back.answers) == (3, 5, there.prompts, there.answers)
    assert torch.equal(back.rewards, there.rewards) and torch.equal(back.tensors["logs"], there.tensors["logs"])


def test_the_journal_tells_what_was_drawn_and_how_long_it_took(tmp_path: Path) -> None:
    heard = Steps()
    begin(tmp_path / "run", task={"method": "ppo"}).trainer([heard]).run()
    names = {"reward", "kl", "entropy", "length", "cut", "value_explained", "beta", "clipped"}
    assert names | {f"{part}_seconds" for part in ("rollout", "reward", "update")} == set(heard.found[0].costs)
    drawn = [step.step for step in heard.found if step.costs["rollout_seconds"]]
    assert drawn == [1, 5, 9]
    assert heard.found[0].costs["kl"] == 0.0  # nothing was learned yet


def test_every_prompt_is_seen_once_an_epoch(tmp_path: Path) -> None:
    task, _ = start_task(begin(tmp_path / "run", batches={"rows": 7}))
    places = list(islice(task.batches(0, 0), 4 * 5))
    seen = [json.dumps(sample) for place in places if place.epoch == 0 for sample in place.batch.samples]
    wanted = [json.dumps(json.loads(task.columns["sample"].read(n).tobytes())) for n in range(24)]
    assert sorted(seen) == sorted(wanted)
    assert places[15].share == 1.0
    assert [sum(map(len, place.batch.parts)) for place in places[:16:4]] == [18, 18, 18, 18]


def test_it_learns_what_is_rewarded(tmp_path: Path) -> None:
    train = {"steps": 240, "optimizer": {"kind": "adamw", "rate": 0.01}}
    settings = {"method": {"kind": "grpo", "beta": 0.0}, "samples": 8, "most": 2, "epochs": 1, "minibatches": 1}
    run = begin(tmp_path / "run", task=settings, train=train, batches={"rows": 12})
    report = run.trainer().run()
    assert report.measures is not None
    assert report.measures["reward"] > 0.8
    assert report.measures["reward_low"] <= report.measures["reward"] <= report.measures["reward_high"]


def test_a_run_with_a_value_is_used_and_sent_out_as_any(tmp_path: Path) -> None:
    run = begin(tmp_path / "run", task={"method": "ppo"}, train={"steps": 2})
    run.trainer().run()
    writer = load(tmp_path / "run", kind=regard.Writer)
    assert "head.worth.weight" in writer.model.state_dict()
    assert writer.write("ab", max_tokens=3)[0].tokens
    from regard.runs.convert import send

    send(str(tmp_path / "run"), "hf", tmp_path / "theirs")
    back = load(tmp_path / "theirs", kind=regard.Writer).model
    assert "head.worth.weight" not in back.state_dict()
    tokens = torch.tensor([[2, 5, 6]])
    with torch.no_grad():
        torch.testing.assert_close(back(tokens), writer.model(tokens))


def test_adapters_are_compared_with_the_model_without_them(tmp_path: Path) -> None:
    begin(tmp_path / "first", train={"steps": 2}).trainer().run()
    train = {"steps": 8, "adapt": {"kind": "lora", "rank": 2}}
    run = begin(tmp_path / "second", start=str(tmp_path / "first"), train=train)
    trainer = run.trainer()
    assert dict(trainer.model.named_parameters())["head.worth.weight"].requires_grad
    assert sum(weight.numel() for weight in trainer.first) < trainer.model.parameter_count() / 2  # no second copy
    base = load_beside(tmp_path / "second", "start")
    assert isinstance(base, regard.Writer)
    tokens = torch.tensor([[2, 5, 6]])
    trainer.run()
    with trainer.use_start() as start:
        torch.testing.assert_close(start(tokens), base.model(tokens))
    assert verify(tmp_path / "second", 6).exact


def test_a_prompt_that_fills_the_context_is_left_out_and_counted(tmp_path: Path) -> None:
    told: list[str] = []
    model = {**MODELS["attention"], "context": 6}
    tree = {**TREE, "task": {**TREE["task"], "most": 3}, "model": model, "out": str(tmp_path / "run")}
    run = Run.begin(Document(tree), told.append)
    lengths = [len(run.prepared().columns["prompt"][n]) for n in range(len(run.prepared()))]
    assert max(lengths) == 4 and len(lengths) < 24  # four tokens, and two of the three of an answer are read
    rejected = (tmp_path / "run/data/rejected.txt").read_text()
    assert "too many tokens for the model: 7, and its decoder has positions for 6" in rejected
    assert "train:sample" in rejected
    with pytest.raises(DataError, match="none of its"):
        begin(tmp_path / "none", task={"most": 7, "format": "turns"}, model={**MODELS["attention"], "context": 8})


def test_what_can_not_be_learned_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"task.samples: 1, and GRPO compares answers"):
        begin(tmp_path / "one", task={"method": "grpo", "samples": 1})
    with pytest.raises(SpecError, match=r"task.minibatches: 13, and a round has 12 answers"):
        begin(tmp_path / "parts", task={"minibatches": 13})
    with pytest.raises(SpecError, match=r"task.most: 24, and the model has places for 24"):
        begin(tmp_path / "most", task={"most": 24})
    with pytest.raises(SpecError, match="an encoder can't write"):
        begin(tmp_path / "encoder", model={"kind": "bert-tiny", "width": 16, "depth": 1, "heads": 2})
