"""Links in files, from two directions, and measured: against definitions written out, and counts made by hand."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from random import Random

import pytest

from regard.errors import DataError
from regard.lens.links import (
    SYMMETRIES,
    GoldLinks,
    Link,
    Links,
    Symmetry,
    measure_links,
    read_gold,
    symmetrize,
    turn_links,
    write_pharaoh,
)


def links(*pairs: Link) -> Links:
    return frozenset(pairs)


def test_measures_are_those_that_one_counts_by_hand() -> None:
    gold = [GoldLinks(links((0, 0), (1, 1)), links((0, 0), (1, 1), (2, 1))), GoldLinks(links((0, 0)), links((0, 0)))]
    found = [links((0, 0), (2, 1), (2, 2)), links((0, 0))]
    score = measure_links(found, gold)
    # four links, three sure gold ones; two links are sure, three are possible
    assert score.precision == pytest.approx(3 / 4)
    assert score.recall == pytest.approx(2 / 3)
    assert score.error_rate == pytest.approx(1 - (2 + 3) / (4 + 3))
    assert (score.links, score.sure, score.possible, score.sentences) == (4, 3, 4, 2)
    assert score.error_rate_low <= score.error_rate <= score.error_rate_high


def test_gold_itself_has_no_error_and_nothing_has_no_recall() -> None:
    gold = [GoldLinks(links((0, 0), (1, 2)), links((0, 0), (1, 2), (1, 1)))]
    assert measure_links([gold[0].sure], gold).error_rate == 0
    assert measure_links([gold[0].possible], gold).error_rate == 0  # more possible links are no mistake
    none = measure_links([frozenset()], gold)
    assert (none.error_rate, none.recall, none.precision) == (1, 0, 1)
    assert measure_links([frozenset()], [GoldLinks(frozenset(), frozenset())]).error_rate == 0


AROUND = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]


def grow_by_definition(forward: Links, backward: Links, final: str) -> Links:
    """Koehn's pseudo-code, word for word, on the full grid."""
    either, found, before = forward | backward, set(forward & backward), -1

    def lonely(here: int, there: int) -> tuple[bool, bool]:
        return all(one != here for one, _ in found), all(other != there for _, other in found)

    while before != len(found):
        before = len(found)
        for cell in product(range(5), range(6)):
            for down, across in AROUND if cell in found else ():
                new = cell[0] + down, cell[1] + across
                if new in either and any(lonely(*new)):
                    found.add(new)
    for side in (forward, backward) if final else ():
        for new in product(range(5), range(6)):
            if new in side and (all(lonely(*new)) if final == "and" else any(lonely(*new))):
                found.add(new)
    return frozenset(found)


WAYS: list[tuple[Symmetry, str]] = [("grow-diag", ""), ("grow-diag-final", "or"), ("grow-diag-final-and", "and")]


@pytest.mark.parametrize(("how", "final"), WAYS)
def test_growing_is_what_its_pseudo_code_says(how: Symmetry, final: str) -> None:
    chance, cells = Random(1), list(product(range(5), range(6)))
    for _ in range(300):
        forward, backward = (frozenset(chance.sample(cells, chance.randint(0, 9))) for _ in range(2))
        found = symmetrize(forward, backward, how)
        assert forward & backward <= found <= forward | backward
        assert found == grow_by_definition(forward, backward, final)


@pytest.mark.parametrize("how", SYMMETRIES)
def test_two_directions_that_agree_stay_as_they_are(how: Symmetry) -> None:
    same = links((0, 1), (2, 0), (3, 3))
    assert symmetrize(same, same, how) == same


def test_intersection_and_union_are_sets() -> None:
    one, other = links((0, 0), (1, 1)), links((1, 1), (2, 2))
    assert symmetrize(one, other, "intersection") == links((1, 1))
    assert symmetrize(one, other, "union") == one | other


def test_pharaoh_comes_back_from_a_file(tmp_path: Path) -> None:
    chance, sizes = Random(2), [(4, 5), (1, 1), (7, 3)]
    written = [frozenset(chance.sample(list(product(range(a), range(b))), min(3, a * b))) for a, b in sizes]
    (tmp_path / "gold").write_text("".join(f"{write_pharaoh(each)}\n" for each in written))
    gold = read_gold(tmp_path / "gold", sizes)
    assert [each.sure for each in gold] == written == [each.possible for each in gold]
    (tmp_path / "gold").write_text("0-0 1?1 2p0\n\n0-1\n")
    first, empty, _ = read_gold(tmp_path / "gold", [(3, 2), (1, 1), (2, 2)])
    assert (first.sure, first.possible) == (links((0, 0)), links((0, 0), (1, 1), (2, 0)))
    assert not empty.possible
    assert first.turn().possible == turn_links(first.possible) == links((0, 0), (1, 1), (0, 2))


def test_the_shared_task_counts_from_one_and_knows_sure_and_possible(tmp_path: Path) -> None:
    (tmp_path / "gold.wa").write_text("0001 1 1 S\n1 2 3 P\n2 1 1\n")
    first, second = read_gold(tmp_path / "gold.wa", [(2, 3), (1, 1)])
    assert (first.sure, first.possible) == (links((0, 0)), links((0, 0), (1, 2)))
    assert second.sure == links((0, 0))


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("0-0\n", "gold has 1 lines of links, and there are 2 pairs"),
        ("0-0\n0-0\n0-0\n", "gold has 3 lines of links, and there are 2 pairs"),
        ("0-0\n0-9\n", "gold:2: word 9 of the target is linked, and it has 3 words"),
        ("0-0\n5-0\n", "gold:2: word 5 of the source is linked, and it has 2 words"),
        ("0-0 1+1\n0-0\n", "gold:1: '1+1' isn't a link"),
        ("1 1 1 S\n", "gold has links up to sentence 1, and there are 2 pairs"),
        ("1 1 1 S\n3 1 1 S\n", "gold:2: it is of sentence 3, and there are 2 pairs"),
        ("1 1 1 S\n2 1 4 P\n", "gold:2: word 4 of the target is linked, and it has 3 words"),
        ("1 1 1 S\n2 1 0 P\n", "gold:2: word 0 of the target is linked"),
        ("1 1 1 S\n2 1 1 X\n", "gold:2: '2 1 1 X' isn't a link"),
        ("", "gold has 0 lines of links"),
    ],
)
def test_a_gold_file_that_does_not_fit_is_told_with_its_line(text: str, piece: str, tmp_path: Path) -> None:
    (tmp_path / "gold").write_text(text)
    with pytest.raises(DataError) as caught:
        read_gold(tmp_path / "gold", [(2, 3), (2, 3)])
    assert piece in str(caught.value)


def test_a_gold_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        read_gold(tmp_path / "nowhere", [])
