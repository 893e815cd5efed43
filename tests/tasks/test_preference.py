"""Preferences: losses of whole batches against plain loops, the reference on disk, and what is measured."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.core.model import Model, ModelSpec
from regard.data.batches import BatchSpec
from regard.data.dialogue import Transcript
from regard.data.prepared import Prepared, discard
from regard.errors import InputError, SpecError
from regard.tasks.feedback.divergence import measure_divergence
from regard.tasks.feedback.likelihood import AnswerBatch, find_logs
from regard.tasks.feedback.pairwise import AnswerPair
from regard.tasks.feedback.reference import FACTS, digest_weights
from regard.tasks.feedback.rollout import Sampling
from regard.tasks.preference import PreferenceBatch, PreferenceTask, PreferenceTaskSpec
from regard.train.adapt import Lora
from regard.train.optimizer import AdamW
from regard.train.spec import TrainSpec
from regard.train.trainer import Trainer
from tests.tasks.enumerable import find_divergence, list_sequences, score_sequences
from tests.tasks.given_pairs import draw_pairs, make_ready

KINDS = ["gpt2", "lstm", "mamba-130m"]
LOSSES = ["dpo", "ipo", "simpo", "orpo"]


def choose_model(kind: str, vocabulary: int, **settings: Any) -> ModelSpec:
    heads = {"heads": 2} if kind == "gpt2" else {}
    return regard.preset(kind, width=16, depth=1, vocabulary=vocabulary, **{"dropout": 0.0, **heads, **settings})


def build(task: PreferenceTaskSpec, prepared: Prepared, kind: str = "gpt2", **settings: Any) -> Model:
    torch.manual_seed(1)
    spec = choose_model(kind, len(prepared.lexicon.tokenizer), **settings)
    return task.fit_model(spec, prepared.lexicon).build()


@torch.no_grad()
def score_alone(model: Model, tokens: list[int], prompt: int) -> list[float]:
    """log p of every token behind a prompt, each by a call of its own."""
    return [
        float(model(torch.tensor([tokens[:place]]))[0, -1].log_softmax(-1)[tokens[place]])
        for place in range(prompt, len(tokens))
    ]


def cost_alone(task: PreferenceTaskSpec, chosen: list[float], rejected: list[float], before: Any) -> float:
    """The papers' formulas on the log-probabilities of tokens."""
    beta, sums, sizes = task.strength, (sum(chosen), sum(rejected)), (len(chosen), len(rejected))
    if task.refers:
        ahead = (sums[0] - sum(before[0])) - (sums[1] - sum(before[1]))
        if task.loss == "ipo":
            return (ahead - 1 / (2 * beta)) ** 2
        share = task.smoothing
        return (1 - share) * math.log1p(math.exp(-beta * ahead)) + share * math.log1p(math.exp(beta * ahead))
    means = sums[0] / sizes[0], sums[1] / sizes[1]
    if task.loss == "simpo":
        return math.log1p(math.exp(-(beta * means[0] - beta * means[1] - task.gamma)))
    odds = [math.log(math.exp(mean) / (1 - math.exp(mean))) for mean in means]
    return -means[0] + beta * math.log1p(math.exp(-(odds[0] - odds[1])))


@contextmanager
def hold(model: Model) -> Iterator[Model]:
    yield model


