"""Questions about tables by the command line: train, go on, evaluate, ask, look; and what is drawn to be tried."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.core.program import OPERATIONS
from regard.data.corpora.tables import Tables
from regard.data.lexicon import Lexicon
from regard.errors import DataError, InputError
from regard.models import preset
from regard.parts.program import ProgramHead
from regard.runs.load import load_bundle
from regard.tasks.exploration import check_answers, draw, explore
from regard.tasks.programmer import Programmer, read_table
from regard.tasks.tabular import collect, encode_sample, list_texts_of, make_cutter, read_number
from tests.cli.test_cli import regard as call

TREE: dict[str, Any] = {
    "task": {"kind": "question", "tries": 4},
    "corpus": {"kind": "tables", "columns": 2, "texts": 1, "train": 80, "validation": 8, "test": 8, "rows": [3, 6]},
    "tokenizer": {"pieces": "given"},
    "batches": {"rows": 16},
    "model": {"kind": "neural-programmer", "width": 16},
    "train": {"steps": 4, "evaluate": 2, "save": 2, "schedule": {"kind": "constant", "warmup": 1}},
    "device": "cpu",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("question")
    (folder / "run.yaml").write_text(json.dumps({**TREE, "out": str(folder / "run")}))
    done = call("train", str(folder / "run.yaml"))
    assert done.returncode == 0, done.stderr
    (folder / "table.csv").write_text("A,B,C\n60,1,amber\n40,2,birch\n70,3,amber\n")
    return folder


def test_an_answer_comes_with_its_program(run: Path) -> None:
    done = call("ask", str(run / "run"), str(run / "table.csv"), "greater 50 A sum B")
    assert done.returncode == 0, done.stderr
    answer, *program = done.stdout.splitlines()
    assert answer and len(program) == 4
    assert all(line.split()[1] in OPERATIONS for line in program)
    found = json.loads(call("ask", str(run / "run"), str(run / "table.csv"), "count", "--json", "--weights").stdout)
    assert {"question", "number", "cells", "program", "weights"} == set(found)
    assert len(found["weights"]["operations"]) == 4 and len(found["weights"]["columns"][0]) == 3
    shown = call("ask", str(run / "run"), str(run / "table.csv"), "count", "--weights").stdout
    assert "steps × operations" in shown and "steps × columns" in shown


def test_the_lens_shows_operations_and_columns_by_step(run: Path) -> None:
    page = run / "look.html"
    done = call("ask", str(run / "run"), str(run / "table.csv"), "greater 50 A sum B", "--out", str(page))
    assert done.returncode == 0, done.stderr
    assert "greater 50 A sum B" in page.read_text()
    done = call("inspect", str(run / "run"), "greater 50 A sum B", "--table", str(run / "table.csv"), "--json")
    assert done.returncode == 0, done.stderr
    maps = {one["name"]: one for one in json.loads(done.stdout)["maps"]}
    assert set(maps) == {"head.operation_weights", "head.column_weights", "head.pivot_weights"}
    assert len(maps["head.operation_weights"]["weights"][0]) == 4
    drawn = call("inspect", str(run / "run"), "greater 50 A sum B", "--table", str(run / "table.csv"))
    assert drawn.returncode == 0 and "difference" in drawn.stdout


def test_mistakes_are_told_with_a_way_out(run: Path) -> None:
    for words, told in (
        ((str(run / "none.csv"), "count"), "there is no such file"),
        ((str(run / "table.csv"), "total of B"), "never read total, of"),
    ):
        done = call("ask", str(run / "run"), *words)
        assert done.returncode != 0 and told in done.stderr, done.stderr


def test_it_is_evaluated_and_goes_on_to_the_bit(run: Path) -> None:
    found = json.loads(call("eval", str(run / "run"), "--split", "test", "--json").stdout)
    assert {"exact", "questions"} <= set(json.dumps(found).replace('"', " ").split())
    half = str(run / "half")
    assert call("train", str(run / "run.yaml"), f"out={half}", "train.steps=2").returncode == 0
    done = call("resume", half, "train.steps=4")
    assert done.returncode == 0, done.stderr
    one, two = (load_bundle(str(run / name)).model.state_dict() for name in ("run@latest", "half@latest"))
    assert all(torch.equal(one[key], two[key]) for key in one)


def test_programs_that_are_right_are_made_likelier() -> None:
    samples = list(islice(Tables(rows=(3, 5)).stream("questions", "train"), 30))
    tokenizer = regard_words(samples)
    cut = make_cutter(tokenizer)
    batch = collect([encode_sample(sample, cut) for sample in samples], tokenizer.pad)
    rows, columns = batch.chosen.shape[1:]
    torch.manual_seed(0)
    logits = torch.zeros(30, 1, 4, len(OPERATIONS), requires_grad=True)
    seen = {
        "head.operation_weights": logits.softmax(-1),
        "head.column_weights": torch.ones(30, 1, 4, columns) / columns,
        "head.pivot_weights": (batch.inputs.extras["places"] >= 0).float()[:, None, None].expand(-1, 1, 2, -1) / 2,
        "head.matched": torch.zeros(30, rows, columns),
    }
    explore(seen, batch, 64, 0.2).sum().backward()
    assert logits.grad is not None
    for n, sample in enumerate(samples):
        if sample["question"] == "count":  # what ends a right program is pushed up, and nothing else
            assert int(logits.grad[n, 0, 3].argmin()) == OPERATIONS.index("count")


def regard_words(samples: list[dict[str, Any]]) -> Any:
    from regard.data.tokenizer import TokenizerSpec

    return TokenizerSpec(pieces="given").train(text for sample in samples for text in list_texts_of(sample))


def test_choices_are_drawn_by_their_weights() -> None:
    torch.manual_seed(0)
    weights = torch.tensor([[[0.7, 0.3, 0.0]]])
    drawn = draw(weights, 4000, 0.0)[0, :, 0]
    shares = torch.bincount(drawn, minlength=3) / 4000
    torch.testing.assert_close(shares, weights[0, 0], atol=0.03, rtol=0)
    wild = draw(weights, 4000, 0.0, wild=4000)[0, :, 0]
    even = torch.bincount(wild, minlength=3) / 4000  # what can't be chosen isn't drawn
    torch.testing.assert_close(even, torch.tensor([0.5, 0.5, 0.0]), atol=0.03, rtol=0)


def test_an_answer_of_the_wrong_kind_is_wrong() -> None:
    samples = [{"question": "count", "names": ["A"], "cells": ["1", "2"], "number": 0}]
    tokenizer = regard_words(samples)
    batch = collect([encode_sample(sample, make_cutter(tokenizer)) for sample in samples], tokenizer.pad)
    answers = torch.zeros(1, 3)  # a number of 0, and no cell
    for name, right in (("count", 1.0), ("assign", 0.0), ("reset", 0.0)):
        last = torch.nn.functional.one_hot(torch.tensor([OPERATIONS.index(name)]), len(OPERATIONS)).float()
        assert check_answers(answers, last, batch, 1).tolist() == [[right]]


def make_programmer(operation: str) -> Programmer:
    """A model whose program is one call of an operation on its table's only column."""
    tokenizer = regard_words([{"question": "greater 1 A sum", "names": ["A"], "cells": ["1"]}])
    model = preset("neural-programmer", width=8, vocabulary=len(tokenizer), steps=1).build()
    assert isinstance(model.head, ProgramHead)
    with torch.no_grad():
        model.head.operation.bias.fill_(9.0)
        model.head.operations.weight.fill_(-1.0)
        model.head.operations.weight[OPERATIONS.index(operation)] = 1.0
    return Programmer(model, Lexicon((tokenizer, tokenizer)))


