"""Programmers: models that learned to answer questions about tables, and the programs by which they answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from regard.core.model import Model
from regard.core.probe import Record
from regard.core.program import COMPARING, NUMERIC, OPERATIONS
from regard.data.given import check_text
from regard.data.lexicon import Lexicon
from regard.data.log import Log
from regard.data.readers.csv import CSV
from regard.data.sample import Sample
from regard.data.tokenizer import Tokenizer
from regard.decode.pipeline import Pipeline
from regard.decode.reading import Reading, Strip
from regard.errors import DataError, InputError, warn
from regard.tasks.measures import ratio
from regard.tasks.tabular import NUMBER, collect, encode_sample, hide_numbers, make_cutter, read_number
from regard.tasks.task import Pulse

ROWS = 64  # questions that are answered together
CLOSE = 1e-9  # sums are in double precision: a number this near, in proportion, is right
WHOLE = 2.0**53  # up to here, whole numbers are exact in it
WITH_COLUMN = ("sum", "greater", "lesser", "match", "assign")
SEEN = ("operation_weights", "column_weights", "pivot_weights", "selected", "found")

GivenTable = str | Path | Mapping[str, Sequence[Any]]  # a CSV file, or the cells of each column by its name


@dataclass(frozen=True)
class ProgramStep:
    """One call: what was done, with which column, compared with which number, and what came of it."""

    operation: str
    column: str | None
    pivot: float | None
    rows: int | None  # that it selected
    number: float | None  # that it found

    def __str__(self) -> str:
        called = [self.operation, *([self.column] if self.column else [])]
        if self.pivot is not None:
            called.append(write_number(self.pivot))
        return " ".join(called)


@dataclass(frozen=True)
class TableAnswer:
    """An answer: a number, or cells; and the program that it came from. Neither, where the program gives none."""

    question: str
    number: float | None
    cells: list[str] | None
    places: list[int] | None  # of the cells, counted along the rows
    program: list[ProgramStep]
    weights: Mapping[str, list[list[float]]]  # how much each step favoured each operation and each column

    @property
    def text(self) -> str:
        """The answer as people read it."""
        if self.number is not None:
            return write_number(self.number)
        return "no answer" if self.cells is None else ", ".join(self.cells) or "no cell"

    def is_right(self, sample: Sample) -> bool:
        """Whether it is the answer of a sample."""
        if "number" in sample:
            wanted = float(sample["number"])
            return self.number is not None and abs(self.number - wanted) <= CLOSE * max(1.0, abs(wanted))
        return self.places == sorted(sample["chosen"])

    def as_json(self) -> dict[str, Any]:
        told = {name: value for name, value in vars(self).items() if name not in ("program", "places", "weights")}
        return told | {"program": [vars(step) for step in self.program]}


def write_number(number: float) -> str:
    """A number as people read it: whole ones with all digits, others without the noise of their last ones."""
    number += 0.0  # no -0
    return f"{number:.0f}" if number.is_integer() and abs(number) <= WHOLE else f"{number:.12g}"


def read_table(table: GivenTable) -> tuple[list[str], list[str]]:
    """The names of a table's columns, and its cells row by row."""
    if isinstance(table, Mapping):
        names, columns = [str(name) for name in table], list(table.values())
        if len({len(column) for column in columns}) > 1:
            raise InputError(
                f"the columns have {', '.join(str(len(column)) for column in columns)} cells", "as many each"
            )
        rows = [[str(cell) for cell in row] for row in zip(*columns, strict=True)]
    else:
        found = list(CSV(path=str(table)).cut(str(table), Log(policy="stop")))
        lines = [[str(cell).strip() for cell in row.cells] for row in found if row.cells]
        names, rows = (lines[0], lines[1:]) if lines else ([], [])
    where = "the table" if isinstance(table, Mapping) else str(table)
    if not names or not rows:
        raise DataError(f"{where}: there is no row below the names of the columns", "a first line with names")
    strange = [name for name, count in Counter(names).items() if count > 1 or not name or read_number(name) is not None]
    if strange:
        raise DataError(f"{where}: {strange[0]!r} can't be the name of a column, or is that of two", "A,B,C")
    return names, [cell for row in rows for cell in row]