def begin(task: PreferenceTaskSpec, prepared: Prepared, start: Model, rows: int = 8) -> PreferenceTask:
    learner = task.build(prepared, BatchSpec(rows=rows), 1)
    learner.begin(start, lambda: hold(start.eval()), lambda: None)
    return learner


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LOSSES)
def test_a_batch_costs_what_a_plain_loop_finds(tmp_path: Path, kind: str, name: str) -> None:
    smoothing = 0.1 if name == "dpo" else 0.0
    task = PreferenceTaskSpec(loss=name, smoothing=smoothing)
    prepared = make_ready(task, tmp_path, draw_pairs(5))
    start, model = build(task, prepared, kind).double(), build(task, prepared, kind).double()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.1)
    learner = task.build(prepared, BatchSpec(rows=5), 1)
    pairs = [learner.read_pair(n) for n in range(5)]
    wanted, before = 0.0, []
    with torch.no_grad():
        for pair in pairs:
            sides = [
                [score_alone(own, tokens, pair.prompt) for tokens in (pair.chosen, pair.rejected)]
                for own in (model, start)
            ]
            before.append(np.array([*sides[1][0], *sides[1][1]]))
            wanted += cost_alone(task, sides[0][0], sides[0][1], sides[1])
    known = before if task.refers else None
    batch = PreferenceBatch.lay_out(pairs, prepared.lexicon.tokenizer.pad, known)
    found = learner.loss(model, batch)
    assert learner.size(batch) == 5
    assert float(found.detach()) == pytest.approx(wanted, abs=1e-10)
    # the same of parts, which have other pads
    whole = torch.autograd.grad(found, list(model.parameters()), allow_unused=True)
    parts = [
        learner.loss(
            model,
            PreferenceBatch.lay_out(pairs[part], prepared.lexicon.tokenizer.pad, before[part] if known else None),
        )
        for part in (slice(0, 1), slice(1, 3), slice(3, 5))
    ]
    split = torch.autograd.grad(sum(parts[1:], parts[0]), list(model.parameters()), allow_unused=True)
    for one, two in zip(whole, split, strict=True):
        if one is not None and two is not None:
            torch.testing.assert_close(one, two, atol=1e-11, rtol=1e-9)
    assert sum(float(part.detach()) for part in parts) == pytest.approx(float(found.detach()), abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_pads_on_either_side_change_neither_logs_nor_gradients(kind: str) -> None:
    torch.manual_seed(1)
    model = choose_model(kind, 11).build().double()
    rows = [
        Transcript([2, 5, 6, 7, 3, 9], [False, False, True, True, True, True]),
        Transcript([2, 9, 3], [False, False, True]),
        Transcript([2, 4, 4, 8], [False, False, False, True]),
    ]
    alone = [find_logs(model, AnswerBatch.lay_out([row], 0)).sum() for row in rows]
    gradient = torch.autograd.grad(sum(alone[1:], alone[0]), list(model.parameters()), allow_unused=True)
    for side in ("right", "left"):
        batch = AnswerBatch.lay_out(rows, 0, side)
        found = find_logs(model, batch)
        torch.testing.assert_close(found.sum(1), torch.stack(alone), atol=1e-12, rtol=1e-12)
        padded = torch.autograd.grad(found.sum(), list(model.parameters()), allow_unused=True)
        for one, two in zip(gradient, padded, strict=True):
            if one is not None and two is not None:
                torch.testing.assert_close(one, two, atol=1e-11, rtol=1e-9)


def test_the_reference_is_computed_once_and_again_only_where_it_must_be(tmp_path: Path) -> None:
    task = PreferenceTaskSpec()
    prepared = make_ready(task, tmp_path, draw_pairs(20), draw_pairs(5, seed=1))
    start = build(task, prepared)
    calls: list[int] = []

    def run(model: Model) -> PreferenceTask:
        calls.clear()
        learner = task.build(prepared, BatchSpec(rows=4), 1)
        learner.begin(model, lambda: hold(model.eval()), lambda: calls.append(1))
        return learner

    learner = run(start)
    assert calls
    for n in range(20):
        pair = learner.read_pair(n)
        wanted = [*score_alone(start, pair.chosen, pair.prompt), *score_alone(start, pair.rejected, pair.prompt)]
        assert learner.kept["train"].read(n).tolist() == pytest.approx(wanted, abs=1e-5)
    assert len(learner.kept["validation"]) == 5
    assert not list(prepared.folder.glob("*.tmp-*"))
    run(start)
    assert not calls  # it is read from disk
    file = prepared.folder / "reference.train"
    kept = file.read_bytes()
    for damaged in (kept[:-4], bytes([kept[0] ^ 1]) + kept[1:], b""):
        file.write_bytes(damaged)
        run(start)
        assert calls and file.read_bytes() == kept
    (prepared.folder / FACTS).write_text("{")
    run(start)
    assert calls
    other = build(task, prepared)
    with torch.no_grad():
        next(other.parameters()).add_(0.01)
    run(other)
    assert calls and file.read_bytes() != kept
    assert Prepared.load(prepared.folder).digest == prepared.digest  # nothing else is touched
    assert discard(prepared.folder)  # all of it is ours


def test_a_reference_that_was_cut_short_leaves_nothing_behind(tmp_path: Path) -> None:
    task = PreferenceTaskSpec()
    prepared = make_ready(task, tmp_path, draw_pairs(20))
    start = build(task, prepared)

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        task.build(prepared, BatchSpec(rows=4), 1).begin(start, lambda: hold(start), stop)
    assert not list(prepared.folder.glob("reference*"))
    stray = prepared.folder / "reference.train.ends.tmp-99999"  # of a process that was killed
    stray.write_bytes(b"")
    assert discard(prepared.folder)


def test_a_start_of_other_tokens_is_refused_with_both_counts(tmp_path: Path) -> None:
    task = PreferenceTaskSpec()
    prepared = make_ready(task, tmp_path, draw_pairs(4))
    known = len(prepared.lexicon.tokenizer)
    other = choose_model("gpt2", known - 3).build()
    with pytest.raises(
        SpecError, match=f"the reference knows {known - 3} tokens, and the answers are written in {known}"
    ):
        begin(task, prepared, other)


@pytest.mark.parametrize("name", LOSSES)
def test_the_chosen_answers_come_ahead_and_the_journal_tells_it(tmp_path: Path, name: str) -> None:
    task = PreferenceTaskSpec(loss=name, written=6, most=8)
    prepared = make_ready(task, tmp_path, draw_pairs(60), draw_pairs(12, seed=1))
    model = build(task, prepared, dropout=0.1)
    told: list[Mapping[str, float]] = []
    measured: list[Mapping[str, Any]] = []

    from regard.train.listener import Listener, Step
    from regard.train.moment import Moment

    class Ear(Listener):
        def on_step(self, step: Step, moment: Moment) -> None:
            told.append(step.costs)

        def on_evaluation(self, moment: Moment, measures: Mapping[str, Any], best: bool) -> None:
            measured.append(measures)

    spec = TrainSpec(steps=20, evaluate=20, accumulate=2, optimizer=AdamW(rate=0.01))
    Trainer(model, task.build(prepared, BatchSpec(rows=4), 1), spec, [Ear()]).run()
    first, last = told[0], told[-1]
    assert {"reward_chosen", "reward_rejected", "margin", "accuracy"} <= first.keys()
    assert first["margin"] == pytest.approx(first["reward_chosen"] - first["reward_rejected"], abs=1e-6)
    assert ("kl_reference" in first) == task.refers
    if task.refers:  # both models are the same before the first step, since nothing is dropped
        assert first["margin"] == pytest.approx(0, abs=1e-5) and first["kl_reference"] == pytest.approx(0, abs=1e-5)
        assert last["kl_reference"] > 0
    assert last["margin"] > first["margin"]
    found = measured[-1]
    for measure in ("loss", "accuracy", "margin", "kl"):
        assert found[f"{measure}_low"] <= found[measure] <= found[f"{measure}_high"]
    assert found["kl"] > 0 and found["pairs"] == 12


def test_the_reference_of_a_run_with_adapters_is_its_base(tmp_path: Path) -> None:
    task = PreferenceTaskSpec()
    prepared = make_ready(task, tmp_path, draw_pairs(12))
    model, base = build(task, prepared), build(task, prepared)
    spec = TrainSpec(steps=3, evaluate=0, optimizer=AdamW(rate=0.05), adapt=Lora(rank=2, targets=("*.query",)))
    learner = task.build(prepared, BatchSpec(rows=4), 1)
    trainer = Trainer(model, learner, spec)
    trainer.run()
    for n in range(12):
        pair = learner.read_pair(n)
        wanted = [*score_alone(base, pair.chosen, pair.prompt), *score_alone(base, pair.rejected, pair.prompt)]
        assert learner.kept["train"].read(n).tolist() == pytest.approx(wanted, abs=1e-5)
    tokens = torch.tensor([learner.read_pair(0).chosen])
    with torch.no_grad():
        trained = model.eval()(tokens)
        assert not torch.allclose(trained, base.eval()(tokens), atol=1e-4)
        with trainer.use_start() as start:
            torch.testing.assert_close(start(tokens), base(tokens))
        torch.testing.assert_close(model(tokens), trained)
    assert all(not weight.requires_grad for name, weight in model.named_parameters() if "original" in name)


def test_the_divergence_of_written_answers_is_the_enumerated_one() -> None:
    """All sequences of two small models are written down; the estimate lies in four of its standard errors."""
    torch.manual_seed(1)
    models = [choose_model("lstm", 4).build().eval().double() for _ in range(2)]
    with torch.no_grad():
        for weight in models[0].parameters():
            weight.mul_(3)
        sequences = list_sequences(4, 3, 1)
        exact = float(find_divergence(*(score_sequences(model, sequences) for model in models)))
    how = Sampling(end=1, pad=0, most=3)
    found = measure_divergence(models[0], lambda: hold(models[1]), [[0]] * 400, how)
    error = (found["kl_high"] - found["kl_low"]) / 4
    assert abs(found["kl"] - exact) < 4 * error and error < 0.1 * exact


def test_settings_that_a_loss_has_no_use_for_are_refused() -> None:
    with pytest.raises(SpecError, match="ipo"):
        PreferenceTaskSpec(loss="ipo", smoothing=0.1)
    with pytest.raises(SpecError, match="per_token"):
        PreferenceTaskSpec(loss="dpo", per_token=True)
    assert [PreferenceTaskSpec(loss=name).strength for name in LOSSES] == [0.1, 0.1, 2.0, 0.1]


def test_an_encoder_is_refused_and_dropout_is_off_unless_wanted(tmp_path: Path) -> None:
    prepared = make_ready(PreferenceTaskSpec(), tmp_path, draw_pairs(4))
    with pytest.raises(SpecError, match="encoder"):
        PreferenceTaskSpec().fit_model(regard.preset("bert-tiny", vocabulary=20), prepared.lexicon)
    spec = choose_model("gpt2", 20, dropout=0.3)
    assert '"dropout": 0.3' not in json.dumps(PreferenceTaskSpec().fit_model(spec, prepared.lexicon).model_dump())
    kept = PreferenceTaskSpec(dropout=True).fit_model(spec, prepared.lexicon)
    assert '"dropout": 0.3' in json.dumps(kept.model_dump())


def test_weights_have_digests_of_their_own() -> None:
    torch.manual_seed(1)
    model = choose_model("gpt2", 9).build()
    before = digest_weights(model)
    assert before == digest_weights(model)
    with torch.no_grad():
        next(model.parameters())[0, 0] += 1e-3
    assert digest_weights(model) != before


def test_a_batch_has_the_chosen_answers_first() -> None:
    pairs = [AnswerPair([1, 2, 3, 4], [1, 2, 5], 2), AnswerPair([1, 6, 7], [1, 8, 9, 3], 1)]
    told = [np.array([-1.0, -2.0, -3.0]), np.array([-4.0, -5.0, -6.0, -7.0, -8.0])]
    batch = PreferenceBatch.lay_out(pairs, 0, told)
    assert batch.answers.targets.tolist() == [[2, 3, 4], [6, 7, 0], [2, 5, 0], [8, 9, 3]]
    assert batch.reference is not None
    assert batch.reference.tolist() == [[0, -1, -2], [-4, -5, 0], [0, -3, 0], [-6, -7, -8]]


def test_a_split_that_is_missing_is_added_to_those_that_are_there(tmp_path: Path) -> None:
    task = PreferenceTaskSpec()
    prepared = make_ready(task, tmp_path, draw_pairs(6), draw_pairs(4, seed=1))
    start = build(task, prepared).eval()
    measuring = task.build(prepared, BatchSpec(rows=4), 1)
    measuring.validation = []  # as where steps are only counted
    calls: list[int] = []
    measuring.begin(start, lambda: hold(start), lambda: calls.append(1))
    first = (prepared.folder / "reference.train").stat().st_mtime_ns
    learner = begin(task, prepared, start)
    assert set(learner.kept) == {"train", "validation"}
    assert (prepared.folder / "reference.train").stat().st_mtime_ns == first


def test_examples_are_answers_that_it_writes(tmp_path: Path) -> None:
    task = PreferenceTaskSpec(most=5)
    prepared = make_ready(task, tmp_path, draw_pairs(6))
    writer = task.pipeline(build(task, prepared).eval(), prepared.lexicon)
    samples = [*prepared.samples("validation")[:1], task.make_sample("cat")]
    shown, typed = task.demonstrate(writer, samples)
    assert shown.expected == (samples[0]["chosen"],) and len(shown.answer) == 1
    assert typed.given == ("cat",) and typed.expected == ()


def test_batches_can_be_counted_before_a_run_begins(tmp_path: Path) -> None:
    task = PreferenceTaskSpec()
    prepared = make_ready(task, tmp_path, draw_pairs(6))
    learner = task.build(prepared, BatchSpec(rows=4), 1)
    batch = learner.make_batch([0, 1], Random(1))
    assert learner.size(batch) == 2
    with pytest.raises(InputError, match="began from"):
        learner.loss(build(task, prepared), batch)
