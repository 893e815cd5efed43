"""The head of a neural programmer: a few steps, each of which calls one operation on one column of a table
(Neelakantan et al. 2015).

It reads a question, as the stack before it understood that, and a table beside it. At each step it chooses an operation
and a column, by what the question asks and by what was chosen before. While it learns, it takes a little of every
operation and of every column, as much as it favours each, so that all of it has a gradient: nobody tells it a program,
only the answer. When it is used, it takes the favourites alone, and that is a program.

Cost: time O(steps · rows · columns).
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.dense import Dense, Lookup
from regard.core.mixer import Part
from regard.core.program import COMPARING, NOTHING, OPERATIONS, Call, TableQuestion, compare_cells, harden, run_program
from regard.core.role import HeadSpec
from regard.core.spec import Size
from regard.core.view import View
from regard.errors import SpecError
from regard.parts.head import Pool, Pooler, PoolerHead

SHARP, ALIKE, HINT = 10.0, 0.5, 5.0  # of cosines, at first: texts are told apart around ALIKE


class Program(HeadSpec):
    """How many steps a program has."""

    kind: Literal["program"] = "program"
    steps: Size = 4
    """A program calls this many operations, one after the other."""
    pool: Pool = "last"
    """The question's vector is that of its first or last token, the mean of all, or a learned mean (sequence)."""

    def build(self, width: int, table: Lookup | None = None) -> Part:
        if table is None or table.embedding_dim != width:
            raise SpecError("head: a program's columns are known by the vectors of words, and there are none", "tokens")
        return ProgramHead(self, width, table)


class ProgramHead(Part):
    """(batch, 1 + rows · columns): a number, and then how much each cell is part of what was looked up.

    What it reports is (batch, 1, steps, …): how much each step favours each operation and each column, how much it
    selects each row, and the number that it finds. `pivot_weights`, (batch, 1, 2, numbers), are which number of the
    question `greater` and `lesser` compare with; `matched`, (batch, rows, columns), which cells hold a text of it.
    """

    names = ("operation_weights", "column_weights", "pivot_weights", "matched", "selected", "found")

    def __init__(self, spec: Program, width: int, table: Lookup) -> None:
        super().__init__()
        self.spec = spec
        self.words: Lookup
        self.__dict__["words"] = table  # looked up, not owned
        self.pooler = PoolerHead(Pooler(pool=spec.pool, dense=False), width)
        self.operations = Lookup(len(OPERATIONS), width)  # U of the paper
        self.operation = Dense(2 * width, width)
        self.column = Dense(2 * width, width)
        self.history = Dense(3 * width, width)
        self.matching = nn.Parameter(torch.empty(3))  # how sharply texts are told apart, from where on, and how found

    def reset(self) -> None:
        nn.init.normal_(self.operations.weight, std=self.operations.embedding_dim**-0.5)
        with torch.no_grad():
            self.matching.copy_(torch.tensor((SHARP, ALIKE, HINT)))

    def forward(self, x: Tensor, view: View) -> Tensor:
        given = TableQuestion.read(view.extras, self.path)
        calls = self.plan(self.pooler(x, view), given, view)
        tests = compare_cells(given, self.choose_pivots(x, given, view))
        matched = view.see(self.path, "matched", self.find_texts(given))
        tests["match"] = matched if self.training else (matched > 0.5).to(matched.dtype)
        return run_program(calls, tests, given, lambda name, value: self.report(view, name, value))

    def plan(self, question: Tensor, given: TableQuestion, view: View) -> list[Call]:
        """What each step is to do (equations 3 to 7). That depends on the question and the columns, not on results."""
        names = embed_texts(self.words, given.names)  # (batch, columns, width)
        absent = (given.names == NOTHING).all(-1)
        history, calls = torch.zeros_like(question), list[Call]()
        for _ in range(self.spec.steps):
            state = torch.cat((question, history), -1)
            operations = self.operations.score(torch.tanh(self.operation(state))).softmax(-1)
            scores = (names @ torch.tanh(self.column(state))[..., None]).squeeze(-1)
            columns = scores.masked_fill(absent, -torch.inf).softmax(-1)
            operations = self.report(view, "operation_weights", operations)
            columns = self.report(view, "column_weights", columns)
            # what was favoured, not what is called, is remembered: so a model plans as it learned to
            sure = not self.training
            calls.append(Call(harden(operations), harden(columns)) if sure else Call(operations, columns))
            chosen = (operations @ self.operations.matrix(), (columns[:, None] @ names).squeeze(1))
            history = torch.tanh(self.history(torch.cat((*chosen, history), -1)))
        return calls

    def choose_pivots(self, x: Tensor, given: TableQuestion, view: View) -> Tensor:
        """Which number of the question `greater` and `lesser` compare with: (batch, 2, numbers)."""
        rows = torch.arange(len(x), device=x.device)[:, None]
        spoken = x[rows, given.places.clamp(min=0)]  # (batch, numbers, width): what was read up to each number
        scores = spoken @ self.operations.matrix()[[OPERATIONS.index(name) for name in COMPARING]].mT
        absent = (given.places == NOTHING)[:, None]
        # a question without numbers compares with nothing: all of its weights are 0, and their gradients too
        weights = scores.mT.masked_fill(absent, -1e4).softmax(-1) * ~absent
        weights = view.see(self.path, "pivot_weights", weights[:, None]).squeeze(1)
        return weights if self.training else harden(weights) * ~absent

    def find_texts(self, given: TableQuestion) -> Tensor:
        """Which cells hold a text that the question names, from 0 to 1: (batch, rows, columns).

        From the columns to the question and back: the texts of each column say which words of the question may name
        one of them, and what these words are says which of the texts are meant.
        """
        count, columns = given.texts.shape[1], given.cells.shape[2]
        if not count:
            return torch.zeros_like(given.numbers)
        sharp, alike, hint = self.matching
        texts = F.normalize(embed_texts(self.words, given.texts), dim=-1, eps=1e-6)
        words = embed_texts(self.words, given.question[..., None])
        near = texts @ F.normalize(words, dim=-1, eps=1e-6).mT  # (batch, texts, time)
        spare = given.cells.where(given.cells != NOTHING, count)  # one place more, for cells without a text
        there = near.new_zeros(len(near), count + 1, columns).scatter(1, spare, 1.0)[:, :count].bool()
        best = near[:, :, None].masked_fill(~there[..., None], -1.0).amax(1)  # (batch, columns, time)
        asked = (hint * best).masked_fill((given.question == NOTHING)[:, None], -torch.inf).softmax(-1) @ words
        likeness = texts @ F.normalize(asked, dim=-1, eps=1e-6).mT  # (batch, texts, columns)
        found = torch.sigmoid(sharp * (likeness - alike))
        return found.gather(1, given.cells.clamp(min=0)) * (given.cells != NOTHING)

    def report(self, view: View, name: str, value: Tensor) -> Tensor:
        """Show what belongs to one step, (batch, size), as probes take it: (batch, 1, 1, size)."""
        return view.see(self.path, name, value[:, None, None]).squeeze(2).squeeze(1)


def embed_texts(words: Lookup, tokens: Tensor) -> Tensor:
    """The mean of each text's word vectors: (…, words) to (…, width); zeros where there is no text."""
    there = (tokens != NOTHING).to(words.weight.dtype)[..., None]
    return (words(tokens.clamp(min=0)) * there).sum(-2) / there.sum(-2).clamp(min=1.0)
