"""Links between the words of two texts: how they are written in files, joined from two directions, and measured.

A link is a pair of places, counted from 0: a word of the source, a word of the target. People who link words by hand
tell apart links that are sure and links that are possible; every sure one is possible too. The measures are those of
Och and Ney (2003).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from regard.errors import DataError

Link = tuple[int, int]  # source word, target word
Links = frozenset[Link]
Symmetry = Literal["intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"]
SYMMETRIES = get_args(Symmetry)
RESAMPLES = 1000
TAIL = 2.5  # percent of the resamples on each side of an interval
PHARAOH = re.compile(r"(\d+)([-–?p])(\d+)")


@dataclass(frozen=True)
class GoldLinks:
    """What people say of one pair of sentences."""

    sure: Links
    possible: Links  # the sure ones among them

    def turn(self) -> GoldLinks:
        """The same for the other direction."""
        return GoldLinks(turn_links(self.sure), turn_links(self.possible))


def turn_links(links: Iterable[Link]) -> Links:
    """Links with source and target exchanged."""
    return frozenset((there, here) for here, there in links)


@dataclass(frozen=True)
class AlignmentScore:
    """How links compare with gold ones, over all sentences; the interval is a bootstrap over sentences."""

    error_rate: float  # 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|)
    error_rate_low: float
    error_rate_high: float
    precision: float  # |A ∩ P| / |A|
    recall: float  # |A ∩ S| / |S|
    f1: float
    links: int
    sure: int
    possible: int
    sentences: int

    def as_json(self) -> dict[str, Any]:
        return dict(vars(self))


def measure_links(found: Sequence[Set[Link]], gold: Sequence[GoldLinks], seed: int = 0) -> AlignmentScore:
    """Alignment error rate, precision and recall; where nothing is to be linked and nothing is, nothing is wrong."""
    counts = np.array(
        [
            (len(links), len(true.sure), len(links & true.sure), len(links & true.possible))
            for links, true in zip(found, gold, strict=True)
        ],
        dtype=np.float64,
    ).reshape(-1, 4)
    draws = np.random.default_rng(seed).integers(len(counts), size=(RESAMPLES, len(counts))) if len(counts) else None
    rates = [0.0] if draws is None else [_error_rate(counts[draw].sum(0)) for draw in draws]
    links, sure, right, allowed = counts.sum(0)
    low, high = (float(np.percentile(rates, tail)) for tail in (TAIL, 100 - TAIL))
    precision, recall = _over(allowed, links), _over(right, sure)
    return AlignmentScore(
        _error_rate(counts.sum(0)),
        low,
        high,
        precision,
        recall,
        2 * precision * recall / (precision + recall) if precision + recall else 0.0,
        int(links),
        int(sure),
        sum(len(true.possible) for true in gold),
        len(counts),
    )


def _error_rate(sums: Any) -> float:
    links, sure, right, allowed = sums
    return 1 - _over(right + allowed, links + sure)


def _is_number(cell: str) -> bool:
    return cell.isascii() and cell.isdigit()


def _over(part: float, whole: float) -> float:
    return float(part / whole) if whole else 1.0


def symmetrize(forward: Set[Link], backward: Set[Link], how: Symmetry) -> Links:
    """One set of links from those of two directions (Och and Ney 2003; Koehn et al. 2003).

    `grow-diag` begins with what both have, and adds neighbours, diagonal ones too, of what is there already, out of
    what either has, as long as one of the two words has no link yet. `final` then adds further links of either for a
    word without one; `final-and` only where both words are without.
    """
    both, either = forward & backward, forward | backward
    if how in ("intersection", "union"):
        return frozenset(both if how == "intersection" else either)
    links = set(both)
    _grow(links, either)
    if how != "grow-diag":
        joins: Callable[[bool, bool], bool] = (
            (lambda a, b: a and b) if how == "grow-diag-final-and" else lambda a, b: a or b
        )
        for side in (forward, backward):
            _add_rest(links, side, joins)
    return frozenset(links)


NEIGHBOURS = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]


def _grow(links: set[Link], either: Set[Link]) -> None:
    """Add neighbours, in the order of Koehn's pseudo-code: what is added in a pass may grow in the same pass."""
    sources, targets = {here for here, _ in links}, {there for _, there in links}
    cells, before = sorted(either), -1
    while before < len(links):
        before = len(links)
        for here, there in cells:
            if (here, there) not in links:
                continue
            for down, across in NEIGHBOURS:
                new = here + down, there + across
                if new in either and (new[0] not in sources or new[1] not in targets):
                    links.add(new)
                    sources.add(new[0])
                    targets.add(new[1])


