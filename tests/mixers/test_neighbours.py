"""Message passing by the papers' equations, node by node in double; models that don't see the names of nodes."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.core.edges import Edges
from regard.core.inputs import Inputs
from regard.core.mixer import MixerSpec
from regard.core.padding import Padding
from regard.core.view import View
from regard.data.graph_batch import GivenGraph, Whereabouts, lay_out_graphs
from regard.errors import InputError, SpecError
from regard.laws import check
from regard.mixers.beside import Beside
from regard.mixers.neighbours import EPS, Neighbours
from regard.mixers.walks import Walks
from regard.models import preset

ROWS, TIME, WIDTH = 2, 5, 6
PAIRS = [[(0, 1), (1, 2), (0, 3)], [(0, 2)]]  # of each row; its second has three nodes
REAL = torch.tensor([[True] * 5, [True, True, True, False, False]])


def call(spec: MixerSpec, vectors: Tensor | None = None, training: bool = False) -> tuple[Any, Tensor, Tensor]:
    torch.manual_seed(0)
    mixer, x = spec.build(WIDTH).double().train(training), torch.randn(ROWS, TIME, WIDTH, dtype=torch.float64)
    edges = Edges.join([torch.tensor(pairs) for pairs in PAIRS], range(0, len(PAIRS) * TIME, TIME))
    edges = edges if vectors is None else edges.describe(vectors, torch.arange(len(vectors)))
    return mixer, x, mixer(x, View.of(x, REAL, edges=edges))


def list_neighbours(row: int, node: int) -> list[int]:
    return [b if a == node else a for a, b in PAIRS[row] if node in (a, b)]


def each_node() -> list[tuple[int, int]]:
    return [(row, node) for row in range(ROWS) for node in range(TIME) if REAL[row, node]]


def test_gcn_is_kipf_and_wellings_equation() -> None:
    mixer, x, found = call(Neighbours(way="gcn", batch=False))
    for row, node in each_node():
        total = torch.zeros(WIDTH, dtype=torch.float64)
        for other in [node, *list_neighbours(row, node)]:
            degrees = [len(list_neighbours(row, one)) + 1 for one in (node, other)]
            total += x[row, other] / (degrees[0] * degrees[1]) ** 0.5
        torch.testing.assert_close(found[row, node], mixer.output(total).relu())


def test_gin_is_xus_equation() -> None:
    mixer, x, found = call(Neighbours(way="gin", batch=False))
    for row, node in each_node():
        total = (1 + mixer.epsilon) * x[row, node] + sum(x[row, other] for other in list_neighbours(row, node))
        torch.testing.assert_close(found[row, node], mixer.down(mixer.up(total).relu()).relu())


def test_gates_are_bressons_equation() -> None:
    vectors = torch.randn(8, WIDTH, dtype=torch.float64)
    mixer, x, found = call(Neighbours(way="gated", batch=False), vectors)
    listed = [(row, a, b) for row, pairs in enumerate(PAIRS) for a, b in pairs]
    edges = {key: vectors[n] for n, key in enumerate([*listed, *((row, b, a) for row, a, b in listed)])}
    for row, node in each_node():
        gates = {
            other: torch.sigmoid(mixer.here(x[row, node]) + mixer.there(x[row, other]) + edges[row, other, node])
            for other in list_neighbours(row, node)
        }
        heard = sum((gate * mixer.value(x[row, other]) for other, gate in gates.items()), torch.zeros(WIDTH))
        weight = sum(gates.values(), torch.zeros(WIDTH)) + EPS
        torch.testing.assert_close(found[row, node], (mixer.own(x[row, node]) + heard / weight).relu())


def test_walks_read_what_is_expected_of_them() -> None:
    mixer, x, _ = call(Walks(steps=2))
    edges = Edges.join([torch.tensor(pairs) for pairs in PAIRS], range(0, len(PAIRS) * TIME, TIME))
    seen: dict[str, Tensor] = {}

    class Note:
        def begin(self, sight: object) -> None: ...

        def wants(self, name: str) -> bool:
            return name.endswith("tokens")

        def __call__(self, name: str, value: Tensor) -> Tensor:
            seen[name] = value
            return value

    mixer(x, View.of(x, REAL, edges=edges, probe=Note()))  # type: ignore[arg-type]
    (tokens,) = seen.values()
    for row, node in each_node():
        ways = [[node]] + [[node, one] for one in list_neighbours(row, node)]
        once = [x[row, way[1]] for way in ways if len(way) == 2]
        twice = [
            torch.stack([x[row, two] for two in list_neighbours(row, one)]).mean(0)
            for one in list_neighbours(row, node)
        ]
        expected = [torch.stack(part).mean(0) if part else torch.zeros(WIDTH) for part in (twice, once)]
        torch.testing.assert_close(tokens[row, node], torch.stack([*expected, x[row, node]]).double())


def test_a_norm_over_a_batch_counts_real_nodes_alone_and_remembers() -> None:
    mixer, x, found = call(Neighbours(way="gcn"), training=True)
    plain, _, _ = call(Neighbours(way="gcn", batch=False))
    plain.load_state_dict({name: value for name, value in mixer.state_dict().items() if "norm" not in name})
    plain.activation = torch.nn.Identity()
    edges = Edges.join([torch.tensor(pairs) for pairs in PAIRS], range(0, len(PAIRS) * TIME, TIME))
    before = plain(x, View.of(x, REAL, edges=edges))[REAL]
    oracle = torch.nn.BatchNorm1d(WIDTH).double()
    torch.testing.assert_close(found[REAL], oracle(before).relu(), atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(mixer.norm.mean, oracle.running_mean)
    torch.testing.assert_close(mixer.norm.variance, oracle.running_var)


def test_walks_meet_nodes_and_hear_of_no_kinds() -> None:
    vectors = torch.randn(8, WIDTH, dtype=torch.float64)  # an edge there and back for each pair
    assert torch.equal(call(Walks(steps=2), vectors)[2], call(Walks(steps=2))[2])
    assert not torch.equal(call(Neighbours(way="gin"), vectors)[2], call(Neighbours(way="gin"))[2])


def test_side_by_side_is_the_sum() -> None:
    parts = (Neighbours(way="gin"), MixerSpec.parse({"kind": "attention", "heads": 2}))
    mixer, x, found = call(Beside(mixers=parts))
    edges = Edges.join([torch.tensor(pairs) for pairs in PAIRS], range(0, len(PAIRS) * TIME, TIME))
    alone = [member(x, View.of(x, REAL, edges=edges)) for member in mixer.members]
    torch.testing.assert_close(found, alone[0] + alone[1])
    assert mixer.connects and not mixer.ordered and not mixer.causal


def test_gps_and_the_papers_own_way_round_keep_every_law() -> None:
    for spec in (
        Beside(mixers=(Neighbours(way="gated"), MixerSpec.parse("attention"))),
        Beside(mixers=(MixerSpec.parse("mamba"), MixerSpec.parse("backward"))),
    ):
        assert not check(spec, quick=True).broken


def draw_graphs(count: int = 4, least: int = 4) -> list[GivenGraph]:
    chance, found = Random(0), []
    for _ in range(count):
        nodes = chance.randint(least, 9)
        pairs = sorted({tuple(sorted(chance.sample(range(nodes), 2))) for _ in range(nodes + 2)})
        features = np.array([[chance.randrange(4)] for _ in range(nodes)], np.int32)
        found.append(GivenGraph(features, np.array(pairs, np.int32)))
    return found


def answer(model: Any, graphs: list[GivenGraph], seed: int = 0) -> Tensor:
    where = Whereabouts(model.spec.main.embedding.graph)
    laid = lay_out_graphs(graphs, where, [Random(seed + n) for n in range(len(graphs))], model.encoder)
    with torch.no_grad():
        found: Tensor = model(laid.inputs)
    return found


@pytest.mark.parametrize(
    "spec",
    [
        *[Neighbours(way=way) for way in ("gcn", "gin", "gated")],
        MixerSpec.parse("attention"),
        Beside(mixers=(Neighbours(way="gated"), MixerSpec.parse("attention"))),
    ],
    ids=["gcn", "gin", "gated", "attention", "beside"],
)
@torch.no_grad()
def test_what_sees_no_order_moves_with_its_nodes(spec: MixerSpec) -> None:
    torch.manual_seed(0)
    mixer, x, [graph] = spec.build(16).eval(), torch.randn(1, 9, 16), draw_graphs(1, 9)
    found = []
    for order in (list(range(9)), Random(3).sample(range(9), 9)):
        edges = Edges.join([torch.from_numpy(graph.arrange(order).edges)], [0])
        place = torch.tensor(order).argsort()
        found.append(mixer(x[:, order], View.of(x, edges=edges))[:, place])
    torch.testing.assert_close(found[1], found[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["gin", "gcn", "graph-gps", "deep-sets"])
def test_a_model_without_an_order_does_not_know_the_names_of_nodes(name: str) -> None:
    torch.manual_seed(0)
    model, graphs = preset(name, width=16, depth=2).build().eval(), draw_graphs()
    assert model.encoder is not None and not model.encoder.ordered
    renamed = [graph.shuffle(Random(7)) for graph in graphs]
    torch.testing.assert_close(answer(model, renamed), answer(model, graphs), atol=1e-5, rtol=1e-5)
    alone = torch.cat([answer(model, [graph]) for graph in graphs])
    torch.testing.assert_close(answer(model, graphs), alone, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["graph-mamba", "graph-mamba-walks"])
def test_a_model_with_an_order_says_so_and_depends_on_it(name: str) -> None:
    torch.manual_seed(0)
    model, graphs = preset(name, width=16, depth=3).build().eval(), draw_graphs()
    reading = model.spec.main.embedding.graph
    assert model.encoder is not None and model.encoder.ordered and reading is not None and reading.order == "degree"
    assert not torch.allclose(answer(model, graphs, 0), answer(model, graphs, 50), atol=1e-5)


def test_no_message_passing_tells_skip_links_apart_and_walks_do() -> None:
    """1-WL fails on them (Murphy et al. 2019): all nodes have the same vector at every depth."""
    rings = []
    for skip in (2, 3):
        pairs = sorted({tuple(sorted((n, (n + step) % 11))) for n in range(11) for step in (1, skip)})
        rings.append(GivenGraph(np.zeros((11, 1), np.int32), np.array(pairs, np.int32)))
    torch.manual_seed(0)
    blind = answer(preset("gin", width=16).build().eval(), rings)
    torch.testing.assert_close(blind[0], blind[1], atol=1e-5, rtol=1e-5)
    told = answer(preset("gin", width=16, walks=6).build().eval(), rings)
    assert not torch.allclose(told[0], told[1], atol=1e-3)


def test_edges_that_lead_astray_are_refused() -> None:
    model = preset("gin", width=8, depth=1).build().eval()
    tokens, valid = torch.zeros(2, 3, 1, dtype=torch.long), Padding([3, 2])
    for links, piece in (
        ([[0], [9]], "up to 9"),
        ([[0], [4]], "one row to another"),
        ([[3], [5]], "to a pad"),
    ):
        with pytest.raises(InputError, match=piece):
            model(Inputs(tokens, valid, edges=Edges(torch.tensor(links))))
    with pytest.raises(InputError, match="no part of this model reads edges"):
        words = preset("bert-tiny", width=8, depth=1, heads=2).build()
        words(Inputs(torch.zeros(1, 3, dtype=torch.long), edges=Edges.none()))
    with pytest.raises(SpecError, match="messages are passed along edges"):
        preset("bert-tiny", width=8, depth=1, heads=2, mix="neighbours").build("meta")