def test_answers_have_all_of_their_digits() -> None:
    summing, comparing = make_programmer("sum"), make_programmer("greater")
    found = summing.ask("sum A", {"A": [123456789, 1, 1]})
    assert found.text == "123456791" and str(found.program[0]) == "sum A"
    assert summing.ask("sum A", {"A": [0.1] * 30}).text == "3"
    step = comparing.ask("greater 16777216 A", {"A": [16777217, 16777216, 16777218]}).program[0]
    assert (str(step), step.rows) == ("greater A 16777216", 2)


def test_a_number_beside_the_right_one_is_wrong() -> None:
    found = make_programmer("sum").ask("sum A", {"A": [24_000, 1]})
    assert found.is_right({"number": 24_001}) and not found.is_right({"number": 24_000})
    assert make_programmer("sum").ask("sum A", {"A": [0.1, 0.2]}).is_right({"number": 0.3})


def test_tables_come_from_files_and_from_columns(tmp_path: Path) -> None:
    assert read_table({"A": [1, 2], "B": ["x", "y"]}) == (["A", "B"], ["1", "x", "2", "y"])
    file = tmp_path / "t.csv"
    file.write_text('A;B\n1;"x y"\n')
    assert read_table(file) == (["A", "B"], ["1", "x y"])
    file.write_text("A,A\n1,2\n")
    with pytest.raises(DataError, match="name of a column"):
        read_table(file)
    file.write_text("A,B\n1\n")
    with pytest.raises(DataError, match=r"t\.csv:2"):
        read_table(file)
    with pytest.raises(InputError, match="cells"):
        read_table({"A": [1], "B": []})
    assert [read_number(text) for text in ("-3", "2.5", "nan", "1_0", "x")] == [-3.0, 2.5, None, None, None]


def test_a_programmer_answers_from_python(run: Path) -> None:
    programmer = regard.load(str(run / "run"))
    assert isinstance(programmer, Programmer)
    found = programmer.ask("count", {"A": [1, 2], "B": [3, 4], "C": ["amber", "birch"]})
    assert len(found.program) == 4 and found.text
