"""Questions about tables by the command line: train, go on, evaluate, ask, look; and what is tried."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import islice, product
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import regard
from regard.core.program import OPERATIONS, Call, TableQuestion, compare_cells, run_program
from regard.data.corpora.tables import Tables
from regard.data.lexicon import Lexicon
from regard.errors import DataError, InputError
from regard.models import preset
from regard.parts.program import ProgramHead
from regard.runs.load import load_bundle
from regard.tasks.exploration import explore
from regard.tasks.programmer import Programmer, read_table
from regard.tasks.question import QuestionTaskSpec
from regard.tasks.tabular import QuestionBatch, collect, encode_sample, list_texts_of, make_cutter, read_number
from tests.cli.test_cli import regard as call

TREE: dict[str, Any] = {
    "task": {"kind": "question"},
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
    explore(seen, batch).sum().backward()
    assert logits.grad is not None
    for n, sample in enumerate(samples):
        if sample["question"] == "count":  # what ends a right program is pushed up, and nothing else
            assert int(logits.grad[n, 0, 3].argmin()) == OPERATIONS.index("count")


def test_settings_of_an_earlier_version_are_read() -> None:
    kept = {"kind": "question", "tries": 16, "chance": 0.2}
    assert QuestionTaskSpec.model_validate(kept) == QuestionTaskSpec()
    assert not QuestionTaskSpec.model_validate({**kept, "tries": 0}).trials


def regard_words(samples: list[dict[str, Any]]) -> Any:
    from regard.data.tokenizer import TokenizerSpec

    return TokenizerSpec(pieces="given").train(text for sample in samples for text in list_texts_of(sample))


def reaches(names: Sequence[str]) -> bool:
    """Whether a program is one of those that are tried."""
    asked, tests = ("sum", "count", "assign"), ("greater", "lesser", "match")
    if names[3] == "difference":
        return names[0] in asked[:2] and names[1] in ("reset", *tests) and names[2] in asked[:2]
    if names[3] not in asked:
        return False
    joined = names[2] in ("and", "or") and names[0] != names[1] and names[0] in tests and names[1] in tests
    return names[2] in ("reset", *tests) or joined


def test_what_is_tried_is_what_running_every_program_finds() -> None:
    samples = list(islice(Tables(rows=(3, 4), columns=1, texts=1, words=3).stream("questions", "train"), 40))
    tokenizer, steps, count = regard_words(samples), 4, len(OPERATIONS)
    torch.manual_seed(0)
    codes = [code for code in product(range(count), repeat=steps) if reaches([OPERATIONS[n] for n in code])]
    for sample in samples:
        batch = collect([encode_sample(sample, make_cutter(tokenizer))], tokenizer.pad)
        given = TableQuestion.read(batch.inputs.extras, "head")
        numbers = given.pivots.shape[1]
        seen = {
            "head.operation_weights": torch.rand(1, 1, steps, count).softmax(-1),
            "head.column_weights": torch.rand(1, 1, steps, 2).softmax(-1),
            "head.pivot_weights": torch.rand(1, 1, 2, numbers).softmax(-1),
            "head.matched": (torch.rand(1, *batch.chosen.shape[1:]) > 0.5).float(),
        }
        total = 0.0
        for places in product(range(2), repeat=steps):
            for pivots in product(range(max(1, numbers)), repeat=2):
                total += run_all(codes, places, pivots, seen, batch)
        found = float(explore(seen, batch))
        assert found == pytest.approx(-math.log(total) if total else 0.0, rel=1e-4)


def run_all(
    codes: Sequence[Sequence[int]],
    places: Sequence[int],
    pivots: Sequence[int],
    seen: Mapping[str, torch.Tensor],
    batch: QuestionBatch,
) -> float:
    """The probability of all right programs with some columns and numbers, by running each of them."""
    many, given = len(codes), TableQuestion.read(batch.inputs.extras, "head").repeat(len(codes))
    called = F.one_hot(torch.tensor(codes), len(OPERATIONS)).float()
    columns = F.one_hot(torch.tensor(places), 2).float().expand(many, -1, -1)
    numbers = given.pivots.shape[1]
    compared = F.one_hot(torch.tensor(pivots), numbers).float() if numbers else torch.zeros(2, 0)
    tests = compare_cells(given, compared.expand(many, -1, -1))
    tests["match"] = seen["head.matched"].expand(many, -1, -1)
    answers = run_program([Call(called[:, n], columns[:, n]) for n in range(4)], tests, given)
    last = [OPERATIONS[code[3]] for code in codes]
    looked = torch.tensor([name == "assign" for name in last])
    if bool(batch.looked):
        right = looked & (answers[:, 1:] == batch.chosen.flatten(1)).all(1)
    else:
        right = ~looked & (answers[:, 0] == batch.numbers)
    weights = torch.ones(many)
    for step in range(4):
        weights = weights * seen["head.operation_weights"][0, 0, step, torch.tensor(codes)[:, step]]
        weights = weights * seen["head.column_weights"][0, 0, step, places[step]]
    for n in range(2 if numbers else 0):
        weights = weights * seen["head.pivot_weights"][0, 0, n, pivots[n]]
    return float(weights[right].sum())


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
