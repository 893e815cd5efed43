"""The eight scores against their formulas, pair by pair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.errors import InputError, SpecError
from regard.parts.score import ScoreSpec, weigh

QUERY, MEMORY = 6, 8
Formula = Callable[[Any, Tensor, Tensor, int], Tensor]

FORMULAS: dict[str, tuple[int, Formula]] = {
    "dot": (MEMORY, lambda s, q, k, at: q @ k),
    "scaled": (MEMORY, lambda s, q, k, at: q @ k / MEMORY**0.5),
    "multiplicative": (QUERY, lambda s, q, k, at: q @ s.key.weight @ k),
    "reduced": (QUERY, lambda s, q, k, at: (s.query.weight @ q) @ (s.key.weight @ k)),
    "additive": (
        QUERY,
        lambda s, q, k, at: s.score.weight[0] @ torch.tanh(s.query.weight @ q + s.query.bias + s.key.weight @ k),
    ),
    "mean": (QUERY, lambda s, q, k, at: torch.tensor(0.0)),
    "diagonal": (QUERY, lambda s, q, k, at: torch.tensor(-1e4 * abs(4 - at))),  # all queries stand at position 4
    "location": (QUERY, lambda s, q, k, at: s.query.weight[at] @ q + s.query.bias[at]),
}


@pytest.mark.parametrize("kind", sorted(ScoreSpec.kinds))
@torch.no_grad()
def test_a_score_is_its_formula(kind: str) -> None:
    torch.manual_seed(0)
    width, formula = FORMULAS[kind]
    score = ScoreSpec.parse(kind).build(width, MEMORY)
    queries, memory = torch.randn(2, 3, width), torch.randn(2, 5, MEMORY)
    found = score(queries, score.prepare(memory), torch.full((2, 3), 4))
    assert found.shape == (2, 3, 5)
    for row in range(2):
        for query in range(3):
            for key in range(5):
                expected = formula(score, queries[row, query], memory[row, key], key)
                torch.testing.assert_close(found[row, query, key], expected, atol=1e-5, rtol=1e-4)


def test_a_dot_of_two_widths_is_refused() -> None:
    with pytest.raises(SpecError, match="queries have 6, keys 8"):
        ScoreSpec.parse("dot").build(6, 8)


def test_a_location_beyond_the_last_is_refused() -> None:
    score = ScoreSpec.parse({"kind": "location", "longest": 4}).build(6, 8)
    with pytest.raises(InputError, match="4 positions, and the source has 5"):
        score.prepare(torch.randn(1, 5, 8))


def test_a_diagonal_looks_at_its_own_number_or_the_last_that_there_is() -> None:
    score = ScoreSpec.parse("diagonal").build(6, 8)
    keys = score.prepare(torch.randn(1, 4, 8))
    allowed = torch.tensor([[[True, True, True, False]]])
    weights = weigh(score(torch.randn(1, 6, 6), keys, torch.arange(6)[None]), allowed)
    assert weights[0].tolist() == torch.eye(4)[[0, 1, 2, 2, 2, 2]].tolist()
    with pytest.raises(InputError, match="positions"):
        score(torch.randn(1, 6, 6), keys)


def test_hard_weights_are_one_hot_and_learn_as_soft_ones_do() -> None:
    scores = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(1)).requires_grad_()
    values = torch.randn(5, 4, generator=torch.Generator().manual_seed(2))
    allowed = torch.ones(2, 3, 5, dtype=torch.bool)
    allowed[0, 1, 2:] = False
    allowed[1, 2] = False  # one that may see nothing
    hard, soft = weigh(scores, allowed, hard=True), weigh(scores, allowed)
    assert set(hard.detach().flatten().tolist()) == {0.0, 1.0}
    assert torch.equal(hard.sum(-1), allowed.any(-1).float())
    seen = allowed.any(-1)
    assert torch.equal(hard.argmax(-1)[seen], soft.argmax(-1)[seen])
    grads = [torch.autograd.grad((w[seen] @ values).sum(), scores, retain_graph=True)[0] for w in (hard, soft)]
    torch.testing.assert_close(*grads)
    assert grads[0][seen].any()
