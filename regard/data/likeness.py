"""Pairs whose sides may not belong together: equal ones, lengths that don't fit, languages that are mixed up."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from regard.data.language import guess_language
from regard.data.sample import Sample

BIN = 0.02  # of the logarithm of a ratio
SHORT = 30  # characters of both sides together below which a ratio says nothing
FAR, LEAST = 5.0, math.log(2)  # how far is far: so many usual deviations, and twice as long at least
SHOWN = 3  # places that are held
SURE = 0.6  # of the texts whose language is known, before a side is said to have one
SIDES = ("source", "target")


@dataclass
class Suspicion:
    """Pairs that should be looked at: how many, and where the first or the worst ones are."""

    count: int = 0
    places: list[str] = field(default_factory=list)

    def add(self, place: str) -> None:
        self.count += 1
        if len(self.places) < SHOWN:
            self.places.append(place)


class PairSurvey:
    """What is suspicious among pairs."""

    def __init__(self) -> None:
        self.equal = Suspicion()
        self.ratios = Counter[int]()  # of the sides' lengths, as logarithms in steps
        self.extreme: tuple[list[tuple[float, str]], list[tuple[float, str]]] = ([], [])  # least and greatest
        self.languages = Counter[tuple[str | None, str | None]]()
        self.first: dict[tuple[str | None, str | None], list[str]] = {}  # places, by both languages

    def see(self, sample: Sample) -> None:
        source, target, place = sample["source"], sample["target"], str(sample.get("place", ""))
        if source == target:
            self.equal.add(place)
        if len(source) + len(target) >= SHORT:
            ratio = math.log((len(target) + 1) / (len(source) + 1))
            self.ratios[round(ratio / BIN)] += 1
            for heap, value in zip(self.extreme, (-ratio, ratio), strict=True):
                # a heap gives up its least, so what stays is what is farthest out
                (heapq.heappush if len(heap) < SHOWN else heapq.heappushpop)(heap, (value, place))
        both = guess_language(source), guess_language(target)
        self.languages[both] += 1
        places = self.first.setdefault(both, [])
        if len(places) < SHOWN:
            places.append(place)

    def find_usual_ratio(self) -> float:
        """How much longer the target usually is than the source, in characters."""
        return math.exp(self._find_middle(self.ratios))

    def find_misfits(self) -> Suspicion:
        """Pairs whose lengths are far from the usual ratio, the worst first."""
        if not self.ratios:
            return Suspicion()
        usual = self._find_middle(self.ratios)
        distances = Counter[int]()
        for step, count in self.ratios.items():
            distances[round(abs(step * BIN - usual) / BIN)] += count
        # the median of the distances times 1.48 is a deviation that misfits themselves don't widen
        far = max(LEAST, FAR * 1.48 * self._find_middle(distances))
        count = sum(count for step, count in self.ratios.items() if abs(step * BIN - usual) > far)
        held = [(abs(value - usual), place) for value, place in self._unfold()]
        worst = [place for distance, place in sorted(held, reverse=True) if distance > far]
        return Suspicion(count, worst[:SHOWN])

    def _unfold(self) -> list[tuple[float, str]]:
        """The extreme ratios with their places."""
        least, greatest = self.extreme
        return [*((-value, place) for value, place in least), *greatest]

    def _find_middle(self, counts: Mapping[int, int]) -> float:
        half, seen = sum(counts.values()) / 2, 0
        for step in sorted(counts):
            seen += counts[step]
            if seen >= half:
                return step * BIN
        return 0.0

    def find_languages(self) -> tuple[str | None, str | None]:
        """The language of each side, where most texts agree on one."""
        return self._find_language(0), self._find_language(1)

    def _find_language(self, side: int) -> str | None:
        counts = Counter[str]()
        for both, count in self.languages.items():
            if (name := both[side]) is not None:
                counts[name] += count
        name, count = counts.most_common(1)[0] if counts else ("", 0)
        return name if count > SURE * counts.total() else None

    def find_strangers(self) -> dict[str, Suspicion]:
        """Pairs with a side in another language than the rest, by what is wrong with them."""
        usual, found = self.find_languages(), dict[str, Suspicion]()
        for both, count in self.languages.items():
            if None not in usual and usual[0] != usual[1] and both == usual[::-1]:
                self._add(found, "sides swapped", both, count)
                continue
            for side, name in enumerate(SIDES):
                if usual[side] is not None and both[side] not in (None, usual[side]):
                    self._add(found, f"{name} in {both[side]} instead of {usual[side]}", both, count)
        return dict(sorted(found.items(), key=lambda item: -item[1].count))

    def _add(self, found: dict[str, Suspicion], what: str, both: tuple[str | None, str | None], count: int) -> None:
        known = found.setdefault(what, Suspicion())
        known.count += count
        known.places = [*known.places, *self.first[both]][:SHOWN]
