"""Losses of pairs against trl's own code, on the same tensors: `pip install regard[trl]`, else these are skipped."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.core.model import Model
from regard.tasks.feedback.likelihood import find_logs
from regard.tasks.feedback.margin import Likelihood, lose_bradley_terry, lose_dpo, lose_orpo, lose_simpo
from regard.tasks.feedback.pairwise import AnswerPair
from regard.tasks.preference import PreferenceBatch, PreferenceTaskSpec

pytestmark = pytest.mark.filterwarnings("ignore")  # others' deprecations aren't ours
pytest.importorskip("trl", reason="trl isn't installed: pip install regard[trl]")

PAIRS = [
    AnswerPair([2, 5, 6, 7, 3], [2, 5, 8, 3], 2),
    AnswerPair([2, 9, 3], [2, 9, 9, 4, 4, 3], 1),
    AnswerPair([2, 4, 4, 8, 3], [2, 4, 4, 7, 3], 3),
]


def same(value: Tensor) -> Tensor:
    return value


class Collector(SimpleNamespace):
    """What one process has of accelerate's."""

    device = torch.device("cpu")
    gather: Callable[[Tensor], Tensor] = staticmethod(same)
    gather_for_metrics: Callable[[Tensor], Tensor] = staticmethod(same)


def build(seed: int) -> Model:
    torch.manual_seed(seed)
    return regard.preset("gpt2", width=16, depth=2, heads=2, vocabulary=11, dropout=0.0).build().double()


def answer(model: Model, tokens: Tensor, mask: Tensor) -> SimpleNamespace:
    """What trl asks of a model: the log-probability of every next token, 0 where it isn't an answer's."""
    logits = model(tokens)[:, :-1]
    logs = logits.log_softmax(-1).gather(2, tokens[:, 1:, None])[..., 0] * mask[:, 1:]
    nothing = torch.zeros_like(logs)
    return SimpleNamespace(log_probs=logs, entropy=nothing, mean_logits=nothing, is_top1=nothing.bool())


def lose_by_trl(model: Model, start: Model, kind: str, beta: float) -> Tensor:
    from trl.trainer.dpo_trainer import DPOTrainer

    rows = [pair.chosen for pair in PAIRS] + [pair.rejected for pair in PAIRS]
    time = max(map(len, rows))
    tokens = torch.tensor([row + [0] * (time - len(row)) for row in rows])
    spans = [(pair.prompt, len(row)) for pair, row in zip(PAIRS * 2, rows, strict=True)]
    mask = torch.tensor([[int(first <= n < last) for n in range(time)] for first, last in spans])
    with torch.no_grad():
        before = answer(start, tokens, mask).log_probs.sum(1)
    trainer = SimpleNamespace(
        accelerator=Collector(), model=model, aux_loss_enabled=False, ld_alpha=None, precompute_ref_logps=True,
        f_divergence_type="reverse_kl", loss_types=[kind], loss_weights=[1.0], beta=beta, label_smoothing=0.0,
        use_weighting=False, _metrics=defaultdict(lambda: defaultdict(list)), _total_train_tokens=0, _tp_size=1,
    )  # fmt: skip
    inputs = {
        "input_ids": tokens,
        "attention_mask": (tokens != 0).long(),
        "completion_mask": mask,
        "ref_chosen_logps": before[:3],
        "ref_rejected_logps": before[3:],
    }
    found: Tensor = DPOTrainer._compute_loss(trainer, lambda **_: answer(model, tokens, mask), inputs, False)
    return found


@pytest.mark.parametrize(("name", "kind"), [("dpo", "sigmoid"), ("ipo", "ipo")])
def test_a_batch_costs_what_it_costs_in_trl_and_so_do_its_gradients(name: Any, kind: str) -> None:
    model, start = build(1), build(2)
    task = PreferenceTaskSpec(loss=name, beta=0.3, per_token=name == "ipo")
    batch = PreferenceBatch.lay_out(PAIRS, 0)
    with torch.no_grad():
        before = find_logs(start, batch.answers).sum(1).view(2, -1)
    sizes = batch.answers.learned.sum(1).view(2, -1)
    ours = task.weigh(find_logs(model, batch.answers).sum(1).view(2, -1), sizes, before).loss.mean()
    theirs = lose_by_trl(model, start, kind, 0.3)
    assert float(ours.detach()) == pytest.approx(float(theirs.detach()), abs=1e-12)
    weights = list(model.parameters())
    for one, two in zip(torch.autograd.grad(ours, weights), torch.autograd.grad(theirs, weights), strict=True):
        torch.testing.assert_close(one, two, atol=1e-12, rtol=1e-9)


