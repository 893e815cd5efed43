"""Questions about tables, with their answers (after Neelakantan et al. 2015): `greater 50 A and lesser 10 B sum C`.

A question selects rows by one or two conditions and asks for a sum, a count or the cells of a column, or it asks for
the difference of two numbers. Tables for the test are longer and hold larger numbers than those of training, so that
only who learned the operations answers. Of the wordings that a template has with different columns, some are never
trained; and of the templates with two conditions, some aren't at all (`lesser # A or greater # B print A`), though all
that they are made of is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from random import Random
from string import ascii_uppercase
from typing import ClassVar, Literal, Self

from pydantic import model_validator

from regard.core.spec import Count, Rate, Size
from regard.data.corpus import Generated
from regard.data.corpus import Split as CorpusSplit
from regard.data.sample import Form, Sample
from regard.data.split import TOP, hash_text
from regard.errors import SpecError

WORDS = ("amber", "birch", "coral", "delta", "ember", "flint", "grove", "heron", "ivory", "jade")
TRIES = 20  # before a question may select no row, or all: what is right in many ways teaches little
NUMBER, TEXT = "#", "@"  # the places of a number and of a text in a wording

Rows = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Condition:
    """What a row must have in one column."""

    kind: Literal["greater", "lesser", "match"]
    column: str

    def __str__(self) -> str:
        return f"{self.kind} {TEXT if self.kind == 'match' else NUMBER} {self.column}"

    def holds(self, cell: str, value: str) -> bool:
        if self.kind == "match":
            return cell == value
        return int(cell) > int(value) if self.kind == "greater" else int(cell) < int(value)


@dataclass(frozen=True)
class Wording:
    """A question without its numbers and texts: conditions, how they are joined, and what is asked of their rows.

    Two of `asked` are to be subtracted, the second from the first, and they are asked of all rows.
    """

    conditions: tuple[Condition, ...]
    joint: Literal["", "and", "or"]
    asked: tuple[tuple[Literal["sum", "count", "print"], str], ...]  # with its column; a count has none

    def __str__(self) -> str:
        asked = " difference ".join(" ".join(part for part in each if part) for each in self.asked)
        return " ".join((f" {self.joint} ".join(str(condition) for condition in self.conditions), asked)).strip()

    @property
    def template(self) -> str:
        """The wording whatever its columns are."""
        kinds = f" {self.joint} ".join(condition.kind for condition in self.conditions)
        return f"{kinds} {' difference '.join(kind for kind, _ in self.asked)}".strip()

    def select(self, names: Sequence[str], rows: Rows, values: Sequence[str]) -> list[int]:
        """The rows that fulfil the conditions."""
        join = any if self.joint == "or" else all
        places = [names.index(condition.column) for condition in self.conditions]
        wanted = list(zip(self.conditions, places, values, strict=True))
        return [n for n, row in enumerate(rows) if join(each.holds(row[at], value) for each, at, value in wanted)]

    def answer(self, names: Sequence[str], rows: Rows, values: Sequence[str]) -> dict[str, float | list[int]]:
        """The `number` that the question comes to, or the cells that are `chosen`, counted along the rows."""
        selected = self.select(names, rows, values)
        kind, column = self.asked[0]
        if kind == "print":
            return {"chosen": [n * len(names) + names.index(column) for n in selected]}
        found = [
            len(selected) if kind == "count" else sum(int(rows[n][names.index(column)]) for n in selected)
            for kind, column in self.asked
        ]
        return {"number": found[0] - found[1] if len(found) > 1 else found[0]}


def list_wordings(numeric: Sequence[str], textual: Sequence[str]) -> list[Wording]:
    """Every question that can be asked about such columns. Each kind of condition occurs at most once in one."""
    single = [Condition(kind, name) for kind in ("greater", "lesser") for name in numeric]
    single += [Condition("match", name) for name in textual]
    pairs = [pair for pair in permutations(single, 2) if pair[0].kind != pair[1].kind]
    conditions: list[tuple[tuple[Condition, ...], Literal["", "and", "or"]]] = [((), ""), *(((c,), "") for c in single)]
    conditions += [(pair, joint) for pair in pairs for joint in ("and", "or")]
    sums = [("sum", name) for name in numeric]
    asked = [*sums, ("count", ""), *(("print", name) for name in (*numeric, *textual))]
    found = [Wording(chosen, joint, (each,)) for (chosen, joint), each in product(conditions, asked)]  # type: ignore[arg-type]
    differences = [*((one, ("count", "")) for one in sums), *((("count", ""), one) for one in sums)]
    differences += list(permutations(sums, 2))
    return found + [Wording((), "", pair) for pair in differences]  # type: ignore[arg-type]


def divide_wordings(wordings: Sequence[Wording], share: float) -> tuple[list[Wording], list[Wording]]:
    """Those that may be trained, and those that are held out. A template's only wording is always trained."""
    by_template: dict[str, list[Wording]] = {}
    for wording in wordings:
        by_template.setdefault(wording.template, []).append(wording)
    held = [
        wording
        for group in by_template.values()
        for wording in sorted(group, key=lambda each: hash_text(str(each)))[1:]
        if hash_text(str(wording)) < share * TOP
    ]
    out = {str(wording) for wording in held}
    return [wording for wording in wordings if str(wording) not in out], held


