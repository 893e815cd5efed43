"""Corpora for a memory: answers by another way to them, and as many problems as are counted."""

from __future__ import annotations

from itertools import islice
from random import Random

import pytest

from regard.data.corpora.algorithms import problems
from regard.data.corpora.remembering import associative_recall, recalls, repeat_copy, repetitions
from regard.errors import SpecError


def test_a_sequence_is_repeated_as_often_as_is_said() -> None:
    for problem in islice(problems("repeat-copy", "train 0", (1, 6)), 100):
        *letters, times = problem.source
        assert "".join(problem.target) == "".join(letters) * int(times) and problem.size == len(letters)


def test_the_item_after_the_one_that_is_asked_for_is_recalled() -> None:
    for problem in islice(problems("associative-recall", "test 0", (2, 6)), 100):
        told, _, asked = " ".join(problem.source).partition(" ? ")
        items = [item.strip() for item in told.split("|")[1:]]
        assert len(set(items)) == len(items) == problem.size
        assert items[items.index(asked) + 1] == " ".join(problem.target)


def test_problems_are_counted_right() -> None:
    every = {(*problem.source, "→") for problem in (repeat_copy(Random(n), 2, 2, 3) for n in range(2000))}
    assert len(every) == repetitions(2, 2, 3) == 12
    recalled = {tuple(associative_recall(Random(n), 3, 2, 2).source) for n in range(4000)}
    assert len(recalled) == recalls(3, 2, 2) == 48


def test_what_has_no_answer_is_refused() -> None:
    with pytest.raises(SpecError, match="no item after another"):
        associative_recall(Random(0), 1)
    with pytest.raises(SpecError, match="2 symbols make 4 items, and 5 are asked for"):
        associative_recall(Random(0), 5, 2, 2)
