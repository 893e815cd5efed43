"""The exact frontier: on a language that can be written down, DPO reaches the policy that it promises.

With reward r and reference π_ref, π*(y) ∝ π_ref(y) e^{r(y)/β} has the most reward for its divergence, and people who
choose by r (Bradley and Terry) say enough to find it (Rafailov et al. 2023, section 4).
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import regard
from regard.core.model import Model
from regard.tasks.feedback.likelihood import find_logs
from regard.tasks.preference import PreferenceTaskSpec
from tests.tasks.enumerable import find_divergence, lay_out, list_sequences, score_sequences, tilt

VOCABULARY, LENGTH, END = 5, 3, 1  # 85 sequences
BETA, STEPS = 0.5, 800


def start(kind: str) -> Model:
    """A model of which some sequences are much likelier than others."""
    torch.manual_seed(1)
    heads = {"heads": 2} if kind == "gpt2" else {}
    model = regard.preset(kind, width=32, depth=1, vocabulary=VOCABULARY, dropout=0.0, **heads).build().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.5)
    return model


def list_pairs(rewards: Tensor) -> tuple[Tensor, Tensor]:
    """All pairs of sequences, both ways round: (2, pairs); and how often people who choose by reward say so."""
    count = len(rewards)
    pairs = torch.cartesian_prod(torch.arange(count), torch.arange(count)).T
    pairs = pairs[:, pairs[0] != pairs[1]]
    return pairs, torch.sigmoid(rewards[pairs[0]] - rewards[pairs[1]])


@pytest.mark.parametrize("kind", ["gpt2", "lstm", "mamba-130m"])
def test_dpo_reaches_the_policy_with_the_most_reward_for_its_divergence(kind: str) -> None:
    model, task = start(kind), PreferenceTaskSpec(loss="dpo", beta=BETA)
    sequences = list_sequences(VOCABULARY, LENGTH, END)
    torch.manual_seed(2)
    rewards = torch.randn(len(sequences))
    with torch.no_grad():
        reference = score_sequences(model, sequences)
    best = tilt(reference, rewards, BETA)
    before = float(find_divergence(reference, best))
    assert before > 0.5  # there is something to learn
    pairs, shares = list_pairs(rewards)
    batch = lay_out(sequences)
    sizes = batch.learned.sum(1)[pairs]
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    for _ in range(STEPS):
        logs = find_logs(model, batch).sum(1)
        cost = task.weigh(logs[pairs], sizes, reference[pairs])
        optimizer.zero_grad()
        (shares * cost.loss).mean().backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        found = score_sequences(model, sequences)
    assert float(find_divergence(found, best)) < 1e-4
    # it has the reward of the best policy, at its divergence
    reward, most = (float((logs.exp() * rewards).sum()) for logs in (found, best))
    moved, farthest = (float(find_divergence(logs, reference)) for logs in (found, best))
    assert reward == pytest.approx(most, abs=0.02) and moved == pytest.approx(farthest, abs=0.02)
