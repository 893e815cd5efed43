"""Reward models: the loss against formulas, what is read, what is measured, and what can't be learned from."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.core.inputs import Inputs
from regard.core.model import Model
from regard.data.batches import BatchSpec
from regard.data.prepared import Prepared
from regard.errors import DataError, InputError, SpecError
from regard.tasks.feedback.pairwise import AnswerPair, measure_accuracy, measure_calibration
from regard.tasks.reward import RewardBatch, RewardTask, RewardTaskSpec, group_by_length
from regard.train.optimizer import AdamW
from regard.train.schedule import Linear
from regard.train.spec import TrainSpec
from regard.train.trainer import Trainer
from tests.tasks.given_pairs import ask, draw_pairs, make_log, make_ready

KINDS = ["gpt2", "lstm", "mamba-130m", "bert-tiny"]


def build(task: RewardTaskSpec, prepared: Prepared, kind: str = "gpt2") -> Model:
    torch.manual_seed(1)
    heads = {"heads": 2} if kind in ("gpt2", "bert-tiny") else {}
    sizes: dict[str, Any] = {"width": 16, "depth": 1, "dropout": 0.0, **heads}
    spec = regard.preset(kind, vocabulary=len(prepared.lexicon.tokenizer), **sizes)
    return task.fit_model(spec, prepared.lexicon).build()


@torch.no_grad()
def read_alone(model: Model, row: list[int]) -> float:
    """The reward of one row by itself, from its states and the head's own weights."""
    state = model.features(torch.tensor([row]))
    return float(model.answer(state)[0, 0])


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_costs_the_sum_of_its_pairs_and_so_do_its_parts(tmp_path: Path, kind: str) -> None:
    task = RewardTaskSpec(margin=0.25, centre=0.1, smoothing=0.05)
    pairs = draw_pairs(6)
    pairs[1]["margin"] = 2.0
    prepared = make_ready(task, tmp_path, pairs)
    model = build(task, prepared, kind).double().eval()
    learner = task.build(prepared, BatchSpec(rows=6), 1)
    batch = learner.make_batch(list(range(6)), Random(1))
    assert learner.size(batch) == 6
    found = learner.loss(model, batch)
    wanted = 0.0
    for n in range(6):
        pair = learner.read_pair(n)
        one, two = read_alone(model, pair.chosen), read_alone(model, pair.rejected)
        ahead = one - two - (2.0 if n == 1 else 0.25)
        wanted += 0.95 * math.log1p(math.exp(-ahead)) + 0.05 * math.log1p(math.exp(ahead)) + 0.1 * (one + two) ** 2
    assert float(found.detach()) == pytest.approx(wanted, abs=1e-10)
    whole = torch.autograd.grad(found, list(model.parameters()), allow_unused=True)
    parts = [learner.loss(model, learner.make_batch(rows, Random(1))) for rows in ([0], [1, 2, 3], [4, 5])]
    split = torch.autograd.grad(sum(parts[1:], parts[0]), list(model.parameters()), allow_unused=True)
    for both in zip(whole, split, strict=True):
        if None not in both:
            torch.testing.assert_close(*both, atol=1e-12, rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_padding_on_either_side_changes_no_reward(tmp_path: Path, kind: str) -> None:
    task = RewardTaskSpec()
    prepared = make_ready(task, tmp_path, draw_pairs(4))
    model, learner = build(task, prepared, kind).eval().double(), task.build(prepared, BatchSpec(rows=4), 1)
    rows = [side for n in range(4) for side in (learner.read_pair(n).chosen, learner.read_pair(n).rejected)]
    assert len({len(row) for row in rows}) > 1
    alone = torch.tensor([read_alone(model, row) for row in rows], dtype=torch.float64)
    for side in ("right", "left"):
        found = model(Inputs.pad(rows, prepared.lexicon.tokenizer.pad, side))[:, 0]
        torch.testing.assert_close(found, alone, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("kind", ["gpt2", "lstm"])
def test_what_people_choose_is_learned_and_told(tmp_path: Path, kind: str) -> None:
    task = RewardTaskSpec()
    prepared = make_ready(task, tmp_path, draw_pairs(300), draw_pairs(60, seed=1))
    model = build(task, prepared, kind)
    learner = task.build(prepared, BatchSpec(rows=16), 1)
    spec = TrainSpec(steps=60, evaluate=0, optimizer=AdamW(rate=0.01), schedule=Linear(warmup=5))
    Trainer(model, learner, spec).run()
    judge = task.pipeline(model.eval(), prepared.lexicon)
    samples = prepared.samples("validation")
    found = task.measure(judge, samples)
    assert found["accuracy_low"] <= found["accuracy"] <= found["accuracy_high"]
    assert found["accuracy"] > 0.9 and found["loss"] < 0.4 and found["margin"] > 0
    assert found["pairs"] == 60
    assert learner.measure(model, lambda: None)["accuracy"] == found["accuracy"]
    scores = task.score_samples(judge, samples)
    assert scores.statistics["accuracy"].total() == pytest.approx(found["accuracy"])
    assert scores.statistics["calibration"].total() == pytest.approx(found["calibration"])
    [example] = task.demonstrate(judge, samples[:1])
    assert example.expected == (samples[0]["chosen"],) and "reward" in example.note
    [typed] = task.demonstrate(judge, [task.make_sample("cat\tplease red")])
    assert typed.given == ("cat", "please red")
    assert float(typed.answer[0]) == pytest.approx(judge.score("cat", "please red"), abs=1e-4)


def test_a_judge_reads_texts_and_messages_in_their_order(tmp_path: Path) -> None:
    task = RewardTaskSpec()
    prepared = make_ready(task, tmp_path, draw_pairs(8))
    judge = task.pipeline(build(task, prepared).eval(), prepared.lexicon)
    answers = ["red cat runs and sings please", "dog", "a bird", "red", "blue bird sleeps"] * 20
    rewards = judge.score_all(["cat"] * len(answers), answers)
    assert rewards == pytest.approx([judge.score(ask("cat"), answer) for answer in answers], abs=1e-5)
    assert judge.score("", "dog") != pytest.approx(judge.score("cat", "dog"), abs=1e-6)
    assert judge.score_all([], []) == []
    with pytest.raises(InputError, match="2 prompts and 1 answers"):
        judge.score_all(["a", "b"], ["c"])
    with pytest.raises(InputError, match="takes lists"):
        judge.score_all("a", "b")
    with pytest.raises(InputError, match="narrator"):
        judge.score([{"role": "narrator", "content": "cat"}], "dog")


def test_an_answer_that_the_model_has_no_positions_for_is_refused_and_not_cut(tmp_path: Path) -> None:
    task = RewardTaskSpec()
    prepared = make_ready(task, tmp_path, draw_pairs(8))
    torch.manual_seed(1)
    sizes: dict[str, Any] = {"width": 16, "depth": 1, "heads": 2, "context": 40}
    spec = regard.preset("gpt2", vocabulary=len(prepared.lexicon.tokenizer), **sizes)
    judge = task.pipeline(task.fit_model(spec, prepared.lexicon).build().eval(), prepared.lexicon)
    with pytest.raises(InputError, match=r"too many tokens: \d+ with the prompt's, and the model has positions for 40"):
        judge.score("cat", "red " * 40)


def test_pairs_that_say_nothing_are_left_out_counted_and_located(tmp_path: Path) -> None:
    pairs = draw_pairs(4)
    pairs += [
        {"prompt": ask("cat"), "chosen": "red", "rejected": "red"},
        {"prompt": ask("cat"), "chosen": "red", "rejected": "  "},
        {"prompt": ask("cat"), "chosen": "", "rejected": "red"},
        {"prompt": ask("cat"), "chosen": "red", "rejected": "dog", "margin": math.inf},
        {"prompt": [{"role": "narrator", "content": "cat"}], "chosen": "red", "rejected": "dog"},
        {"prompt": ask("cat" * 99), "chosen": "red", "rejected": "dog"},
    ]
    prepared, log = make_log(RewardTaskSpec(), tmp_path, pairs, draw_pairs(4))
    assert len(prepared) == 4 and log.kept == 8 and log.skipped == 6
    report = (prepared.folder / "rejected.txt").read_text().splitlines()
    assert [line.partition(": ")[0] for line in report] == [f"train.jsonl:{n}" for n in range(5, 11)]
    for line, reason in zip(report, ("equal", "empty", "empty", "margin", "narrator", "too many tokens"), strict=True):
        assert reason in line


def test_answers_whose_tokens_are_the_same_are_left_out_too(tmp_path: Path) -> None:
    strange = {"prompt": ask("cat"), "chosen": "ǅ", "rejected": "Ǆ"}  # letters that training doesn't know
    prepared, log = make_log(RewardTaskSpec(), tmp_path, draw_pairs(4), [*draw_pairs(2), strange])
    assert log.reasons == {"equal answers": 1} and len(prepared.samples("validation")) == 2
    with pytest.raises(DataError, match=r"validation: none of its 1 samples can be used, such as validation.jsonl:1"):
        make_ready(RewardTaskSpec(), tmp_path / "none", draw_pairs(4), [strange])


def test_calibration_compares_certainty_with_how_often_it_is_right() -> None:
    """Of a thousand pairs σ(d) of them have the chosen one ahead: no gap; all of them: one of 1 - σ(d)."""
    ahead, share = math.log(4.0), 0.8
    right = np.full(800, ahead), np.full(200, -ahead)
    assert measure_calibration(np.concatenate(right)).value == pytest.approx(0, abs=1e-9)
    assert measure_accuracy(np.concatenate(right)).value == share
    assert measure_calibration(right[0]).value == pytest.approx(1 - share)
    assert measure_accuracy(np.zeros(3)).value == 0.5  # neither is ahead
    assert measure_calibration(np.zeros(3)).value == 0


def test_an_encoder_and_a_decoder_together_are_refused(tmp_path: Path) -> None:
    task = RewardTaskSpec()
    prepared = make_ready(task, tmp_path, draw_pairs(4))
    with pytest.raises(SpecError, match="needs one of them"):
        task.fit_model(regard.preset("transformer-tiny", vocabulary=20), prepared.lexicon)
    with pytest.raises(SpecError, match="turns"):
        RewardTaskSpec(format="turn")


def test_rows_of_like_length_share_a_batch() -> None:
    lengths = [5, 100, 6, 7, 90, 5]
    groups = list(group_by_length(lengths, tokens=200, rows=3))
    assert sorted(n for group in groups for n in group) == list(range(6))
    assert groups == [[0, 5, 2], [3, 4], [1]]


def test_a_batch_has_half_as_many_pairs_as_rows(tmp_path: Path) -> None:
    task = RewardTaskSpec()
    prepared = make_ready(task, tmp_path, draw_pairs(50))
    learner: RewardTask = task.build(prepared, BatchSpec(tokens=400), 1)

    def sizes() -> Iterator[int]:
        for rows, _ in learner.order(0):
            yield int(learner.make_batch(rows, Random(0)).inputs.tokens.numel())

    assert max(sizes()) <= 400


def test_a_pair_is_one_call_of_the_model() -> None:
    batch = RewardBatch.lay_out([AnswerPair([1, 2, 3], [1, 4], 1)], [0.5], 0)
    assert batch.inputs.tokens.tolist() == [[1, 2, 3], [1, 4, 0]]
