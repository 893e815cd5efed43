"""Learning from graphs: each kind of answer, measures against oracles, the spread over orders, controls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.core.edges import Edges
from regard.core.inputs import Inputs
from regard.core.model import Model
from regard.errors import RegardError
from regard.models import preset
from regard.runs.load import load
from regard.tasks.answer import ANSWERS, average_precision, measure_precision
from regard.tasks.graph_reader import GraphReader, cut_groups
from regard.tasks.graphs import GraphTaskSpec
from tests.cli.test_cli import regard
from tests.cli.test_verbs import told

TREES = {"kind": "trees", "train": 40, "validation": 8, "test": 8}
TRAIN = {"steps": 4, "evaluate": 2, "save": 2, "schedule": {"kind": "linear", "warmup": 1}}


def train(folder: Path, **tree: Any) -> dict[str, Any]:
    file = folder / "run.yaml"
    usual = {"corpus": TREES, "train": TRAIN, "batches": {"tokens": 256}, "device": "cpu", "out": str(folder / "run")}
    file.write_text(json.dumps({**usual, **tree}))
    done = regard("train", str(file))
    assert done.returncode == 0, done.stderr
    (found,) = told(regard("eval", str(folder / "run"), "--json"))
    return dict(found)


def count_precision(right: Any, scores: Any) -> float:
    """By the definition: the mean, over what is right, of the precision among all that score as high."""
    hits = [
        sum(r for r, s in zip(right, scores, strict=True) if s >= at) / sum(s >= at for s in scores)
        for r, at in zip(right, scores, strict=True)
        if r
    ]
    return float(np.mean(hits))


def test_average_precision_is_counted_by_its_definition() -> None:
    chance = np.random.default_rng(0)
    right = (chance.random((40, 4)) < 0.3).astype(np.float64)
    right[:, 3] = 0
    scores = chance.integers(0, 9, (40, 4)).astype(float)  # with ties
    found = average_precision(right, scores)
    for label in range(3):
        assert found[label] == pytest.approx(count_precision(right[:, label], scores[:, label]))
    assert np.isnan(found[3])
    whole = measure_precision(right, scores)
    assert whole["average_precision"] == pytest.approx(np.nanmean(found))
    assert whole["average_precision_low"] < whole["average_precision"] < whole["average_precision_high"]


def test_batches_keep_to_a_budget_of_nodes() -> None:
    sizes = [500, 3, 4000, 70, 9000, 12]
    groups = cut_groups(sizes)
    assert sorted(n for group in groups for n in group) == list(range(6))
    assert all(len(group) == 1 or len(group) * max(sizes[n] for n in group) <= 4096 for group in groups)


def test_a_number_is_learned_and_a_model_without_edges_is_a_control(tmp_path: Path) -> None:
    model = {"kind": "deep-sets", "width": 8, "depth": 1}
    found = train(tmp_path, task={"kind": "graphs", "answer": "number"}, model=model)
    assert found["error_low"] <= found["error"] <= found["error_high"]
    assert found["orders"] == 1 and found["order_spread"] == 0.0
    reader = load(str(tmp_path / "run"))
    assert isinstance(reader, GraphReader) and not reader.model.encoder.connected  # type: ignore[union-attr]
    sample = {"nodes": np.zeros((3, 1), np.int32), "edges": np.array([[0, 1]], np.int32)}
    one, two = reader.answer([sample, {**sample, "edges": np.array([[0, 1], [1, 2]], np.int32)}])
    assert one == pytest.approx(two, abs=1e-6)  # it never sees an edge


def test_a_graph_model_is_saved_loaded_and_kept_from_onnx(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    torch.manual_seed(0)
    model = preset("graph-gps", width=8, depth=1).build().eval()
    again = Model.load(model.save(tmp_path / "kept"))
    tokens, links = torch.zeros(1, 3, 1, dtype=torch.long), torch.tensor([[0, 1], [1, 0]])
    inputs = Inputs(tokens, edges=Edges(links), extras={"walks": torch.ones(1, 3, 16)})
    assert torch.equal(again.eval()(inputs), model(inputs))
    with pytest.raises(RegardError, match="edges have no place there"):
        model.export(tmp_path / "model.onnx", "onnx")


def test_labels_of_nodes_come_back_in_the_order_of_their_nodes(tmp_path: Path) -> None:
    model = {"kind": "graph-mamba", "width": 8, "depth": 1, "beside": "none", "walks": 0, "order": "random"}
    model |= {"messages": "gin"}  # nodes that are all alike are told apart by sums alone
    found = train(tmp_path, task={"kind": "graphs", "answer": "node-labels", "orders": 3}, model=model)
    assert found["accuracy"] >= 0
    reader = load(str(tmp_path / "run"))
    assert isinstance(reader, GraphReader)
    path = {"nodes": np.zeros((5, 1), np.int32), "edges": np.array([[0, 1], [1, 2], [2, 3], [3, 4]], np.int32)}
    first, other = (reader.read_once([path], turn)[0] for turn in (0, 1))
    np.testing.assert_allclose(first, other, atol=1e-5)  # it takes nodes for a set, whatever order they came in
    np.testing.assert_allclose(first, first[::-1], atol=1e-5)  # and the two ends of a path are alike
    assert np.abs(first[0] - first[2]).max() > 1e-3


def test_several_labels_are_measured_by_average_precision(tmp_path: Path) -> None:
    lines = [
        {
            "nodes": [[n % 3, 1]] * 4,
            "edges": [[0, 1], [1, 2]],
            "edge_kinds": [n % 2, 1],
            "labels": [str(n % 3), "all"][: 1 + n % 2],
        }
        for n in range(30)
    ]
    (tmp_path / "g.jsonl").write_text("\n".join(map(json.dumps, lines)))
    corpus: dict[str, Any] = {"kind": "files", "train": {"kind": "graph-json", "path": str(tmp_path / "g.jsonl")}}
    corpus["split"] = {"validation": 0.2, "test": 0.2}
    task = {"kind": "graphs", "answer": "labels"}
    model = {"kind": "graph-mamba-walks", "width": 8, "depth": 2, "steps": 2}
    found = train(tmp_path, task=task, model=model, corpus=corpus)
    assert 0 <= found["average_precision_low"] <= found["average_precision"] <= 1
    assert found["orders"] == 5 and found["order_spread"] >= 0


def test_a_task_tells_what_is_missing(tmp_path: Path) -> None:
    assert set(ANSWERS) == {"label", "labels", "number", "node-labels", "node-numbers"}
    spec = GraphTaskSpec(answer="labels")
    assert spec.known_measures() == {"average_precision": True, "loss": False}
    file = tmp_path / "run.yaml"
    tree = {"task": {"kind": "graphs", "answer": "labels"}, "corpus": TREES, "model": "gin", "train": TRAIN}
    tree |= {"out": str(tmp_path / "r")}
    file.write_text(json.dumps(tree))
    done = regard("train", str(file))
    assert done.returncode != 0 and "no labels: it has label, number, node_labels, node_numbers" in done.stderr
    file.write_text(json.dumps({**tree, "task": "graphs", "model": "bert-tiny"}))
    done = regard("train", str(file))
    assert done.returncode != 0 and "reads no nodes" in done.stderr
