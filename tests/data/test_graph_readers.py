"""What files of graphs may have wrong: nothing is lost in silence, and nothing ends in a traceback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.data.graph import Schema, SchemaTally
from regard.data.graph_batch import GivenGraph
from regard.data.log import Unusable
from regard.errors import DataError
from tests.data.test_graphs import PATH, read

HUGE = "9" * 30
ARRAYS: dict[str, Any] = {
    "num_nodes": np.array([2, 1]),
    "num_edges": np.array([1, 0]),
    "node_feat": np.array([[1], [2], [3]]),
    "edges": np.array([[0, 1]]),
}


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


@pytest.mark.parametrize(
    ("text", "kept", "problem"),
    [
        ("1\n3 yes\n0 1 1 0.5\n0 1 0\n0 0 7.5\n", 0, "a.txt:4: nodes differ: this one has 0 numbers"),
        ("1\n2 yes\n0 0\n0 0 0.5\n", 0, "a.txt:4: nodes differ: this one has 1 numbers"),
        ("1\n2 yes\n3 0 0.5\n0 0 1.5\n", 1, "a.txt:2: tags left out"),
        ("1\n1 yes\n0 0\n1 no\n0 0\n", 1, "a.txt:4: more than announced: the first line says 1 graphs"),
        (f"1\n1 yes\n{HUGE} 0\n", 0, "a.txt:2: a node has a number that is too large"),
        (f"1\n1 yes\n0 1 {HUGE}\n", 0, "a.txt:2: an edge has a number that is too large"),
        (f"1\n{HUGE} yes\n0 0\n", 0, "a.txt:2: not the head of a graph"),
        ("1\n1 yes\n0 0 1e300\n", 0, "a.txt:2: a node has a number that isn't finite"),
    ],
)
def test_a_list_of_graphs_loses_nothing_in_silence(tmp_path: Path, text: str, kept: int, problem: str) -> None:
    write(tmp_path, a__txt=text)
    found, log = read({"kind": "tu", "path": "a.txt"}, tmp_path)
    assert len(found) == kept and sum(log.reasons.values()) == 1
    assert problem in (tmp_path / "report.txt").read_text()


def test_tables_say_which_features_are_read(tmp_path: Path) -> None:
    write(tmp_path, T_A__txt="1, 2\n2, 1\n", T_graph_indicator__txt="1\n1\n2\n", T_graph_labels__txt="0\n1\n")
    write(tmp_path, T_edge_labels__txt="1\n1\n", T_node_labels__txt="1\n,\n2\n")
    found, log = read({"kind": "tu", "path": "T_A.txt"}, tmp_path)
    assert len(found) == 1 and log.reasons["no tag"] == 1
    write(tmp_path, T_node_attributes__txt="0.5\n1\n2\n")
    found, log = read({"kind": "tu", "path": "T_A.txt"}, tmp_path)
    assert [sample["nodes"].ravel().tolist() for sample in found] == [[0.5, 1.0], [2.0]]
    assert log.reasons["tags left out"] == 1
    write(tmp_path, T_edge_labels__txt=f"{HUGE}\n{HUGE}\n")
    found, log = read({"kind": "tu", "path": "T_A.txt"}, tmp_path)
    assert len(found) == 1 and log.skipped == 1


def test_a_table_of_edges_tells_the_line_of_what_is_wrong(tmp_path: Path) -> None:
    write(tmp_path, e__tsv=f"g\t0\t1\ng\t1\t1\ng\t2\t2\nh\t0\t1\nh\t7\t99999999\ni\t0\t{HUGE}\n")
    found = read({"kind": "edge-list", "path": "e.tsv"}, tmp_path)[0]
    report = (tmp_path / "report.txt").read_text()
    assert len(found) == 1 and len(found[0]["nodes"]) == 3
    assert "e.tsv:2: self-loop: left out, that of node 1" in report and "e.tsv:3: self-loop" in report
    assert "e.tsv:5: node out of range: 99999999" in report and "e.tsv:6: not an edge" in report
    write(tmp_path, e__tsv="g\t0\t1\ng\t1\t2\n", n__tsv="g\t0\t3\ng\t1\t3\n")
    assert not read({"kind": "edge-list", "path": "e.tsv", "nodes": "n.tsv"}, tmp_path)[0]
    assert "e.tsv:2: edge out of range: it names node 2" in (tmp_path / "report.txt").read_text()


def test_a_graph_without_edges_or_named_twice_is_counted(tmp_path: Path) -> None:
    write(tmp_path, e__tsv="g\t0\t1\n", f__tsv="g\t0\t1\nk\t0\t1\n", l__tsv="g\tyes\nh\tno\nk\tno\ng\tno\n")
    write(tmp_path, n__tsv=f"g\t0\t3\ng\t1\t4\ng\t1\t5\nm\t0\t{HUGE}\n")
    tables = {"kind": "edge-list", "path": ["e.tsv", "f.tsv"], "labels": "l.tsv"}
    found, log = read(tables, tmp_path)
    assert [sample["label"] for sample in found] == ["yes", "no"]
    report = (tmp_path / "report.txt").read_text()
    assert "f.tsv:1: graph named twice" in report and "l.tsv:2: no nodes: graph 'h'" in report
    assert log.skipped == 2 and log.reasons["label there twice"] == 1
    found, log = read({**tables, "nodes": "n.tsv"}, tmp_path)
    assert [sample["nodes"].ravel().tolist() for sample in found] == [[3, 4]]
    assert log.reasons["node there twice"] == 1 and log.reasons["not a node"] == 1 and log.reasons["no nodes"] == 2


@pytest.mark.parametrize(
    ("changes", "kept", "reason"),
    [
        ({"labels": np.array([[np.nan, 1.0], [0, 0]])}, 1, "labels"),
        ({"labels": np.array([[2, 1], [0, 0]])}, 1, "labels"),
        ({"labels": np.array([0.5, 1.0])}, 1, "label"),
        ({"numbers": np.array([[1.0, 2.0], [3.0, 4.0]])}, 0, "number"),
        ({"numbers": np.array([np.nan, 1.0])}, 1, "number"),
        ({"node_feat": np.array([[2**32 + 3], [0], [0]])}, 1, "a node has the category 0 or 4294967299"),
        ({"edge_feat": np.array([2**32])}, 1, "an edge has the kind 4294967296 or 4294967296"),
    ],
)
def test_arrays_hold_what_they_say(tmp_path: Path, changes: dict[str, Any], kept: int, reason: str) -> None:
    np.savez(tmp_path / "x.npz", **{**ARRAYS, **changes})
    found, log = read({"kind": "graph-arrays", "path": "x.npz"}, tmp_path)
    assert len(found) == kept and log.skipped == 2 - kept
    assert set(log.reasons) == {reason}
    assert "x.npz:1: " in (tmp_path / "report.txt").read_text()


def test_one_column_of_labels_is_classes(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", **ARRAYS, labels=np.array([[3], [0]]))
    assert [sample["label"] for sample in read({"kind": "graph-arrays", "path": "x.npz"}, tmp_path)[0]] == ["3", "0"]


@pytest.mark.parametrize(
    "changes", [{"labels": np.array([1])}, {"numbers": np.ones(4)}, {"edges": np.array([[0.0, 1]])}]
)
def test_arrays_that_dont_fit_together_are_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    np.savez(tmp_path / "x.npz", **{**ARRAYS, **changes})
    with pytest.raises(DataError, match=next(iter(changes))):
        read({"kind": "graph-arrays", "path": "x.npz"}, tmp_path)


def test_json_has_numbers_for_nodes_and_refuses_what_is_none(tmp_path: Path) -> None:
    lines = ['{"nodes": [1, 2], "edges": [], "node_numbers": [0.5, 2]}', '{"nodes": [1], "node_numbers": [1, 2]}']
    lines += [f'{{"nodes": [1], "number": 1{"0" * 400}}}', '{"nodes": [1], "number": 1e300}']
    lines += ['{"nodes": [1], "node_numbers": [true]}', '{"nodes": [[], []]}', '{"nodes": [[[1]], [[2]]]}']
    lines += ['{"nodes": [1e300]}', f'{{"nodes": [{HUGE}]}}', f'{{"nodes": [1], "edges": [[0, {HUGE}]]}}']
    write(tmp_path, g__jsonl="\n".join(lines))
    found, log = read({"kind": "graph-json", "path": "g.jsonl"}, tmp_path)
    assert [sample["node_numbers"] for sample in found] == [[0.5, 2]]
    assert log.skipped == len(lines) - 1


def test_a_graph_without_edges_is_read_where_edges_have_kinds() -> None:
    nodes, none = np.zeros((2, 1), np.int32), np.empty((0, 2), np.int32)
    tally = SchemaTally()
    tally.see(nodes, none, None)
    tally.see(nodes, PATH[:1], np.array([[4]], np.int32))
    schema = tally.schema()
    assert schema == Schema((2,), 0, (6,))
    kinds = GivenGraph.of({"nodes": nodes, "edges": none}, schema).kinds
    assert kinds is not None and kinds.shape == (0, 1)


@pytest.mark.parametrize("odd", [np.zeros((2, 3), np.int32), np.zeros((2, 1), np.int32), np.zeros((2, 2), np.float32)])
def test_the_first_graph_says_what_all_are_made_of(odd: Any) -> None:
    tally = SchemaTally()
    tally.see(np.zeros((2, 2), np.int32), PATH[:1], np.zeros((1, 1), np.int32))
    tally.see(odd, PATH[:1], np.zeros((1, 3), np.int32))
    schema = tally.schema()
    assert schema == Schema((2, 2), 0, (2,))
    with pytest.raises(Unusable, match="other nodes"):
        GivenGraph.of({"nodes": odd, "edges": PATH[:1]}, schema)
