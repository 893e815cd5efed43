"""A trial: every law, tried on every variant of something, and what was found."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from regard.host.meter import SILENT, Meter
from regard.laws.build import list_subjects, name_thing
from regard.laws.case import count
from regard.laws.law import LAWS, Counterexample, Law
from regard.laws.subject import Subject

COLUMNS = 80
TOLD = 3  # variants that are named


@dataclass(frozen=True)
class Ruling:
    """What was found of one law."""

    law: Law[Any]
    verdict: Literal["held", "broken", "doesn't apply"]
    reason: str = ""  # why it doesn't apply, or what is to be said beside it
    example: Counterexample[Any] | None = None
    subject: Subject | None = None  # the variant that the example is of
    variants: int = 0  # that it was tried on
    broken_in: tuple[str, ...] = ()  # the variants that break it

    def try_again(self) -> None:
        """Run the smallest counter-example once more, so that it can be followed in a debugger; it raises."""
        if self.example is not None and self.subject is not None:
            self.law.run(self.subject, self.example.case)

    def tell(self) -> list[str]:
        """One line, and a few more for a counter-example."""
        if self.verdict == "doesn't apply":
            return fold("–", f"{self.law.name}: {self.reason}", 8)
        if self.example is None:
            return fold("held", f"{self.law.name}{f' ({self.reason})' if self.reason else ''}", 8)
        case, happens = self.example.tell()
        rows = [("smallest", case), ("there", happens), ("why", self.law.promise)]
        if self.subject is not None and self.variants > 1:
            more = len(self.broken_in) - 1
            others = f"and {more} more" if more else "alone"
            rows.insert(0, ("in", f"{self.subject.name}, {others} of {self.variants} variants"))
        lines = fold("BROKEN", self.law.name, 8)
        return lines + [f"  {'':8}{line[2:]}" for key, text in rows for line in fold(key, text, 10, COLUMNS - 8)]

    def to_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {"law": self.law.name, "verdict": self.verdict, "promise": self.law.promise}
        if self.reason:
            told["reason"] = self.reason
        if self.example is not None and self.subject is not None:
            told["counterexample"] = {"variant": self.subject.name, **self.example.to_json()}
            told["broken_in"] = list(self.broken_in)
        return told | {"variants": self.variants}


def fold(key: str, text: str, indent: int, width: int = COLUMNS) -> list[str]:
    """A word, and a text beside it on as many lines as it needs."""
    lines = textwrap.wrap(text, width - indent - 2, break_long_words=False, break_on_hyphens=False) or [""]
    return [f"  {'' if n else key:{indent}}{line}" for n, line in enumerate(lines)]


@dataclass(frozen=True)
class Trial:
    """What was found of something: a ruling for each law."""

    name: str
    width: int
    variants: tuple[str, ...]
    rulings: tuple[Ruling, ...]
    refused: dict[str, str] = field(default_factory=dict)  # variants that couldn't be built, and why

    @property
    def held(self) -> list[str]:
        """The names of the laws that it keeps."""
        return [ruling.law.name for ruling in self.rulings if ruling.verdict == "held"]

    @property
    def broken(self) -> list[Ruling]:
        return [ruling for ruling in self.rulings if ruling.verdict == "broken"]

    def tell(self) -> str:
        """A line for each law, as the command line prints it."""
        kinds = count(len(self.variants), "variant")
        few = "; ".join(self.variants[:TOLD]) + ("; …" if len(self.variants) > TOLD else "")
        lines = textwrap.wrap(f"{self.name}, {kinds} at width {self.width}: {few}", COLUMNS, subsequent_indent="  ")
        lines += [line for ruling in self.rulings for line in ruling.tell()]
        for variant, reason in self.refused.items():
            lines += fold("–", f"{variant} wasn't tried: {reason}", 8)
        return "\n".join([*lines, self.sum_up()])

    def sum_up(self) -> str:
        held, broken = len(self.held), len(self.broken)
        rest = len(self.rulings) - held - broken
        return f"{self.name}: {count(held, 'law')} held, {broken} broken, {rest} not for it"

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "width": self.width,
            "variants": list(self.variants),
            "held": len(self.held),
            "broken": len(self.broken),
            "laws": [ruling.to_json() for ruling in self.rulings],
            "refused": self.refused,
        }

    def __str__(self) -> str:
        return self.tell()


def check(
    thing: Any,
    *,
    name: str = "",
    width: int | None = None,
    settings: Mapping[str, Any] | None = None,
    causal: bool | None = None,
    quick: bool = False,
    meter: Meter = SILENT,
) -> Trial:
    """Try every law on a mixer: a spec, its class or kind, a Mixer, a torch module, or a function that makes one.

    A spec is tried with its defaults and with each switch and choice varied; `quick`: with its defaults alone. `width`
    and `settings` are for building a class. `causal`: whether a plain module may not look ahead, which it can't say.

    >>> from regard.laws import check
    >>> trial = check("pool", quick=True)
    >>> trial.broken
    []
    >>> import torch
    >>> trial = check(torch.nn.BatchNorm1d(10))  # it takes the second axis for channels, so it knows the length
    >>> trial.broken[0].law.name
    'it gives back the shape that it was given'
    """
    name = name or (thing if isinstance(thing, str) else name_thing(thing))
    subjects, refused = list_subjects(thing, name, width=width, settings=settings, causal=causal, quick=quick)
    breaches: list[dict[Law[Any], Counterexample[Any] | None]] = [{} for _ in subjects]
    rulings = []
    total = len(LAWS) * len(subjects)
    with use_one_thread(), meter.watch(f"trying laws on {name}", total) as advance:
        for law in LAWS:
            rulings.append(rule(law, subjects, breaches))
            advance(len(subjects))
    return Trial(name, subjects[0].width, tuple(subject.name for subject in subjects), tuple(rulings), refused)


@contextmanager
def use_one_thread() -> Iterator[None]:
    """Such small tensors are quicker without the others, and much quicker where those have work already."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def rule(law: Law[Any], subjects: list[Subject], breaches: list[dict[Law[Any], Counterexample[Any] | None]]) -> Ruling:
    """Try a law on every variant that it speaks of, and note there what broke it; only the first is cut down."""
    tried, broken, excuses, example = 0, list[Subject](), list[str](), None
    for subject, known in zip(subjects, breaches, strict=True):
        excuse = law.excuse(subject) or blame_another(law, known)
        if excuse:
            excuses.append(excuse)
            continue
        tried += 1
        found = law.find_breach(subject) if example is None else law.find_any(subject)
        if found is not None:
            known[law] = found
            broken.append(subject)
            example = example or found
    if not tried:
        return Ruling(law, "doesn't apply", excuses[0])
    if example is None:
        return Ruling(law, "held", law.remark(subjects[0]), variants=tried)
    names = tuple(subject.name for subject in broken)
    return Ruling(law, "broken", "", example, broken[0], tried, names)


def blame_another(law: Law[Any], known: Mapping[Law[Any], object]) -> str:
    """Why it isn't asked: something that it rests on is broken already, and it would only tell that again."""
    for other in law.rests_on:
        if other in known:
            return f"it rests on “{other.name}”"
        deeper = blame_another(other, known)
        if deeper:
            return deeper
    return ""
