"""What heads do, in a few numbers, against the definitions."""

from __future__ import annotations

import math

import pytest
import torch

from regard.lens.heads import summarise_heads


@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (3, 7), (6, 2), (1, 1)])
def test_summaries_are_the_means_over_the_queries(queries: int, keys: int) -> None:
    torch.manual_seed(0)
    weights = (3 * torch.randn(2, queries, keys)).softmax(-1)
    weights[0, 0] = torch.eye(keys)[0]  # a row with zeros, which have no logarithm
    delimiters = [key % 2 == 0 for key in range(keys)]
    for head, found in zip(weights.tolist(), summarise_heads(weights, delimiters), strict=True):
        expected = dict.fromkeys(("entropy", "distance", "previous", "same", "next", "delimiter"), 0.0)
        for query, row in enumerate(head):
            for key, weight in enumerate(row):
                expected["entropy"] -= weight * math.log(weight) / queries if weight else 0
                expected["distance"] += weight * abs(key - query) / queries
                expected["delimiter"] += weight * delimiters[key] / queries
                for name, step in (("previous", -1), ("same", 0), ("next", 1)):
                    expected[name] += weight * (key - query == step) / queries
        assert found == pytest.approx(expected, abs=1e-5)


def test_large_maps_lose_no_precision() -> None:
    torch.manual_seed(0)
    weights = torch.randn(2, 400, 400).softmax(-1)
    for head, found in zip(weights.double(), summarise_heads(weights), strict=True):
        assert found["entropy"] == pytest.approx(float(torch.special.entr(head).sum(-1).mean()), rel=1e-5)
        apart = (torch.arange(400)[None] - torch.arange(400)[:, None]).abs()
        assert found["distance"] == pytest.approx(float((head * apart).sum(-1).mean()), rel=1e-5)
    assert summarise_heads(torch.eye(4)[None])[0] | {"same": 1.0} == {
        "entropy": 0.0, "distance": 0.0, "previous": 0.0, "same": 1.0, "next": 0.0, "delimiter": 0.0
    }  # fmt: skip