def test_rewards_cost_what_they_cost_in_trl() -> None:
    from trl.trainer.reward_trainer import RewardTrainer

    torch.manual_seed(1)
    rewards, margins = torch.randn(8, dtype=torch.float64), torch.rand(4, dtype=torch.float64)
    rewards.requires_grad_()
    trainer = SimpleNamespace(
        model=SimpleNamespace(training=True), args=SimpleNamespace(center_rewards_coefficient=0.05),
        accelerator=Collector(), _metrics=defaultdict(lambda: defaultdict(list)), _total_train_tokens=0, _tp_size=1,
    )  # fmt: skip
    inputs = {"attention_mask": torch.ones(8, 3), "margin": margins}
    theirs = RewardTrainer.compute_loss(trainer, lambda **_: SimpleNamespace(logits=rewards[:, None]), inputs)
    ours = lose_bradley_terry(rewards[:4] - rewards[4:], margins) + 0.05 * (rewards[:4] + rewards[4:]) ** 2
    assert float(ours.mean().detach()) == pytest.approx(float(theirs.detach()), abs=1e-12)
    slopes = [torch.autograd.grad(loss, [rewards])[0] for loss in (ours.mean(), theirs)]
    torch.testing.assert_close(*slopes, atol=1e-12, rtol=1e-9)


def test_conservative_dpo_and_simpo_cost_what_they_cost_in_trl() -> None:
    """trl's loss without a reference is conservative DPO, once it is given log-ratios."""
    trainer_of_cpo = pytest.importorskip("trl.experimental.cpo.cpo_trainer").CPOTrainer
    torch.manual_seed(1)
    logs, sizes = -5 * torch.rand(4, 6, dtype=torch.float64), torch.randint(1, 5, (2, 6)).double()
    self = SimpleNamespace(
        alpha=0.0, accelerator=Collector(), beta=0.4, label_smoothing=0.1, loss_type="sigmoid", simpo_gamma=0.7
    )
    theirs = trainer_of_cpo.cpo_loss(self, logs[0] - logs[2], logs[1] - logs[3])
    ours = lose_dpo(logs[0], logs[1], (logs[2], logs[3]), 0.4, 0.1)
    for one, two in zip((ours.loss, ours.chosen, ours.rejected), theirs, strict=True):
        torch.testing.assert_close(one, two, atol=1e-12, rtol=1e-12)
    self.loss_type = "simpo"
    sides = Likelihood(logs[0], sizes[0]), Likelihood(logs[1], sizes[1])
    theirs = trainer_of_cpo.cpo_loss(self, sides[0].mean, sides[1].mean)
    torch.testing.assert_close(lose_simpo(*sides, 0.4, 0.7, 0.1).loss, theirs[0], atol=1e-12, rtol=1e-12)


def test_odds_cost_what_they_cost_in_trl() -> None:
    trainer_of_orpo = pytest.importorskip("trl.experimental.orpo.orpo_trainer").ORPOTrainer
    torch.manual_seed(1)
    logs, sizes = -5 * torch.rand(2, 6, dtype=torch.float64) - 0.1, torch.randint(1, 5, (2, 6)).double()
    sides = Likelihood(logs[0], sizes[0]), Likelihood(logs[1], sizes[1])
    self = SimpleNamespace(beta=0.2, accelerator=Collector())
    ratio = trainer_of_orpo.odds_ratio_loss(self, sides[0].mean, sides[1].mean)[0]  # in single precision
    ours = lose_orpo(*sides, 0.2)
    torch.testing.assert_close(ours.loss, -sides[0].mean - ratio.double(), atol=1e-6, rtol=1e-6)
