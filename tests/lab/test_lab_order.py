"""Order: equivariance as a number, what a set allows, and what is concluded from both."""

from __future__ import annotations

from itertools import permutations
from random import Random
from typing import Any

import pytest
import torch

from regard.core.view import View
from regard.data.corpora.algorithms import Problem, reverse
from regard.lab.order import (
    MIXED,
    MIXERS,
    SCHEMES,
    TRAINED,
    Order,
    bound_by_set,
    build_seeded,
    compare_encoder,
    compare_mixers,
    compare_shuffled,
)


def make_generator() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def test_a_sum_is_equivariant_and_a_running_sum_is_not() -> None:
    x, order = torch.randn(2, 9, 4, generator=make_generator()), torch.tensor([3, 0, 1, 2, 8, 4, 7, 5, 6])
    assert compare_shuffled(lambda x: x + x.sum(1, keepdim=True), x, order) < 1e-6
    assert compare_shuffled(lambda x: x.cumsum(1), x, order) > 0.1
    assert compare_shuffled(lambda x: x.cumsum(1), x, torch.arange(9)) == 0  # nothing is shuffled


@pytest.mark.parametrize("name", ["attention", "mean"])
def test_mixers_without_positions_are_equivariant_to_any_order(name: str) -> None:
    mixer = build_seeded(MIXERS[name], make_generator())
    x = torch.randn(1, 4, 32, generator=make_generator())
    for order in permutations(range(4)):
        assert compare_shuffled(lambda x: mixer(x, View.of(x)), x, torch.tensor(order)) < 1e-6


def test_all_other_mixers_know_order() -> None:
    rows = {row["mixer"]: row["difference"] for row in compare_mixers(make_generator())}
    assert {name for name, value in rows.items() if value < 1e-6} == {"attention", "mean"}
    assert all(value > 0.01 for name, value in rows.items() if name not in ("attention", "mean"))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_encoder_knows_order_where_it_has_positions(scheme: str) -> None:
    assert (compare_encoder(scheme, make_generator()) < 1e-5) == (scheme == "none")


def test_what_a_set_allows_is_found_by_trying_all_arrangements() -> None:
    words = [list("ab"), list("aab"), list("abca"), list("aaaa")]
    expected = sum(1 / len(set(permutations(word))) for word in words) / len(words)
    assert bound_by_set([Problem(word, word[::-1], len(word)) for word in words]) == pytest.approx(expected)


def test_guessing_from_sorted_letters_reaches_what_a_set_allows() -> None:
    chance = Random(5)
    drawn = [reverse(chance, 3) for _ in range(4000)]
    guessed = sum(sorted(problem.source) == problem.target for problem in drawn) / len(drawn)
    assert guessed == pytest.approx(bound_by_set(drawn), abs=0.02)


def make_tables(blind: float, told: float, sort: float = 0.9) -> dict[str, Any]:
    rows = [
        {
            "position": scheme,
            "shuffled": 2e-7 if scheme == "none" else 0.2,
            "reverse": blind if scheme == "none" else told,
            "sort": sort,
            "best of a set": 0.02,
        }
        for scheme in SCHEMES
    ]
    return {TRAINED: rows, MIXED: [{"mixer": "attention", "sees": "all", "difference": 1e-7}]}


def test_the_claim_needs_a_task_that_positions_alone_make_possible() -> None:
    found = Order().conclude(make_tables(0.02, 0.95))
    assert found.shown and "2.0%" in found.sentence and "95%" in found.sentence
    assert not Order().conclude(make_tables(0.5, 0.95)).shown  # somebody told the order
    assert not Order().conclude(make_tables(0.02, 0.03)).shown  # nobody learned to reverse
    assert not Order().conclude(make_tables(0.02, 0.95, sort=0.02)).shown  # nor to sort, so order isn't what lacked


def test_tables_are_drawn() -> None:
    assert [plot.named for plot in Order().draw(make_tables(0.02, 0.95))] == [True, True]
