"""A norm over a batch: torch's where nodes differ, harmless where they are all alike, moved once a step."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np
import torch

from regard.core.inputs import Inputs
from regard.core.role import GraphReading
from regard.data.corpora.graphs import SkipLinks
from regard.data.graph_batch import GivenGraph, Whereabouts, lay_out_graphs
from regard.models import preset
from regard.parts.statistics import BatchNorm
from regard.train.trainer import find_running


def test_with_an_ordinary_variance_it_is_torchs_own() -> None:
    torch.manual_seed(0)
    norm, oracle = BatchNorm(4).double(), torch.nn.BatchNorm1d(4).double()
    for _ in range(30):
        x = torch.randn(50, 4, dtype=torch.float64) * torch.tensor([0.3, 1.0, 3.0, 30.0]) + torch.arange(4)
        torch.testing.assert_close(norm.train()(x, None), oracle.train()(x), atol=1e-3, rtol=1e-3)
    torch.testing.assert_close((norm.mean, norm.variance), (oracle.running_mean, oracle.running_var))
    torch.testing.assert_close(norm.eval()(x, None), oracle.eval()(x), atol=1e-3, rtol=1e-3)


def test_a_channel_without_spread_gives_its_bias_in_training_and_in_use() -> None:
    norm, x = BatchNorm(3), torch.full((20, 3), 2.0, requires_grad=True)
    with torch.no_grad():
        norm.bias.copy_(torch.tensor([1.0, -1.0, 0.5]))
    found = norm(x, None)
    found.square().sum().backward()
    assert x.grad is not None and x.grad.isfinite().all()
    torch.testing.assert_close(found, norm.bias.expand(20, 3))
    norm.eval()
    torch.testing.assert_close(norm(x + 0.1, None), norm.bias.expand(20, 3), atol=0.1, rtol=0.0)


@dataclass
class Reader:
    """Messages alone."""

    connected: bool = True
    reaches: bool = False


def read_rings(seed: int, count: int) -> tuple[Inputs, torch.Tensor]:
    """Graphs whose nodes are all alike to whoever passes messages, and the number of each one's label."""
    corpus, chance = SkipLinks(), Random(seed)
    samples = [corpus.make(chance) for _ in range(count)]
    graphs = [GivenGraph(sample["nodes"], sample["edges"]) for sample in samples]
    laid = lay_out_graphs(graphs, Whereabouts(GraphReading("given", 0, 0)), [chance] * count, Reader())
    return laid.inputs, torch.tensor([corpus.skips.index(int(sample["label"])) for sample in samples])


def test_where_all_nodes_are_alike_use_agrees_with_training() -> None:
    torch.manual_seed(0)
    model = preset("gin", width=16, depth=4, classes=len(SkipLinks().skips)).build()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for step in range(30):
        inputs, right = read_rings(step, 8)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model.train()(inputs), right).backward()
        optimizer.step()
    inputs, right = read_rings(99, 16)
    with torch.no_grad():
        loss = torch.nn.functional.cross_entropy(model.eval()(inputs), right)
    assert loss < 2 * np.log(len(SkipLinks().skips))


def test_a_batch_that_is_computed_again_moves_no_statistics() -> None:
    found = []
    for again in (False, True):
        torch.manual_seed(0)
        model = preset("gin", width=8, depth=2).build().train()
        assert model.encoder is not None
        model.encoder.recompute = again
        inputs, _ = read_rings(0, 4)
        tokens = torch.arange(inputs.tokens.numel()).view(inputs.tokens.shape) % 3
        model(Inputs(tokens, edges=inputs.edges)).square().sum().backward()
        found.append(find_running(model))
    assert found[0] and all(torch.equal(value, found[1][name]) for name, value in found[0].items())
