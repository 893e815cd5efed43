"""Compiled messages against those of torch's operations in double precision, by every path of the kernel."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.core.edges import Edges
from regard.core.inputs import Inputs
from regard.core.model import Model
from regard.core.view import View
from regard.errors import InputError
from regard.models import preset
from regard.parts import message
from regard.parts.message import add_messages, find_kernels, pass_messages
from regard.tasks.graph_reader import find_reading

SIZES = [(1, 1, 0), (5, 3, 4), (40, 16, 90), (33, 24, 60), (300, 64, 900)]  # nodes, width, edges


def draw(nodes: int, width: int, edges: int, sorts: int) -> tuple[Tensor, Edges]:
    """Edges that go one way, some of them twice, and nodes that nobody speaks to."""
    torch.manual_seed(nodes + width)
    links = torch.randint(nodes, (2, edges))
    table = torch.randn(sorts, width) if sorts else None
    return torch.randn(nodes, width), Edges(links, None, table, torch.randint(sorts, (edges,)) if sorts else None)


def view_of(x: Tensor, edges: Edges) -> View:
    view = View.of(x[None])
    view.edges = edges
    return view


def build(name: str) -> Model:
    spec = preset(name, width=32, depth=2)
    assert spec.encoder is not None
    embedding = spec.encoder.embedding.read_graphs((9,), 0, (4, 2))
    return spec.replace(encoder=spec.encoder.replace(embedding=embedding)).build()


@pytest.mark.parametrize("weighted", [False, True], ids=["sum", "weighted"])
@pytest.mark.parametrize("sorts", [0, 1, 7])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_sums_and_gradients_are_those_of_plain_messages(
    level: int, sizes: tuple[int, int, int], sorts: int, weighted: bool
) -> None:
    x, edges = draw(*sizes, sorts)
    weights = torch.rand(sizes[2]) if weighted else None
    assert find_kernels(x, edges) is not None
    results = []
    for dtype in (torch.float32, torch.float64):
        leaves = [one.detach().to(dtype).requires_grad_() for one in (x, edges.table) if one is not None]
        given = Edges(edges.links, None, leaves[1] if sorts else None, edges.sorts)
        own = None if weights is None else weights.to(dtype)
        if dtype == torch.float32:
            found = pass_messages(leaves[0], view_of(leaves[0], given), own)
        else:
            found = add_messages(leaves[0], given, own)
        slope = torch.randn(found.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
        (found * slope).sum().backward()
        results.append([found, *(leaf.grad for leaf in leaves)])
    for mine, reference in zip(*results, strict=True):
        assert mine is not None and reference is not None and mine.dtype == torch.float32
        assert (mine - reference).abs().max() <= 2e-6 * reference.abs().max().clamp(min=1)


def test_sums_do_not_depend_on_threads(level: int) -> None:
    x, edges = draw(3000, 64, 9000, 5)
    results, before = [], torch.get_num_threads()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            leaves = [x.clone().requires_grad_(), edges.table.clone().requires_grad_()]  # type: ignore[union-attr]
            found = pass_messages(leaves[0], view_of(x, Edges(edges.links, None, leaves[1], edges.sorts)))
            found.square().sum().backward()
            results.append([found, *(leaf.grad for leaf in leaves)])
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["gcn", "gin", "graph-gps", "graph-mamba-walks"])
def test_models_learn_by_the_kernel_what_they_learn_without(
    level: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(name).train()
    torch.manual_seed(0)
    tokens, links = torch.randint(9, (2, 6)), torch.randint(6, (2, 20))
    kinds = torch.stack((torch.randint(4, (20,)), torch.randint(2, (20,))), 1)
    reading = find_reading(model.spec)
    extras = {"walks": torch.rand(2, 6, reading.walks)} if reading.walks else {}
    results = []
    for ours in (True, False):
        if not ours:
            monkeypatch.setattr(message, "find_kernels", lambda x, edges: None)
        model.zero_grad()
        torch.manual_seed(3)
        y = model(Inputs(tokens, edges=Edges(links, kinds), extras=extras))
        y.square().sum().backward()
        results.append([y, *(weight.grad for weight in model.parameters() if weight.grad is not None)])
    assert len(results[0]) == len(results[1])
    for mine, reference in zip(*results, strict=True):
        torch.testing.assert_close(mine, reference, atol=1e-4, rtol=1e-4)


def test_kinds_that_no_table_has_are_refused() -> None:
    model = build("gin")
    links, kinds = torch.tensor([[0, 1], [1, 0]]), torch.tensor([[0, 2], [0, 1]])
    with pytest.raises(InputError, match=r"up to \[0, 2\], and there are \(4, 2\)"):
        model(Inputs(torch.zeros(1, 2, dtype=torch.long), edges=Edges(links, kinds)))
