"""Making cases smaller: what still fails is cut down as far as it goes, and nothing impossible is tried."""

from __future__ import annotations

import itertools
import json

import pytest

from regard.laws import LAWS, Case
from regard.laws.case import Cut, Packed, Padded, Whole, lessen, shrink
from regard.laws.player import Chance
from regard.laws.script import Join, Read, Rewind, Script, Select, Stretch

CASES = [case for law in LAWS for case in law.cases if not isinstance(case, Chance)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: type(case).__name__)
def test_smaller_cases_end_and_can_be_told(case: Case) -> None:
    """Even where everything fails, something is left in the end, and it is the least of its kind."""
    tried: list[Case] = []
    least, _ = shrink(case, 0, tried.append)
    assert least == case  # nothing fails, so nothing is taken
    assert all(smaller.possible and smaller.size < case.size for smaller in tried)
    least, _ = shrink(case, 0, lambda smaller: len(smaller.size), tries=10_000)
    assert least.possible
    assert not [smaller for smaller in least.smaller() if smaller.possible and smaller.size < least.size]
    for told in (case, least):
        assert told.tell()
        assert json.loads(json.dumps(told.to_json())) is not None


def test_numbers_tuples_and_what_holds_them_become_less() -> None:
    assert list(lessen(7)) == [0, 1, 3, 6]
    assert list(lessen(True)) == list(lessen("left")) == list(lessen(None)) == []
    assert list(lessen((2, 1))) == [(1,), (2,), (0, 1), (1, 1), (2, 0)]
    assert list(lessen(Whole(1, 2))) == [Whole(0, 2), Whole(1, 0), Whole(1, 1)]


def test_the_search_finds_the_smallest_among_all() -> None:
    """Against brute force: of all small cases with some property, the one of the least size."""

    def fails(case: Cut) -> bool | None:
        return (case.time - case.at >= 2 and case.rows >= 2) or None

    found, _ = shrink(Cut(3, 10, 6), True, fails)
    every = (Cut(*numbers) for numbers in itertools.product(range(4), range(11), range(11)))
    assert found == min((case for case in every if case.possible and fails(case)), key=lambda case: case.size)


def test_a_script_loses_rows_with_all_that_belongs_to_them() -> None:
    """As many rows as before, but not in their places: found among three rows, with pads and a memory's ends."""
    pads = Read(2, (Stretch(0, 2), Stretch(1, 1), Stretch(0, 1)))
    script = Script((pads, Select((2, 0, 0)), Read(3)), ends=(3, 2, 1))

    def moves(smaller: Script) -> bool | None:
        selects = [event.rows for event in smaller.events if isinstance(event, Select)]
        reads = [event for event in smaller.events if isinstance(event, Read)]
        moved = any(len(rows) == smaller.rows and rows != tuple(range(smaller.rows)) for rows in selects)
        return (moved and len(reads) == 2) or None

    found, _ = shrink(script, True, moves)
    assert found.tell() == "2 rows, read 1, select rows 0, 0, read 1"


def test_cases_are_told_as_people_say_them() -> None:
    other = Script((Read(1),), rows=1)
    script = Script((Read(3, (Stretch(1, 1), Stretch(0, 3))), Select((1,)), Rewind(2), Join((other,)), Read(1)), rows=2)
    assert script.tell() == "2 rows, read 3 (.x., xxx), select row 1, rewind to 2, join (1 row, read 1), read 1"
    assert Script.read(1, rows=1, dtype="float64").tell() == "1 row, read 1 in float64"
    assert Padded("left", (2, 1), 1).tell() == "2 rows with 2, 1 real, filled up to 3 on the left"
    assert Packed(((1, 2), (3,))).tell() == "documents of these lengths, one after the other in row 0: 1, 2; row 1: 3"


def test_padded_and_packed_cases_say_what_is_real() -> None:
    assert Padded("left", (2, 1), 1).valid.int().tolist() == [[0, 1, 1], [0, 0, 1]]
    assert Padded("right", (2, 1), 1).valid.int().tolist() == [[1, 1, 0], [1, 0, 0]]
    packed = Packed(((1, 2), (1,)))
    assert packed.valid.int().tolist() == [[1, 1, 1], [1, 0, 0]]
    assert packed.numbers.tolist() == [[0, 1, 1], [0, 0, 0]]
    assert [len(piece) for piece in packed.split(packed.numbers)] == [1, 2, 1]
