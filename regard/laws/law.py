"""What a law is: a promise, the cases that it is tried on, and whom it speaks of.

A law is a function that raises a `Breach` where its promise isn't kept. It knows nothing of the mixer but what the
protocol says, so it holds for anybody's.
"""

from __future__ import annotations

import math
import re
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from regard.laws.case import Case, shrink
from regard.laws.subject import Subject

C = TypeVar("C", bound=Case)
HERE = Path(__file__).parent
AXES = ("row", "position", "channel")


LARGE = 100.0  # numbers from which on rounding grows with them


class Close(NamedTuple):
    """How near two numbers must be: |found - expected| <= absolute + relative · |expected|.

    Where some are large, sums that cancel out are rounded as the large ones are, so that the absolute part grows too.
    """

    absolute: float = 2e-5
    relative: float = 1e-4

    def compare(self, found: Tensor, expected: Tensor) -> Tensor:
        """True where they are near enough."""
        scale = max(1.0, expected.abs().max().item() / LARGE) if expected.numel() else 1.0
        return torch.isclose(found, expected, atol=self.absolute * scale, rtol=self.relative)


USUAL, LOOSE, EXACT = Close(), Close(1e-4, 1e-3), Close(0.0, 0.0)


class Breach(Exception):
    """How a law was broken: in words, or two numbers that differ and where they do so first."""

    def __init__(
        self,
        message: str,
        *,
        place: dict[str, int] | None = None,
        found: float | None = None,
        expected: float | None = None,
        most: float | None = None,
        kind: str = "difference",
        case: Case | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.place, self.kind, self.case = message, place or {}, kind, case
        self.found, self.expected, self.most = found, expected, most

    @property
    def gap(self) -> float | None:
        """By how much they differ at that place."""
        return None if self.found is None or self.expected is None else abs(self.found - self.expected)

    def to_json(self) -> dict[str, Any]:
        return {
            "message": self.message,
            "place": self.place,
            "found": spell(self.found),
            "expected": spell(self.expected),
            "gap": spell(self.gap),
            "largest_gap": spell(self.most),
        }


def spell(number: float | None) -> float | str | None:
    """A number as JSON has it, which knows no infinity."""
    return number if number is None or math.isfinite(number) else str(number)


def insist(holds: bool, message: str) -> None:
    """Break the law with these words, unless something holds."""
    if not holds:
        raise Breach(message, kind="words")


def agree(
    found: Tensor,
    expected: Tensor,
    names: tuple[str, str],
    close: Close = USUAL,
    axes: Sequence[str] = AXES,
    rows: Sequence[int] = (),
) -> None:
    """Break the law where two tensors differ: the first place in time is told, and how large the gap becomes.

    `names`: what each of the two is. `rows`: which rows these are, if not all; of one alone, the axis may be missing.
    """
    mine, yours = names
    if (found.shape, found.dtype) != (expected.shape, expected.dtype):
        makes = [f"{each.dtype} of the shape {tuple(each.shape)}" for each in (found, expected)]
        raise Breach(f"{mine} {makes[0]}, {yours} {makes[1]}", kind="words")
    found, expected = found.detach(), expected.detach()
    near = close.compare(found, expected)
    if near.all():
        return
    axes = axes[len(axes) - found.dim() :]
    first = axes.index("position") if "position" in axes else 0
    index = min((~near).nonzero().tolist(), key=lambda place: (place[first], place))
    place = {"row": rows[0]} if len(rows) == 1 else {}
    place |= {axis: rows[n] if rows and axis == "row" else n for axis, n in zip(axes, index, strict=True)}
    here, there = found[tuple(index)].item(), expected[tuple(index)].item()
    told = tell_place(place)
    most = (found - expected).abs().max().item()
    raise Breach(
        f"{told}: {mine} {here:.6g}, {yours} {there:.6g}, a gap of {abs(here - there):.3g}; the largest is {most:.3g}",
        place=place,
        found=here,
        expected=there,
        most=most,
    )


def tell_place(place: dict[str, int]) -> str:
    """`row 0, position 1, channel 3`."""
    return ", ".join(f"{axis} {number}" for axis, number in place.items())


def insist_finite(y: Tensor, what: str) -> None:
    """Break the law where something isn't a finite number."""
    if not y.isfinite().all():
        index = (~y.isfinite()).nonzero()[0].tolist()
        place = dict(zip(AXES[len(AXES) - y.dim() :], index, strict=True))
        raise Breach(f"{tell_place(place)}: {what} is {y[tuple(index)].item()}", place=place, kind="words")


@dataclass(frozen=True)
class Counterexample(Generic[C]):
    """The smallest case that was found to break a law, and how."""

    case: C
    breach: Breach

    def tell(self) -> list[str]:
        """In words, a line for the case and one for what happens there."""
        return [self.case.tell(), self.breach.message]

    def to_json(self) -> dict[str, Any]:
        return {"case": self.case.to_json(), "told": self.case.tell(), **self.breach.to_json()}


@dataclass(frozen=True, eq=False)
class Law(Generic[C]):
    """A promise about every mixer that it speaks of."""

    name: str  # in words
    keep: Callable[[Subject, C], None]
    cases: tuple[C, ...]
    excuse: Callable[[Subject], str]  # why it doesn't speak of somebody; nothing where it does
    rests_on: tuple[Law[Any], ...]  # where one of these is broken, so is this one, and it would tell nothing new
    gradients: bool  # whether it needs the graph
    remark: Callable[[Subject], str]  # what is said beside a law that was held

    @property
    def promise(self) -> str:
        """What it says, and why that matters."""
        return " ".join((self.keep.__doc__ or "").split())

    def attempt(self, subject: Subject, case: C) -> Breach | None:
        """Try one case; what the subject itself raises breaks the law, too."""
        try:
            self.run(subject, case)
        except Breach as breach:
            return breach
        except Exception as error:  # of somebody else's code, so it may be anything
            return Breach(describe_error(error), kind=type(error).__name__)
        return None

    def run(self, subject: Subject, case: C) -> None:
        """Try one case, and raise what comes; the caller's random numbers go on as if nothing had been drawn."""
        with torch.random.fork_rng(devices=[]), torch.set_grad_enabled(self.gradients):
            self.keep(subject, case)

    def try_case(self, subject: Subject, case: C) -> Counterexample[C] | None:
        """Try one case, and cut it down to the smallest that breaks the law in the same manner."""
        breach = self.attempt(subject, case)
        if breach is None:
            return None
        begun: Any = breach.case or case  # what was drawn by chance tells what it drew
        kind = breach.kind

        def fail_alike(smaller: C) -> Breach | None:
            found = self.attempt(subject, smaller)
            return found if found is not None and found.kind == kind else None

        return Counterexample(*shrink(begun, breach, fail_alike))

    def find_breach(self, subject: Subject) -> Counterexample[C] | None:
        """The smallest counter-example of the first case that breaks it."""
        found = (self.try_case(subject, case) for case in self.cases)
        return next((example for example in found if example is not None), None)

    def find_any(self, subject: Subject) -> Counterexample[C] | None:
        """The first case that breaks it, as it is."""
        for case in self.cases:
            breach = self.attempt(subject, case)
            if breach is not None:
                return Counterexample(case, breach)
        return None


LAWS: list[Law[Any]] = []


def law(
    name: str,
    *cases: C,
    excuse: Callable[[Subject], str] = lambda _: "",
    rests_on: Sequence[Law[Any]] = (),
    gradients: bool = False,
    remark: Callable[[Subject], str] = lambda _: "",
) -> Callable[[Callable[[Subject, C], None]], Law[C]]:
    """Enter a function as a law, after those that it rests on."""

    def enter(keep: Callable[[Subject, C], None]) -> Law[C]:
        made = Law(name, keep, cases, excuse, tuple(rests_on), gradients, remark)
        LAWS.append(made)
        return made

    return enter


def describe_error(error: Exception) -> str:
    """`raises ValueError: … (my_mixer.py:12)`: the line is the innermost of the user's own code."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if HERE not in Path(frame.filename).parents]
    own = [frame for frame in theirs if not re.search(r"[/\\](site-packages|regard[/\\]core)[/\\]", frame.filename)]
    last = (own or theirs or list(frames))[-1]
    text = " ".join(str(error).split())
    return f"raises {type(error).__name__}: {text[:300]} ({Path(last.filename).name}:{last.lineno})"
