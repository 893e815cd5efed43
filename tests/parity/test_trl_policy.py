"""Clipped losses against trl's own code, on the same tensors: `pip install regard[trl]`, else these are skipped.

trl has no PPO any more, but its loss takes an advantage for each token, and so is PPO's where no divergence is added.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.tasks.feedback.method import Grpo, MethodSpec, Ppo, share_out
from regard.tasks.feedback.rollout import Appraisal, Round

pytestmark = pytest.mark.filterwarnings("ignore")  # others' deprecations aren't ours
pytest.importorskip("trl", reason="trl isn't installed: pip install regard[trl]")

SIZES, MOST = (4, 1, 6, 3), 7
AVERAGES = {"answer": "grpo", "token": "bnpo", "most": "dr_grpo"}


def same(value: Tensor, reduction: str = "") -> Tensor:
    return value


class Reducer(SimpleNamespace):
    """What one process has of accelerate's."""

    gather: Callable[..., Tensor] = staticmethod(same)
    reduce: Callable[..., Tensor] = staticmethod(same)


def lose_by_trl(kind: str, beta: float, logs: Tensor, then: dict[str, Tensor], valid: Tensor) -> Tensor:
    from trl.trainer.grpo_trainer import GRPOTrainer

    trainer = SimpleNamespace(
        aux_loss_enabled=False, top_entropy_quantile=1.0, off_policy_mask_threshold=None, beta=beta, loss_type=kind,
        importance_sampling_level="token", epsilon_low=0.2, epsilon_high=0.2, use_vllm=False, accelerator=Reducer(),
        args=SimpleNamespace(delta=None, use_bias_correction_kl=False), model=SimpleNamespace(training=True),
        current_gradient_accumulation_steps=1.0, max_completion_length=MOST, _entropy_bonus_enabled=False,
        _metrics=defaultdict(lambda: defaultdict(list)),
        _get_per_token_logps_and_entropies=lambda *_, **__: (logs, torch.zeros_like(logs), None),
    )  # fmt: skip
    tokens = torch.zeros(valid.shape, dtype=torch.long)
    inputs = {
        **{"prompt_ids": tokens[:, :1], "prompt_mask": tokens[:, :1], "completion_ids": tokens},
        **{"completion_mask": valid.long(), "advantages": then["advantages"]},
        **{"old_per_token_logps": then["logs"], "ref_per_token_logps": then["reference"]},
    }
    found: Tensor = GRPOTrainer._compute_loss(trainer, None, inputs)
    return found


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("kind", [Ppo, Grpo])
def test_answers_cost_what_they_cost_in_trl_and_so_do_their_gradients(kind: type[MethodSpec], average: Any) -> None:
    torch.manual_seed(1)
    answers = [[5] * size for size in SIZES]
    found = Round(0, 0, [[2]] * len(SIZES), answers, torch.zeros(len(SIZES), dtype=torch.float64))
    valid = found.valid
    names = ("logs", "reference", "advantages", "values", "returns")
    found.tensors = {name: torch.randn(valid.shape, dtype=torch.float64) * valid for name in names}
    logs = (found.tensors["logs"] + 0.4 * torch.randn(valid.shape, dtype=torch.float64) * valid).requires_grad_()
    beta = 0.3 if kind is Grpo else 0.0
    told = {"average": average, "beta": beta} | ({} if kind is Grpo else {"value_weight": 0.0})
    now = Appraisal(logs, torch.zeros_like(logs), found.tensors["values"])
    lost = kind.parse(told | {"kind": kind.model_fields["kind"].default}).lose(now, found.tensors, beta)
    ours = (lost.loss * share_out(found, average, MOST)).sum() / len(SIZES)
    theirs = lose_by_trl(AVERAGES[average], beta, logs, found.tensors, valid)
    assert lost.clipped.any()
    assert float(ours.detach()) == pytest.approx(float(theirs.detach()), abs=1e-12)
    slopes = [torch.autograd.grad(loss, [logs])[0] for loss in (ours, theirs)]
    torch.testing.assert_close(*slopes, atol=1e-12, rtol=1e-9)
