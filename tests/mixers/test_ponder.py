"""Pondering, held to the papers' equations: written again here, row by row, in double precision."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.core.block import BlockSpec
from regard.core.probe import Edit, Record, Sight
from regard.core.view import View
from regard.errors import InputError, SpecError
from regard.mixers.attention import Attention
from regard.mixers.ponder import Ponder, Pondering
from regard.mixers.universal import Universal, UniversalRounds, describe_round
from regard.parts.feedforward import FeedForward
from regard.parts.halting import AdaptiveHalting, Geometric

WIDTH = 6


def build(**settings: Any) -> Pondering:
    torch.manual_seed(3)
    mixer = Ponder(**settings).build(WIDTH).double().eval()
    for weight in mixer.parameters():
        torch.nn.init.normal_(weight, std=0.7)
    assert isinstance(mixer, Pondering)
    return mixer


def draw(rows: int = 5, time: int = 4) -> Tensor:
    return torch.randn(rows, time, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def watch(mixer: Pondering | UniversalRounds, x: Tensor, valid: Tensor | None = None) -> tuple[Tensor, Record]:
    record = Record("*")
    return mixer(x, View.of(x, valid, probe=record)), record


def think(mixer: Pondering, x: Tensor, hidden: Tensor, limit: int) -> tuple[Tensor, list[float]]:
    """One position of one row by equations 1 to 8 of Graves (2016): the mean state, and the weight of each step."""
    halting = mixer.halting
    assert isinstance(halting, AdaptiveHalting)
    weight, recurrent, bias, other = mixer.cell._weights(0)
    states, halts = [], []
    for step in range(limit):
        flagged = torch.cat((x, x.new_tensor([1.0 if step == 0 else 0.0])))
        hidden = torch.tanh(weight @ flagged + bias + recurrent @ hidden + other)
        states.append(hidden)
        halts.append(float(torch.sigmoid(halting.halt.weight[0] @ hidden + halting.halt.bias[0])))
        if sum(halts) >= 1 - 0.01:
            break
    weights = [*halts[:-1], 1 - sum(halts[:-1])]
    return sum((w * s for w, s in zip(weights, states, strict=True)), torch.zeros_like(hidden)), weights


@torch.no_grad()
def test_adaptive_computation_time_is_that_of_the_paper() -> None:
    mixer, x = build(halt={"kind": "adaptive", "limit": 7}), draw()
    found, record = watch(mixer, x)
    costs, taken = [], set()
    for row in range(len(x)):
        hidden = torch.zeros(WIDTH, dtype=torch.float64)
        for time in range(x.shape[1]):
            hidden, weights = think(mixer, x[row, time], hidden, 7)
            torch.testing.assert_close(found[row, time], hidden)
            shown = record["mixer.step_weights"][row, 0, time]
            torch.testing.assert_close(shown[: len(weights)], torch.tensor(weights, dtype=torch.float64))
            assert not shown[len(weights) :].any()
            assert record["mixer.steps"][row, time, 0] == len(weights)
            costs.append(len(weights) + weights[-1])
            taken.add(len(weights))
    assert len(taken) > 2  # rows that halt at different steps
    assert float(record["mixer.ponder"]) == pytest.approx(sum(costs) / len(costs))


@pytest.mark.parametrize("cell", ["rnn", "relu", "lstm", "gru"])
@pytest.mark.parametrize("halt", ["adaptive", "geometric", "repeat"])
@torch.no_grad()
def test_the_weights_of_a_position_sum_to_one(cell: Any, halt: Any) -> None:
    torch.manual_seed(0)
    mixer = Ponder(cell=cell, halt=halt, layers=2).build(16)
    x = torch.randn(32, 6, 16)
    for training in (False, True):
        record = Record("mixer.step_weights")
        mixer.train(training)(x, View.of(x, probe=record))
        weights = record["mixer.step_weights"]
        assert (weights >= 0).all()
        assert (weights.double().sum(-1) - 1).abs().max() < 1e-6


@torch.no_grad()
def test_a_fixed_number_of_steps_is_the_cell_that_many_times() -> None:
    mixer, x = build(cell="gru", halt={"kind": "repeat", "times": 3}), draw()
    carry: tuple[Tensor, ...] = (torch.zeros(len(x), 1, WIDTH, dtype=torch.float64),)
    for time in range(x.shape[1]):
        for step in range(3):
            flag = torch.full((len(x), 1), float(step == 0), dtype=torch.float64)
            hidden, carry = mixer.cell.step(torch.cat((x[:, time], flag), -1), carry)
        torch.testing.assert_close(mixer(x, View.of(x))[:, time], hidden)


def test_only_the_remainder_of_the_ponder_cost_has_a_slope() -> None:
    mixer, x = build(halt={"kind": "adaptive", "limit": 7}), draw(1, 1)
    _, record = watch(mixer, x)
    steps = int(record["mixer.steps"])
    assert steps > 1
    slope = torch.autograd.grad(record["mixer.ponder"], mixer.halting.halt.bias)[0]  # type: ignore[union-attr,arg-type]
    # R = 1 - Σ h(n), n < N
    _, again = watch(mixer, x)
    before = again["mixer.step_weights"][0, 0, 0, : steps - 1].sum()
    torch.testing.assert_close(slope, -torch.autograd.grad(before, mixer.halting.halt.bias)[0])  # type: ignore[union-attr,arg-type]


@torch.no_grad()
def test_pads_cost_nothing_and_take_no_step() -> None:
    mixer, x = build(), draw(3, 5)
    valid = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 1, 1], [0, 0, 0, 1, 1]], dtype=torch.bool)  # none is real at first
    found, record = watch(mixer, x, valid)
    assert not record["mixer.steps"][..., 0][~valid].any()
    alone = [watch(mixer, x[row : row + 1, valid[row]]) for row in range(3)]
    costs = torch.cat([one["mixer.steps"].flatten() for _, one in alone])
    assert record["mixer.steps"][..., 0][valid].tolist() == costs.tolist()
    sums = [float(one["mixer.ponder"]) * int(valid[row].sum()) for row, (_, one) in enumerate(alone)]
    assert float(record["mixer.ponder"]) == pytest.approx(sum(sums) / int(valid.sum()))
    for row, (expected, _) in enumerate(alone):
        torch.testing.assert_close(found[row, valid[row]], expected[0])


@torch.no_grad()
def test_pondernet_halts_by_its_chances_and_diverges_by_its_prior() -> None:
    mixer, x = build(cell="rnn", halt={"kind": "geometric", "limit": 5, "prior": 0.3}), draw(4, 1)
    found, record = watch(mixer, x)
    chances, trials = record["mixer.chances"][:, 0, 0], record["mixer.trials"][:, :, 0]
    alive = torch.ones(4, dtype=torch.float64)
    for step in range(chances.shape[-1]):
        halt = mixer.halting.score(trials[:, step])  # type: ignore[operator]
        rest = (alive * (1 - halt) < 0.01) | torch.tensor(step == 4)
        torch.testing.assert_close(chances[:, step], torch.where(rest, alive, alive * halt))
        alive = torch.where(rest, 0, alive * (1 - halt))
    torch.testing.assert_close(found[:, 0], (chances[..., None] * trials).sum(1))
    prior = [0.3 * 0.7**n for n in range(4)] + [0.7**4]
    assert sum(prior) == pytest.approx(1)
    told = [sum(p * math.log(p / g) for p, g in zip(row, prior, strict=False) if p > 0) for row in chances.tolist()]
    assert float(record["mixer.divergence"]) == pytest.approx(sum(told) / 4)


@torch.no_grad()
def test_pondernet_draws_its_halting_while_training_as_often_as_its_chances_say() -> None:
    mixer, x = build(halt={"kind": "geometric", "limit": 4}).train(), draw(1, 1).expand(20_000, -1, -1)
    torch.manual_seed(0)
    found, record = watch(mixer, x)
    drawn, chances = record["mixer.step_weights"][:, 0, 0], record["mixer.chances"][0, 0, 0]
    assert ((drawn == 0) | (drawn == 1)).all()
    spread = (chances * (1 - chances) / len(drawn)).sqrt()
    assert ((drawn.mean(0) - chances).abs() < 4 * spread + 1e-9).all()
    torch.testing.assert_close(found[:, 0], (drawn[..., None] * record["mixer.trials"][:, :, 0]).sum(1))


def test_what_was_weighed_can_be_seen_and_not_changed() -> None:
    mixer, x = build(), draw()
    edit = Edit({"mixer.step_weights": lambda value: value * 2})
    edit.begin(Sight(frozenset(["mixer.step_weights"])))
    with pytest.raises(InputError, match="seen and not changed"):
        mixer(x, View.of(x, probe=edit))


BLOCK = BlockSpec(mix=Attention(heads=2), ffn=FeedForward(hidden=8))


def build_rounds(**settings: Any) -> UniversalRounds:
    torch.manual_seed(3)
    mixer = Universal(blocks=(BLOCK,), **settings).build(WIDTH).double().eval()
    for weight in mixer.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    assert isinstance(mixer, UniversalRounds)
    if isinstance(mixer.halting, AdaptiveHalting):  # some halt early and some late
        torch.nn.init.normal_(mixer.halting.halt.weight, std=0.2)
        torch.nn.init.constant_(mixer.halting.halt.bias, -0.5)
    return mixer


@torch.no_grad()
def test_rounds_share_weights_and_a_position_that_halted_stays_as_it_is() -> None:
    mixer, x = build_rounds(halt={"kind": "adaptive", "limit": 5}), draw(2, 4)
    found, record = watch(mixer, x)
    halting, [block] = mixer.halting, mixer.layers()
    assert isinstance(halting, AdaptiveHalting)
    stream, total, left = x, torch.zeros_like(x), torch.ones(2, 4, dtype=torch.float64)
    running = torch.ones(2, 4, dtype=torch.bool)
    for number in range(5):
        moved = block(stream + describe_round(number, WIDTH).double(), View.of(x))
        stream = torch.where(running[..., None], moved, stream)
        halt = halting.score(stream)
        ends = (1 - left + halt >= 0.99) | torch.tensor(number == 4)
        weight = torch.where(ends, left, halt) * running
        total, left, running = total + weight[..., None] * stream, left - weight, running & ~ends
    torch.testing.assert_close(found, total)
    assert len(set(record["mixer.steps"].flatten().tolist())) > 1
    torch.testing.assert_close(record["mixer.step_weights"].sum(-1), torch.ones(2, 1, 4, dtype=torch.float64))


@torch.no_grad()
def test_every_round_can_be_seen_and_changed_by_its_own_name() -> None:
    mixer, x = build_rounds(halt={"kind": "repeat", "times": 2}), draw(1, 3)
    plain, record = watch(mixer, x)
    first, second = (record[f"mixer.rounds.{number}.blocks.0.mix.weights"] for number in (0, 1))
    assert first.shape == second.shape == (1, 2, 3, 3) and not torch.allclose(first, second)
    name = "mixer.rounds.1.blocks.0.ffn.output"
    edit = Edit({name: torch.zeros_like})
    edit.begin(Sight(frozenset([name])))
    changed = mixer(x, View.of(x, probe=edit))
    torch.testing.assert_close(plain - changed, record[name])


def test_rounds_refuse_halting_that_is_drawn() -> None:
    with pytest.raises(SpecError, match="halt: geometric"):
        Universal(halt=Geometric()).build(8)
