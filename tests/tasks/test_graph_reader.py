"""A reader of graphs: what it answers wherever a graph stands, what it shows, and what it refuses."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.core.model import Model
from regard.data.graph import Schema
from regard.data.lexicon import Lexicon
from regard.data.sample import Sample
from regard.errors import RegardError, SpecError
from regard.models import preset
from regard.runs.load import load
from regard.tasks.graph_reader import GraphReader
from regard.tasks.graphs import GraphTaskSpec
from regard.train.checkpoint import Store, inspect
from tests.cli.test_cli import regard
from tests.tasks.test_graph_task import train

LEXICON = Lexicon(None, ["a", "b"], [], False, None, None, Schema((9,), 0, ()))
PRESETS = ("gin", "deep-sets", "gcn", "graph-gps", "graph-mamba", "graph-mamba-walks")


def make(count: int, seed: int = 0) -> Sample:
    chance = np.random.default_rng(seed)
    edges = [[node, int(chance.integers(node))] for node in range(1, count)]
    return {"nodes": chance.integers(0, 8, (count, 1)).astype(np.int32), "edges": np.array(edges, np.int32)}


def build(name: str, answer: Any = "label", **settings: Any) -> GraphReader:
    torch.manual_seed(0)
    spec = GraphTaskSpec(answer=answer)
    model = spec.fit_model(preset(name, width=8, depth=2, **settings), LEXICON).build().eval()
    with torch.no_grad():
        for part in [buffer for path, buffer in model.named_buffers() if path.endswith(("mean", "variance"))]:
            part.add_(torch.rand_like(part))  # as if it had been trained
    return spec.pipeline(model, LEXICON)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_answers_the_same_once_it_is_saved_and_loaded(name: str, tmp_path: Path) -> None:
    reader, graphs = build(name), [make(5, 1), make(7, 2)]
    again = GraphReader(Model.load(reader.model.save(tmp_path / "kept")).eval(), LEXICON)
    for one, other in zip(reader.read_all(graphs), again.read_all(graphs), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("pool", ["first", "last"])
def test_a_pool_that_takes_one_node_is_refused(pool: str) -> None:
    with pytest.raises(SpecError, match=f"nodes have no {pool}") as caught:
        build("gin", pool=pool)
    assert "model.pool=mean" in str(caught.value.hint)


def test_an_answer_depends_on_the_graph_and_not_on_its_place_in_a_list() -> None:
    reader, graph = build("graph-mamba"), make(9, 3)
    assert reader.sees_order and reader.averages
    alone, third = reader.read_all([graph])[0], reader.read_all([make(4, 4), make(6, 5), graph])[2]
    np.testing.assert_allclose(alone, third, atol=1e-5)


def test_edges_that_are_given_both_ways_count_once() -> None:
    reader, graph = build("gin", "number", pool="sum"), make(6, 6)
    both = {**graph, "edges": np.concatenate((graph["edges"], graph["edges"][:, ::-1]))}
    assert reader.answer(both) == reader.answer(graph) == reader.answer({**graph, "edges": graph["edges"].tolist()})
    with pytest.raises(RegardError, match="graph 1: edge out of range: it names node 9"):
        reader.answer([graph, {**graph, "edges": [[0, 9]]}])
    with pytest.raises(RegardError, match="graph 0: it isn't one"):
        reader.answer({"nodes": [[1]]})


def test_a_comparison_tells_how_far_figures_move_with_the_order_of_nodes() -> None:
    samples = [{**make(6, n), "label": "ab"[n % 2]} for n in range(6)]
    spec = GraphTaskSpec()
    reader = build("graph-mamba")
    found, told = spec.score_samples(reader, samples), reader.measure(samples)
    assert found.note == f"accuracy is {told['order_mean']:.4g} ± {told['order_spread']:.2g} over 5 orders of nodes"
    rows = found.statistics["accuracy"].rows
    assert rows[:, 0].sum() / rows[:, 1].sum() == pytest.approx(told["accuracy"])
    assert spec.score_samples(build("gin"), samples).note == ""


def test_a_number_for_each_node_is_learned_and_its_norms_are_averaged(tmp_path: Path) -> None:
    steps = {"steps": 60, "evaluate": 30, "save": 30, "ema": 0.9, "optimizer": {"kind": "adam", "rate": 0.01}}
    model = {"kind": "gin", "width": 16, "depth": 3}
    found = train(tmp_path, task={"kind": "graphs", "answer": "node-numbers"}, model=model, train=steps)
    assert found["error_low"] <= found["error"] <= found["error_high"] and found["error"] < 0.5
    reader = load(str(tmp_path / "run"))
    assert isinstance(reader, GraphReader)
    star = {"nodes": np.zeros((4, 1), np.int32), "edges": np.array([[0, 1], [0, 2], [0, 3]], np.int32)}
    told = reader.answer(star)
    assert len(told) == 4 and told[1] == pytest.approx(told[3], abs=1e-5)
    kept = Store(tmp_path / "run" / "checkpoints").latest(inspect)
    assert kept is not None and any(name.endswith("norm.variance") for name in kept.map("average"))


def test_a_graph_is_looked_into_node_by_node() -> None:
    reader, graph = build("graph-gps"), make(5, 7)
    look = reader.look(graph)
    assert look.tokens == [f"{node}·{kind}" for node, kind in enumerate(graph["nodes"].ravel().tolist())]
    weights = look.weights()
    assert weights and all(value.shape[1:] == (5, 5) for value in weights.values())
    assert look.values("*.gathered") and len(look.predictions()) == 1
    ordered = build("graph-mamba", "node-labels").look(graph)
    assert sorted(ordered.tokens) == sorted(look.tokens) and len(ordered.predictions()) == 5


def test_a_look_at_a_graph_of_a_file(tmp_path: Path) -> None:
    lines = [{"nodes": [0] * n, "edges": [[0, 1]], "label": "odd"} for n in (2, 3)]
    (tmp_path / "g.jsonl").write_text("\n".join(map(json.dumps, lines)))
    model = {"kind": "graph-gps", "width": 8, "depth": 1, "heads": 2}
    train(tmp_path, task={"kind": "graphs"}, model=model)
    run, file = str(tmp_path / "run"), str(tmp_path / "g.jsonl")
    done = regard("inspect", run, "--graph", f"{file}:2")
    assert done.returncode == 0 and "2·0" in done.stdout, done.stderr
    (packed := tmp_path / "g.jsonl.gz").write_bytes(gzip.compress(Path(file).read_bytes()))
    assert regard("inspect", run, "--graph", f"{packed}:2").stdout == done.stdout
    for words, problem in (
        (["--graph", f"{file}:3"], "there is no graph 3, but 2"),
        (["--graph", str(tmp_path / "none.jsonl")], "there is no such file"),
        (["--graph", file, "a text"], "leave the others out"),
        (["a text"], "reads graphs"),
    ):
        done = regard("inspect", run, *words)
        assert done.returncode != 0 and problem in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_a_model_without_maps_says_so() -> None:
    look = build("gin").look(make(5, 7))
    with pytest.raises(RegardError) as caught:
        look.weights()
    assert "nothing in this model attends" in str(caught.value.hint)
