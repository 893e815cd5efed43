"""Graphs in files and made here: what is read, what is refused and where, orders and positions against oracles."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, get_args

import numpy as np
import pytest

from regard.core.role import GraphReading, NodeOrder
from regard.data.batches import BatchSpec
from regard.data.corpora.graphs import Cycles, GraphCorpus, SkipLinks, Trees
from regard.data.graph import (
    Schema,
    SchemaTally,
    clean_edges,
    connect,
    count_degrees,
    find_eigenvectors,
    find_returns,
    order_nodes,
)
from regard.data.graph_batch import GivenGraph, GraphLayout, Whereabouts, choose_time, fill_rows, lay_out_graphs
from regard.data.log import Log, Unusable
from regard.data.reader import ReaderSpec
from regard.data.sample import FormSpec, Sample
from regard.errors import DataError

ORDERS: tuple[NodeOrder, ...] = get_args(NodeOrder)
PATH = np.array([[0, 1], [1, 2], [2, 3]], np.int32)
LIST = "3\n2 yes\n0 1 1\n1 1 0\n1 no\n5 0\n2 no\n0 2 1 1\n0 1 0\n"


def read(reader: dict[str, Any], folder: Path) -> tuple[list[Sample], Log]:
    log = Log(report=folder / "report.txt")
    found = list(ReaderSpec.parse(reader).under(folder).read("graphs", log))
    log.close()
    for sample in found:
        assert not FormSpec.parse("graphs").find_fault(sample)
    return found, log


def draw(chance: Random, nodes: int = 12, edges: int = 14) -> np.ndarray[Any, Any]:
    pairs = [chance.sample(range(nodes), 2) for _ in range(edges)]
    return clean_edges(nodes, pairs, None, "here", Log())[0]


def test_a_file_of_graphs_is_read_node_by_node(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(LIST)
    found, log = read({"kind": "tu", "path": "a.txt"}, tmp_path)
    assert [sample["label"] for sample in found] == ["yes", "no", "no"]
    assert found[0]["nodes"].tolist() == [[0], [1]] and found[0]["edges"].tolist() == [[0, 1]]
    assert found[1]["edges"].shape == (0, 2)
    assert log.kept == 3 and not log.skipped


@pytest.mark.parametrize(
    ("line", "text", "reason", "kept"),
    [
        (3, "0 1 7", "edge out of range", 2),
        (3, "0 1 0", "self-loop", 3),
        (3, "zero 1 1", "not a node", 2),
        (3, "0 2 1", "not a node", 2),
        (3, "-1 1 1", "not a node", 2),
        (5, "0 no", "empty graph", 1),
        (5, "one no", "not the head of a graph", 1),
    ],
)
def test_what_is_wrong_is_counted_and_located(tmp_path: Path, line: int, text: str, reason: str, kept: int) -> None:
    lines = LIST.splitlines()
    lines[line - 1] = text
    (tmp_path / "a.txt").write_text("\n".join(lines))
    found, log = read({"kind": "tu", "path": "a.txt"}, tmp_path)
    assert len(found) == kept
    assert log.reasons[reason] == 1, log.reasons
    assert f"a.txt:{line}: {reason}" in (tmp_path / "report.txt").read_text()


def test_folds_choose_their_graphs(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(LIST)
    (tmp_path / "folds.json").write_text(json.dumps({"1": {"train": [0, 2], "test": [1]}, "2": {"train": [9]}}))
    reader = {"kind": "tu", "path": "a.txt", "folds": "folds.json", "fold": 1}
    assert [len(sample["nodes"]) for sample in read(reader, tmp_path)[0]] == [2, 2]
    assert [len(sample["nodes"]) for sample in read({**reader, "part": "test"}, tmp_path)[0]] == [1]
    with pytest.raises(DataError, match="names graph 9, and there are 3"):
        read({**reader, "fold": 2}, tmp_path)
    with pytest.raises(DataError, match="fold 3"):
        read({**reader, "fold": 3}, tmp_path)


def test_the_layout_of_several_files_says_the_same(tmp_path: Path) -> None:
    (tmp_path / "X_A.txt").write_text("1, 2\n2, 1\n4, 5\n5, 4\n9, 1\n2, 2\n")
    (tmp_path / "X_graph_indicator.txt").write_text("1\n1\n2\n3\n3\n")
    (tmp_path / "X_graph_labels.txt").write_text("yes\nno\nno\n")
    (tmp_path / "X_node_labels.txt").write_text("0\n1\n5\n0\n0\n")
    found, log = read({"kind": "tu", "path": "X_A.txt"}, tmp_path)
    (tmp_path / "a.txt").write_text(LIST.replace("0 2 1 1", "0 1 1"))
    same, _ = read({"kind": "tu", "path": "a.txt"}, tmp_path)
    for one, other in zip(found, same, strict=True):
        assert one["label"] == other["label"]
        assert np.array_equal(one["nodes"], other["nodes"]) and np.array_equal(one["edges"], other["edges"])
    assert log.reasons["edge out of range"] == log.reasons["self-loop"] == 1
    assert "X_A.txt:6: self-loop" in (tmp_path / "report.txt").read_text()


def test_json_has_graphs_with_every_kind_of_answer(tmp_path: Path) -> None:
    good = [
        {"nodes": [3, 0], "edges": [[0, 1], [1, 0]], "label": 1},
        {"nodes": [[0.5, 1], [2, 3]], "edges": [], "labels": ["a", "b"], "number": 2.5},
        {"nodes": [[1, 2]], "edges": [], "node_labels": ["x"]},
        {"nodes": [0, 0], "edges": [[1, 0]], "edge_kinds": [4], "label": "z"},
    ]
    bad = [
        '{"nodes": []}',
        '{"nodes": [0], "edges": [[0, 1]]}',
        "[]",
        '{"nodes": [0, "a"]}',
        '{"nodes": [[0], [0, 1]]}',
    ]
    bad += ['{"nodes": [0], "node_labels": []}', '{"nodes": [0], "number": "many"}', '{"nodes": [-1]}']
    bad += ['{"nodes": [0, 0], "edges": [[0, 1], [1, 0]], "edge_kinds": [1, 2]}', '{"nodes": [0], "edges": [[0.5, 1]]}']
    (tmp_path / "g.jsonl").write_text("\n".join([*map(json.dumps, good), *bad]))
    found, log = read({"kind": "graph-json", "path": "g.jsonl"}, tmp_path)
    assert len(found) == len(good) and log.skipped == len(bad), log.reasons
    assert found[0]["edges"].tolist() == [[0, 1]] and found[0]["label"] == "1"
    assert found[1]["nodes"].dtype == np.float32 and found[1]["number"] == 2.5
    assert found[3]["edge_kinds"].tolist() == [[4]]


def test_a_table_of_edges_has_nodes_and_labels_beside_it(tmp_path: Path) -> None:
    (tmp_path / "e.tsv").write_text("a\t0\t1\t2\na\t1\t2\t3\nb\t0\tx\t1\nc\t1\t1\t0\n")
    (tmp_path / "n.tsv").write_text("a\t0\t5\na\t1\t6\na\t2\t7\nc\t0\t1\nc\t1\t1\nd\t0\t4\n")
    (tmp_path / "l.tsv").write_text("a\tyes\nc\tno\nd\tno\n")
    found, log = read({"kind": "edge-list", "path": "e.tsv", "nodes": "n.tsv", "labels": "l.tsv"}, tmp_path)
    assert [sample["label"] for sample in found] == ["yes", "no", "no"]
    assert found[0]["nodes"].ravel().tolist() == [5, 6, 7] and found[0]["edge_kinds"].ravel().tolist() == [2, 3]
    assert log.reasons["not an edge"] == 1 and log.reasons["self-loop"] == 1
    assert found[2]["edges"].shape == (0, 2)


def test_arrays_are_cut_into_graphs(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "p.npz",
        num_nodes=np.array([2, 3]),
        num_bonds=np.array([1, 2]),
        node_feat=np.arange(10, dtype=np.uint8).reshape(5, 2),
        bonds=np.array([[0, 1], [0, 1], [1, 2]], np.int16),
        bond_feat=np.array([[1], [2], [3]], np.uint8),
        labels=np.array([[0, 1], [1, 1]], np.uint8),
    )
    found, _ = read({"kind": "graph-arrays", "path": "p.npz", "names": ["left", "right"]}, tmp_path)
    assert [sample["labels"] for sample in found] == [["right"], ["left", "right"]]
    assert found[1]["nodes"].tolist() == [[4, 5], [6, 7], [8, 9]] and found[1]["edges"].tolist() == [[0, 1], [1, 2]]
    assert found[1]["edge_kinds"].ravel().tolist() == [2, 3]


@pytest.mark.parametrize("order", ORDERS)
def test_an_order_has_every_node_once_and_follows_from_its_chance(order: NodeOrder) -> None:
    for seed in range(5):
        edges = draw(Random(seed))
        found = order_nodes(order, 12, edges, Random(seed))
        assert sorted(found) == list(range(12))
        assert found == order_nodes(order, 12, edges, Random(seed))
    assert order_nodes(order, 1, np.empty((0, 2), np.int32), Random(0)) == [0]


def test_orders_are_what_they_say() -> None:
    chance = Random(3)
    edges = draw(chance)
    degrees = count_degrees(12, edges)
    sorted_by = [degrees[node] for node in order_nodes("degree", 12, edges, chance)]
    assert sorted_by == sorted(sorted_by)
    path = order_nodes("eigenvector", 4, PATH, chance)
    assert path in ([0, 1, 2, 3], [3, 2, 1, 0])  # the second eigenvector of a path goes along it
    ring = order_nodes("breadth-first", 4, PATH, chance)
    assert {ring[0]} <= {1, 2} and all(abs(ring.index(0) - ring.index(1)) <= 3 for _ in ring)
    walk = order_nodes("random-walk", 4, PATH, Random(1))
    seen = {walk[0]}
    for node in walk[1:]:
        assert {node - 1, node + 1} & seen  # on a path a walk stays connected
        seen.add(node)
    two = np.array([[0, 1], [1, 2], [0, 2], [3, 4], [4, 5], [3, 5]], np.int32)
    grouped = order_nodes("cluster", 6, two, chance)
    assert {frozenset(grouped[:3]), frozenset(grouped[3:])} == {frozenset({0, 1, 2}), frozenset({3, 4, 5})}


def test_eigenvectors_are_those_of_the_laplacian() -> None:
    edges = draw(Random(5), 10, 20)
    found = find_eigenvectors(10, edges, 4).astype(float)
    matrix = connect(10, edges)
    degrees = np.maximum(matrix.sum(1), 1)
    laplacian = np.eye(10) - matrix / np.sqrt(np.outer(degrees, degrees))
    for column in found.T:
        value = column @ laplacian @ column / (column @ column)
        assert np.allclose(laplacian @ column, value * column, atol=1e-4) and value > 1e-6
        assert np.isclose((column**2).mean(), 1, atol=1e-4) and np.isclose(
            column.max(), np.abs(column).max(), atol=1e-5
        )


def test_returns_are_counted_walks() -> None:
    edges = draw(Random(6), 6, 9)
    beside = [np.flatnonzero(row).tolist() for row in connect(6, edges)]

    def count(node: int, start: int, steps: int) -> float:
        if not steps:
            return float(node == start)
        return sum(count(other, start, steps - 1) for other in beside[node]) / max(1, len(beside[node]))

    expected = [[count(node, node, steps) for steps in (1, 2, 3, 4)] for node in range(6)]
    assert np.allclose(find_returns(6, edges, 4), expected, atol=1e-6)


def test_a_category_that_training_never_saw_is_one_of_its_own() -> None:
    tally = SchemaTally()
    tally.see(np.array([[0, 3], [1, 0]], np.int32), PATH, None)
    schema = tally.schema()
    assert schema is not None
    assert schema == Schema((3, 5), 0, ()) == Schema.of_fact(schema.to_fact(), "here")
    graph = GivenGraph.of({"nodes": np.array([[7, 4]], np.int32), "edges": np.empty((0, 2), np.int32)}, schema)
    assert graph.nodes.tolist() == [[2, 4]]
    with pytest.raises(Unusable, match="other nodes"):
        GivenGraph.of({"nodes": np.zeros((2, 3), np.int32), "edges": PATH}, schema)


@pytest.mark.parametrize("corpus", [SkipLinks(), Cycles(), Trees()], ids=lambda corpus: corpus.kind)
def test_made_graphs_are_what_their_labels_say(corpus: GraphCorpus) -> None:
    samples = list(islice(corpus.stream("graphs", "train"), 40))
    again = list(islice(corpus.stream("graphs", "train"), 40))
    assert len({sample["label"] for sample in samples}) > 1
    for sample, same in zip(samples, again, strict=True):
        assert not FormSpec.parse("graphs").find_fault(sample)
        assert np.array_equal(sample["edges"], same["edges"])
        count, edges = len(sample["nodes"]), sample["edges"]
        degrees, parts = count_degrees(count, edges), count_parts(count, edges)
        if corpus.kind == "skip-links":
            assert set(degrees) == {4} and parts == 1
        elif corpus.kind == "cycles":
            assert set(degrees) == {2} and parts == {"one": 1, "two": 2}[sample["label"]]
        else:
            assert len(edges) == count - 1 and parts == 1
            assert sample["number"] == degrees.count(1) and sample["label"] == (
                "odd" if degrees.count(1) % 2 else "even"
            )
            assert [label == "0" for label in sample["node_labels"]] == [degree == 1 for degree in degrees]


def count_parts(nodes: int, edges: np.ndarray[Any, Any]) -> int:
    """Components, by powers of the matrix of neighbours."""
    reach = np.linalg.matrix_power(connect(nodes, edges) + np.eye(nodes), nodes) > 0
    return len({tuple(row) for row in reach.tolist()})


@dataclass
class Reading:
    """A model that is given edges."""

    connected: bool = True
    reaches: bool = True


def lay_out(order: NodeOrder, training: bool, seed: int) -> tuple[GivenGraph, GraphLayout]:
    chance = Random(8)
    nodes = np.arange(9, dtype=np.int32)[:, None]
    graph = GivenGraph(nodes, draw(chance, 9, 12))
    where = Whereabouts(GraphReading(order, laplacian=3, walks=2))
    return graph, lay_out_graphs(
        [graph, graph.shuffle(chance)], where, [Random(seed), Random(seed + 1)], Reading(), training
    )


@pytest.mark.parametrize("order", ORDERS)
def test_nodes_edges_and_places_move_together(order: NodeOrder) -> None:
    graph, laid = lay_out(order, False, 4)
    inputs, edges = laid.inputs, laid.inputs.edges
    assert edges is not None and inputs.tokens.shape == (1, 18, 1) and laid.starts == [0, 9]
    wanted = {frozenset(pair) for pair in graph.edges.tolist()}
    for row in range(2):
        names = laid.split(inputs.tokens.numpy())[row][:, 0].tolist()
        mine = edges.links[:, edges.links[0] // 9 == row] - 9 * row
        assert {frozenset((names[one], names[other])) for one, other in mine.mT.tolist()} == wanted
        returns = find_returns(9, graph.edges, 2)
        np.testing.assert_allclose(laid.split(inputs.extras["walks"].numpy())[row], returns[names], atol=1e-6)


def test_signs_of_eigenvectors_are_drawn_in_training_and_only_there() -> None:
    _, still = lay_out("given", False, 1)
    seen = set()
    for seed in range(0, 120, 2):
        _, drawn = lay_out("given", True, seed)
        ratio = drawn.inputs.extras["laplacian"][0, :9] / still.inputs.extras["laplacian"][0, :9]
        signs = ratio.nanmedian(0).values
        assert set(signs.abs().tolist()) == {1.0}
        seen.add(tuple(signs.tolist()))
    assert len(seen) == 8
    assert all(
        lay_out("given", False, seed)[1].inputs.extras["laplacian"].equal(still.inputs.extras["laplacian"])
        for seed in (2, 5)
    )


def test_rows_hold_whole_graphs_in_order() -> None:
    sizes = [5, 3, 9, 1, 1, 7, 2]
    assert fill_rows(sizes, 9) == [[5, 3], [9], [1, 1, 7], [2]]
    assert fill_rows(sizes, sum(sizes)) == [sizes]
    assert choose_time(sizes, Reading(reaches=False)) == sum(sizes)
    assert choose_time(sizes, Reading()) == 16 and choose_time([1, 1, 50], Reading()) == 70


def test_batches_mix_graphs_of_all_sizes_within_their_budget() -> None:
    lengths = [(size,) for size in range(1, 101)] * 3
    plan = BatchSpec(tokens=300, longest=90)
    batches = list(plan.plan(lengths, seed=1, epoch=0, mixed=True))
    assert sorted(n for batch in batches for n in batch) == [n for n, (size,) in enumerate(lengths) if size <= 90]
    assert all(sum(lengths[n][0] for n in batch) <= 300 for batch in batches)
    spans = [max(lengths[n][0] for n in batch) - min(lengths[n][0] for n in batch) for batch in batches]
    assert sum(spans) / len(spans) > 40  # of like lengths, they would span a few
    fixed = list(BatchSpec(rows=7).plan(lengths, seed=1, epoch=0, mixed=True))
    assert {len(batch) for batch in fixed[:-1]} == {7}
