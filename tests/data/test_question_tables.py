"""Questions about tables: every answer again by a plain reading of the question, and what is held out."""

from __future__ import annotations

from itertools import islice

import pytest

from regard.data.corpora.tables import Tables, choose_templates, divide_wordings, list_wordings
from regard.data.sample import FormSpec, Sample
from regard.errors import RegardError


def solve(sample: Sample) -> float | list[int]:
    """The answer, read off the words of the question one by one."""
    names, cells, words = sample["names"], sample["cells"], sample["question"].split()
    width = len(names)
    rows = [cells[n : n + width] for n in range(0, len(cells), width)]
    selected: list[set[int]] = []
    joint = "and"
    while words and words[0] in ("greater", "lesser", "match", "and", "or"):
        word = words.pop(0)
        if word in ("and", "or"):
            joint = word
            continue
        value, column = words.pop(0), names.index(words.pop(0))
        fits = {
            "greater": lambda cell, value=value: float(cell) > float(value),
            "lesser": lambda cell, value=value: float(cell) < float(value),
            "match": lambda cell, value=value: cell == value,
        }[word]
        selected.append({n for n, row in enumerate(rows) if fits(row[column])})
    kept = set(range(len(rows)))
    if selected:
        kept = set.union(*selected) if joint == "or" else set.intersection(*selected)
    if words[0] == "print":
        return sorted(n * width + names.index(words[1]) for n in kept)
    parts = " ".join(words).split(" difference ")
    values = [
        len(kept) if part == "count" else sum(int(rows[n][names.index(part.split()[1])]) for n in kept)
        for part in parts
    ]
    return float(values[0] - values[1] if len(values) > 1 else values[0])


@pytest.mark.parametrize(("columns", "texts"), [(1, 0), (3, 0), (2, 2)])
def test_every_answer_is_what_the_question_says(columns: int, texts: int) -> None:
    corpus = Tables(columns=columns, texts=texts)
    for split in ("train", "test"):
        for sample in islice(corpus.stream("questions", split), 150):
            assert not FormSpec.parse("questions").find_fault(sample)
            assert (sample["chosen"] if "chosen" in sample else sample["number"]) == solve(sample)


def test_there_are_the_paper_s_number_of_templates_for_one_column() -> None:
    assert len(list_wordings(["A"], [])) == 23
    assert divide_wordings(list_wordings(["A"], []), 0.2)[1] == []  # each is its template's only wording


def test_what_is_held_out_is_never_trained_and_is_tested() -> None:
    corpus = Tables(columns=3, rows=(4, 6), test_rows=(4, 6), held_templates=0.0)
    held = {str(wording) for wording in divide_wordings(list_wordings(["A", "B", "C"], []), 0.2)[1]}
    assert held

    def word(sample: Sample) -> str:
        return " ".join("#" if each.lstrip("-").isdigit() else each for each in sample["question"].split())

    trained = {word(sample) for sample in islice(corpus.stream("questions", "train"), 1500)}
    assert not trained & held
    tested = list(islice(corpus.stream("questions", "test"), 300))
    assert any(sample["unseen"] for sample in tested)
    assert all(sample["unseen"] == (word(sample) in held) for sample in tested)


@pytest.mark.parametrize(("columns", "texts"), [(1, 0), (2, 1)])
def test_some_templates_are_only_in_the_test_and_made_of_what_is_trained(columns: int, texts: int) -> None:
    corpus = Tables(columns=columns, texts=texts, rows=(3, 4), test_rows=(3, 4), held_out=0.0)
    drawn = {split: list(islice(corpus.stream("questions", split), 800)) for split in ("train", "validation", "test")}
    found = {split: {sample["template"] for sample in samples} for split, samples in drawn.items()}
    held = found["test"] - found["train"]
    assert held and not held & found["validation"] and found["train"] == found["validation"]
    for template in held:
        conditions, _, asked = template.rpartition(" ")
        first, joint, second = conditions.split()
        others = [each.rpartition(" ") for each in found["train"]]
        assert any(each == conditions for each, _, _ in others)
        assert any(kind == asked and joint in each.split() for each, _, kind in others)
        assert {f"{first} {asked}", f"{second} {asked}"} <= found["train"]
    assert all(sample["unseen"] == (sample["template"] in held) for sample in drawn["test"])


def test_the_parts_of_templates_are_trained_however_many_are_held_out() -> None:
    wordings = list_wordings(["A"], [])
    assert len(choose_templates(wordings, 0.2)) == 2 and not choose_templates(wordings, 0.0)
    trained = {wording.template for wording in wordings} - choose_templates(wordings, 0.99)
    joined = [template.rpartition(" ") for template in trained if {"and", "or"} & set(template.split())]
    assert len({conditions for conditions, _, _ in joined}) == 4 and {asked for *_, asked in joined} == {
        "sum",
        "count",
        "print",
    }


def test_tables_of_the_test_are_longer_and_hold_larger_numbers() -> None:
    corpus = Tables()
    train, test = (list(islice(corpus.stream("questions", split), 60)) for split in ("train", "test"))
    assert {sample["size"] for sample in train} <= set(range(30, 101)) and {sample["size"] for sample in test} == {120}
    assert max(abs(int(cell)) for sample in train for cell in sample["cells"]) <= 100
    assert max(abs(int(cell)) for sample in test for cell in sample["cells"]) > 150


def test_the_same_seed_makes_the_same_questions() -> None:
    one, two = (list(islice(Tables(columns=2).stream("questions", "train"), 5)) for _ in range(2))
    assert one == two


def test_settings_that_make_no_sense_are_refused() -> None:
    for settings, told in (({"rows": (9, 3)}, "rows"), ({"columns": 30}, "names"), ({"words": 99}, "words")):
        with pytest.raises(RegardError, match=told):
            Tables.parse({"kind": "tables", **settings})


def test_a_sample_without_whole_rows_or_an_answer_is_no_sample() -> None:
    form = FormSpec.parse("questions")
    table = {"question": "count", "names": ["A", "B"]}
    assert "whole rows" in form.find_fault({**table, "cells": ["1"], "number": 1})
    assert "answer" in form.find_fault({**table, "cells": ["1", "2"]})
    assert "none of them" in form.find_fault({**table, "cells": ["1", "2"], "chosen": [2]})
