"""The enumeration itself: all sequences, each once, with probabilities that add up."""

from __future__ import annotations

import math

import pytest
import torch

import regard
from tests.tasks.enumerable import find_divergence, list_sequences, score_sequences, tilt


@pytest.mark.parametrize("kind", ["gpt2", "lstm", "mamba-130m"])
def test_a_model_s_probabilities_of_all_sequences_add_up_to_one(kind: str) -> None:
    torch.manual_seed(1)
    heads = {"heads": 2} if kind == "gpt2" else {}
    model = regard.preset(kind, width=8, depth=1, vocabulary=4, dropout=0.0, **heads).build().eval().double()
    for end, count in ((None, 4**3), (1, 1 + 3 + 9 + 27)):
        sequences = list_sequences(4, 3, end)
        assert len(set(sequences)) == len(sequences) == count
        with torch.no_grad():
            assert float(score_sequences(model, sequences).exp().sum()) == pytest.approx(1, abs=1e-9)


def test_a_tilted_distribution_has_the_most_reward_for_its_divergence() -> None:
    torch.manual_seed(2)
    logs, rewards, beta = torch.randn(9).double().log_softmax(0), torch.randn(9).double(), 0.5

    def judge(policy: torch.Tensor) -> float:
        return float((policy.exp() * rewards).sum() - beta * find_divergence(policy, logs))

    best = tilt(logs, rewards, beta)
    assert judge(best) == pytest.approx(beta * math.log(float((logs.exp() * (rewards / beta).exp()).sum())))
    for _ in range(20):
        other = (best + 0.1 * torch.randn(9)).log_softmax(0)
        assert judge(other) < judge(best)
