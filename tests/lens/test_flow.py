"""Rollout against the sum over all ways, flow against the smallest cut."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from regard.errors import InputError
from regard.lens.flow import Pipes, add_residual, attention_flow, attention_rollout, mix_layers, roll_out
from tests.lens.texts import SOURCE, TEXT, build, look_at


def draw(layers: int, width: int, seed: int, causal: bool) -> Tensor:
    scores = 2 * torch.randn(layers, width, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    later = torch.ones(width, width, dtype=torch.bool).triu(1)
    return scores.masked_fill(later & torch.tensor(causal), -math.inf).softmax(-1)


def test_rollout_sums_over_all_ways() -> None:
    weights = add_residual(draw(3, 3, 0, causal=False), [True, False, True])
    found = roll_out(weights)[-1]
    for query, key in itertools.product(range(3), repeat=2):
        ways = sum(
            weights[2, query, one] * weights[1, one, other] * weights[0, other, key]
            for one, other in itertools.product(range(3), repeat=2)
        )
        torch.testing.assert_close(found[query, key], torch.as_tensor(ways))


def smallest_cut(capacities: Tensor, start: int, end: int) -> float:
    """The least capacity that separates a position from a token: every cut is tried."""
    layers, width, _ = capacities.shape
    nodes = [(layer, place) for layer in range(layers + 1) for place in range(width)]
    between = [node for node in nodes if node not in ((layers, start), (0, end))]
    best = math.inf
    for sides in itertools.product((False, True), repeat=len(between)):
        above = {(layers, start)} | {node for node, side in zip(between, sides, strict=True) if side}
        cut = sum(
            float(capacities[layer - 1, place, key])
            for layer, place in above
            if layer
            for key in range(width)
            if (layer - 1, key) not in above
        )
        best = min(best, cut)
    return best


@pytest.mark.parametrize(("layers", "width", "causal"), [(1, 3, False), (2, 4, True), (3, 3, False), (4, 2, False)])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_maximum_flow_is_the_smallest_cut(layers: int, width: int, causal: bool, seed: int) -> None:
    capacities = add_residual(draw(layers, width, seed, causal), [seed == 0] * layers)
    pipes = Pipes(capacities.tolist())
    for start, end in ((width - 1, 0), (0, width - 1), (width - 1, width - 1)):
        assert pipes.max_flow(start, end) == pytest.approx(smallest_cut(capacities, start, end), abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_a_flow_goes_back_where_a_first_way_was_greedy(seed: int) -> None:
    """Wide capacities of whole numbers, which the shortest ways alone don't fill."""
    generator = torch.Generator().manual_seed(seed)
    capacities = torch.randint(0, 4, (3, 3, 3), generator=generator).double()
    capacities[torch.rand(3, 3, 3, generator=generator) < 0.4] = 0
    pipes = Pipes(capacities.tolist())
    for start, end in itertools.product(range(3), repeat=2):
        assert pipes.max_flow(start, end) == pytest.approx(smallest_cut(capacities, start, end))


@pytest.mark.parametrize("name", ["gpt2", "bert-tiny", "llama-tiny", "deepseek-tiny"])
def test_the_rows_of_a_rollout_sum_to_one(name: str) -> None:
    heads = {"kv_heads": 2} if name == "llama-tiny" else {}
    look = look_at(build(name, depth=2, heads=2, **heads), targets={})
    found = attention_rollout(look)
    assert found.tokens == [f"w{token}" for token in TEXT]
    assert found.shares.shape == (2, 6, 6)
    torch.testing.assert_close(found.shares.sum(-1), torch.ones(2, 6))
    first = look.weights("*.blocks.0.mix.weights").popitem()[1].mean(0)
    torch.testing.assert_close(found.shares[0], (first + torch.eye(6)) / 2)
    if name != "bert-tiny":
        assert not found.shares.triu(1).any()


def test_each_stack_of_a_translator_has_its_own() -> None:
    look = look_at(build("transformer-tiny", depth=2, heads=2), source=SOURCE)
    assert attention_rollout(look).tokens == [f"w{token}" for token in TEXT]
    encoder = attention_rollout(look, "encoder")
    assert encoder.tokens == [f"w{token}" for token in SOURCE]
    flow = attention_flow(look, [0, 3], "encoder")
    assert flow.capacities.shape == (2, 4)
    assert flow.positions == [0, 3]
    torch.testing.assert_close(flow.shares.sum(-1), torch.ones(2))
    _, layers = mix_layers(look, "encoder")
    assert float(flow.capacities[1, 2]) == pytest.approx(smallest_cut(layers, 3, 2), abs=1e-6)


def test_a_chain_that_is_broken_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"decoder\.blocks\.0\.mix\.weights: recurrent has no weights among its own"):
        attention_rollout(look_at(build("lstm", depth=1)))
    with pytest.raises(InputError, match=r"decoder\.blocks\.0\.mix\.weights: mamba has no weights among its own"):
        attention_flow(look_at(build("hybrid", depth=3, heads=2, every=2)))
    with pytest.raises(InputError, match=r"decoder\.blocks\.0\.mix\.weights: attentive has no weights among its own"):
        attention_rollout(look_at(build("bahdanau", depth=1), source=SOURCE))
    look = look_at(build("gpt2", depth=1, heads=2))
    with pytest.raises(InputError, match="there are 6 positions, counted from 0, and 6 is asked for"):
        attention_flow(look, [6])
    with pytest.raises(InputError, match="this model has no encoder"):
        attention_rollout(look, "encoder")