@dataclass(repr=False)
class Programmer(Pipeline):
    """A model that learned to answer questions about tables.

    >>> import regard
    >>> programmer = regard.load("runs/tables", kind=regard.Programmer)  # doctest: +SKIP
    >>> programmer.ask("greater 50 A sum B", {"A": [60, 40, 70], "B": [1, 2, 3]}).text  # doctest: +SKIP
    '4'
    """

    usage: ClassVar[str] = 'ask {} TABLE.csv "…"'
    verbs: ClassVar[tuple[str, ...]] = ("ask",)
    model: Model
    lexicon: Lexicon

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        return self.lexicon.tokenizers

    def ask(self, question: str, table: GivenTable) -> TableAnswer:
        """The answer to a question about a table: a CSV file, or columns by their names."""
        return self.answer_all([self.make_sample(question, table)])[0]

    def make_sample(self, question: str, table: GivenTable) -> Sample:
        """A question and a table, once it is sure that the model knows the question's words."""
        check_text(question, "one question at a time")
        names, cells = read_table(table)
        if not question.split():
            raise InputError("there is nothing to answer: the question is empty", "a question with words")
        if strange := self._list_unknown(hide_numbers(question).split()):
            raise InputError(f"the model has never read {', '.join(strange)}", f"its words: {self._show_words()}")
        if strange := self._list_unknown(names):
            warn(f"the model has never read the names {', '.join(strange)}, and can't tell such columns apart")
        return {"question": question, "names": names, "cells": cells}

    def _list_unknown(self, words: Sequence[str]) -> list[str]:
        tokenizer = self.lexicon.tokenizer
        cut = zip(words, tokenizer.encode(list(words)), strict=True)
        return list(dict.fromkeys(word for word, tokens in cut if tokenizer.unknown in tokens))

    def _show_words(self, most: int = 24) -> str:
        tokenizer = self.lexicon.tokenizer
        known = [number for number in range(len(tokenizer)) if number not in {*tokenizer.controls, tokenizer.unknown}]
        words = [word for word in tokenizer.pieces(known) if word != NUMBER]
        return f"{', '.join(words[:most])}{', …' if len(words) > most else ''}"

    @torch.no_grad()
    def answer_all(self, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> list[TableAnswer]:
        """The answers to questions, each about its own table, in their order."""
        cut = make_cutter(self.lexicon.tokenizer)
        found: dict[int, TableAnswer] = {}
        order = sorted(range(len(samples)), key=lambda n: len(samples[n]["cells"]))
        training = self.model.training
        self.model.eval()  # programs are hard
        for first in range(0, len(order), ROWS):
            pulse()
            group = order[first : first + ROWS]
            # sums that people are shown have all of their digits, and comparisons too
            rows = [encode_sample(samples[n], cut, "float64") for n in group]
            batch = collect(rows, self.lexicon.tokenizer.pad)
            record = Record(*(f"head.{name}" for name in SEEN))
            answers = self.model(replace(batch.inputs.to(self.model.device), probe=record))
            cells = answers[:, 1:].view(batch.chosen.shape).cpu()
            seen = {name: record[f"head.{name}"][:, 0].double().cpu() for name in SEEN}
            for place, n in enumerate(group):
                mine = {name: value[place] for name, value in seen.items()}
                pivots = batch.inputs.extras["pivots"][place]
                found[n] = read_solution(samples[n], cells[place], mine, pivots)
        self.model.train(training)
        return [found[n] for n in range(len(samples))]

    def measure(self, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> dict[str, Any]:
        """The share of questions that are answered right: of all, of those unlike any of training, and by template."""
        answers = self.answer_all(samples, pulse)
        right = [float(answer.is_right(sample)) for answer, sample in zip(answers, samples, strict=True)]
        told: dict[str, Any] = {**ratio(right, [1] * len(samples)).named("exact"), "questions": len(samples)}
        new = [one for one, sample in zip(right, samples, strict=True) if sample.get("unseen")]
        if new:
            told |= {"unseen_exact": sum(new) / len(new), "unseen_questions": len(new)}
        groups: dict[str, list[float]] = {}
        for one, sample in zip(right, samples, strict=True):
            groups.setdefault(sample.get("template", "questions"), []).append(one)
        return told | {"by_template": {name: sum(group) / len(group) for name, group in sorted(groups.items())}}

    def lay_out(self, text: Any, target: str | None = None) -> Reading:
        """A question and its table, `(question, table)`: operations and columns by step."""
        if target is not None or not isinstance(text, tuple) or len(text) != 2:
            raise InputError("a programmer is asked about a table", "regard inspect RUN QUESTION --table TABLE.csv")
        sample = self.make_sample(*text)
        tokenizer = self.lexicon.tokenizer
        row = encode_sample(sample, make_cutter(tokenizer), "float64")
        numbers = [write_number(number) for number in row["pivots"].tolist()] or ["none"]
        steps = self.answer_all([sample])[0].program
        axes = {
            "steps": label_axis(["·".join((str(n), *str(step).split())) for n, step in enumerate(steps, 1)]),
            "operations": label_axis(OPERATIONS),
            "columns": label_axis(sample["names"]),
            "comparisons": label_axis(COMPARING),
            "numbers": label_axis(numbers),
        }
        return Reading(
            collect([row], tokenizer.pad).inputs,
            Strip.of(tokenizer, row["question"].tolist()),
            text=sample["question"],
            axes=axes,
            maps={
                "head.operation_weights": ("steps", "operations"),
                "head.column_weights": ("steps", "columns"),
                "head.pivot_weights": ("comparisons", "numbers"),
            },
        )


def label_axis(labels: Sequence[str]) -> Strip:
    """Names along an axis of a map."""
    return Strip(tuple(labels), (False,) * len(labels))


def read_solution(sample: Sample, cells: Tensor, seen: Mapping[str, Tensor], pivots: Tensor) -> TableAnswer:
    """What a model made of one question; `seen`: what its head reported, by step."""
    names, height = sample["names"], len(sample["cells"]) // len(sample["names"])
    chosen = seen["operation_weights"].argmax(-1).tolist(), seen["column_weights"].argmax(-1).tolist()
    compared = dict(zip(COMPARING, seen["pivot_weights"].argmax(-1).tolist(), strict=True))
    asked = any(read_number(word) is not None for word in sample["question"].split())
    program = []
    for step, (operation, column) in enumerate(zip(*chosen, strict=True)):
        name = OPERATIONS[operation]
        counted = name in NUMERIC
        program.append(
            ProgramStep(
                name,
                names[column] if name in WITH_COLUMN else None,
                float(pivots[compared[name]]) if name in COMPARING and asked else None,
                None if counted or name == "assign" else int(seen["selected"][step].sum()),
                float(seen["found"][step, 0]) if counted else None,
            )
        )
    places = (cells[:height, : len(names)] > 0.5).flatten().nonzero().flatten().tolist()
    looked = program[-1].operation == "assign"
    return TableAnswer(
        sample["question"],
        program[-1].number,
        [sample["cells"][n] for n in places] if looked else None,
        places if looked else None,
        program,
        {
            "operations": seen["operation_weights"].tolist(),
            "columns": seen["column_weights"][:, : len(names)].tolist(),
        },
    )