def _add_rest(links: set[Link], side: Set[Link], joins: Callable[[bool, bool], bool]) -> None:
    sources, targets = {here for here, _ in links}, {there for _, there in links}
    for here, there in sorted(side):
        if joins(here not in sources, there not in targets):
            links.add((here, there))
            sources.add(here)
            targets.add(there)


def write_pharaoh(links: Iterable[Link]) -> str:
    """Links as Moses and its kin write them: `0-0 1-2`."""
    return " ".join(f"{here}-{there}" for here, there in sorted(links))


def read_gold(path: Path, sizes: Sequence[tuple[int, int]]) -> list[GoldLinks]:
    """The gold links of sentences with so many words each, from a file in either format.

    Pharaoh: a line a sentence, `0-0 1?2 3p4`, places from 0, `?` or `p` where a link is only possible. NAACL 2003: a
    line a link, `sentence source target [S|P]`, all from 1. The first line that isn't empty tells which it is.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        told = error.strerror if isinstance(error, OSError) else error
        raise DataError(f"{path}: {told}", "check the path") from None
    lines = lines[:-1] if lines and not lines[-1] else lines
    first = next((line.split() for line in lines if line.strip()), [])
    shared = len(first) in (3, 4, 5) and all(_is_number(cell) for cell in first[:3])
    read = _read_shared_task if shared else _read_pharaoh
    return read([line.removesuffix("\r") for line in lines], path, sizes)


def _read_pharaoh(lines: Sequence[str], path: Path, sizes: Sequence[tuple[int, int]]) -> list[GoldLinks]:
    if len(lines) != len(sizes):
        raise DataError(f"{path} has {len(lines)} lines of links, and there are {len(sizes)} pairs of sentences")
    gold = []
    for number, (line, size) in enumerate(zip(lines, sizes, strict=True), 1):
        sure, possible = set[Link](), set[Link]()
        for word in line.split():
            parts = PHARAOH.fullmatch(word)
            if parts is None:
                raise DataError(f"{path}:{number}: {word!r} isn't a link", "0-0 1-2, or 1?2 where it is only possible")
            link = int(parts[1]), int(parts[3])
            _check_place(link, size, f"{path}:{number}", 0)
            possible.add(link)
            if parts[2] in "-–":
                sure.add(link)
        gold.append(GoldLinks(frozenset(sure), frozenset(possible)))
    return gold


def _read_shared_task(lines: Sequence[str], path: Path, sizes: Sequence[tuple[int, int]]) -> list[GoldLinks]:
    sure: list[set[Link]] = [set() for _ in sizes]
    possible: list[set[Link]] = [set() for _ in sizes]
    for number, line in enumerate(lines, 1):
        cells = line.split()
        if not cells:
            continue
        place = f"{path}:{number}"
        numbered = len(cells) >= 3 and all(_is_number(cell) for cell in cells[:3])
        if not numbered or not re.fullmatch(
            r"|[SP]|(?:[SP] )?\d*\.?\d+", " ".join(cells[3:])
        ):  # a confidence is passed over
            raise DataError(f"{place}: {line.strip()!r} isn't a link", "sentence, source word, target word, S or P")
        sentence, here, there = (int(cell) - 1 for cell in cells[:3])
        if not 0 <= sentence < len(sizes):
            raise DataError(f"{place}: it is of sentence {sentence + 1}, and there are {len(sizes)} pairs of sentences")
        _check_place((here, there), sizes[sentence], place, 1)
        possible[sentence].add((here, there))
        if cells[3:4] != ["P"]:
            sure[sentence].add((here, there))
    last = max((n for n, links in enumerate(possible, 1) if links), default=0)
    if last < len(sizes):
        raise DataError(f"{path} has links up to sentence {last}, and there are {len(sizes)} pairs of sentences")
    return [GoldLinks(frozenset(one), frozenset(other)) for one, other in zip(sure, possible, strict=True)]


def _check_place(link: Link, size: tuple[int, int], place: str, first: int) -> None:
    for side, where, count in zip(("source", "target"), link, size, strict=True):
        if not 0 <= where < count:
            told = f"word {where + first} of the {side} is linked, and it has {count} words"
            raise DataError(f"{place}: {told}, counted from {first}", "check that links and text belong together")