def choose_templates(wordings: Sequence[Wording], share: float) -> set[str]:
    """The templates that are never trained: a share of those with two conditions.

    They can be answered by who learned the others: the same conditions, joined alike, are trained with another thing
    asked of their rows, and the same is asked where two other conditions are joined.
    """
    joined = {
        wording.template: (wording.template.rpartition(" ")[0], wording.asked[0][0])
        for wording in wordings
        if wording.joint
    }
    trained = Counter(part for parts in joined.values() for part in parts)
    held = set[str]()
    for template in sorted(joined, key=hash_text):
        if len(held) < round(share * len(joined)) and all(trained[part] > 1 for part in joined[template]):
            held.add(template)
            trained.subtract(joined[template])
    return held


class Tables(Generated):
    """Questions about tables of numbers and texts, and their answers."""

    gives: ClassVar[tuple[Form, ...]] = ("questions",)
    kind: Literal["tables"] = "tables"
    train: Size = 50_000
    columns: Size = 1
    """A table has this many columns of numbers."""
    texts: Count = 0
    """A table has this many columns of texts beside."""
    words: Size = 10
    """The columns of texts hold this many different words."""
    rows: tuple[Size, Size] = (30, 100)
    """Tables of training and validation have from the first number of rows to the second."""
    test_rows: tuple[Size, Size] = (120, 120)
    """Tables of the test have this many rows."""
    largest: Size = 100
    """Numbers of training and validation are whole ones, at most this far from 0."""
    test_largest: Size = 200
    """Numbers of the test are at most this far from 0."""
    held_out: Rate = 0.2
    """This share of the wordings that a template has with different columns is never trained."""
    held_templates: Rate = 0.2
    """This share of the templates with two conditions is never trained, and only the test has them."""

    @model_validator(mode="after")
    def check(self) -> Self:
        for name, bounds in (("rows", self.rows), ("test_rows", self.test_rows)):
            if bounds[0] > bounds[1]:
                raise ValueError(f"{name}: the first, {bounds[0]}, is more than the second, {bounds[1]}")
        if self.columns + self.texts > len(ascii_uppercase):
            raise ValueError(f"{self.columns + self.texts} columns: there are names for {len(ascii_uppercase)}")
        if self.words > len(WORDS):
            raise ValueError(f"words: {self.words}, and there are {len(WORDS)}")
        return self

    def stream(self, form: Form, split: CorpusSplit) -> Iterator[Sample]:
        if split == "combinations":
            raise SpecError("tables: there is no split of combinations", "split=test, which has wordings held out")
        chance = Random(f"tables {split} {self.seed}")
        names = list(ascii_uppercase[: self.columns + self.texts])
        wordings = list_wordings(names[: self.columns], names[self.columns :])
        trained, held = divide_wordings(wordings, self.held_out)
        new = choose_templates(wordings, self.held_templates)
        unseen = {str(wording) for wording in held} | {str(each) for each in wordings if each.template in new}
        # validation chooses among checkpoints, so it has no template that is to be new in the test
        asked = [wording for wording in [*trained, *held] if split == "test" or wording.template not in new]
        pool: dict[str, list[Wording]] = {}
        for wording in asked:
            if split == "train" and str(wording) in unseen:
                continue
            pool.setdefault(wording.template, []).append(wording)
        while True:
            # templates are drawn evenly, so that those with few wordings are learned too
            wording = chance.choice(pool[chance.choice(list(pool))])
            yield {**self.ask(wording, names, split, chance), "unseen": str(wording) in unseen}

    def ask(self, wording: Wording, names: list[str], split: CorpusSplit, chance: Random) -> Sample:
        """A question of some wording about a new table."""
        tested = split == "test"
        largest, count = self.test_largest if tested else self.largest, chance.randint(*self._bounds(tested))
        whole, words = range(-largest, largest + 1), WORDS[: self.words]
        columns = [chance.choices(whole, k=count) for _ in range(self.columns)]
        texts = [chance.choices(words, k=count) for _ in range(self.texts)]
        rows = list(zip(*(map(str, column) for column in columns), *texts, strict=True))
        for _ in range(TRIES):
            values = [
                chance.choice(words) if condition.kind == "match" else str(chance.choice(whole))
                for condition in wording.conditions
            ]
            if 0 < len(wording.select(names, rows, values)) < count or not values:
                break
        fitting = iter(values)
        question = " ".join(next(fitting) if word in (NUMBER, TEXT) else word for word in str(wording).split())
        return {
            "question": question,
            "names": names,
            "cells": [cell for row in rows for cell in row],
            **wording.answer(names, rows, values),
            "template": wording.template,
            "size": count,
        }

    def _bounds(self, tested: bool) -> tuple[int, int]:
        return self.test_rows if tested else self.rows
