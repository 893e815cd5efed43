"""Text that a policy goes on learning beside its rewards, so that it doesn't unlearn what no reward asks for (PPO-ptx:
Ouyang et al. 2022, equation 2).

It is the text of another run, whose tokens must be the policy's. For each answer a stretch of it is drawn by chance,
so that how answers are put into batches changes no gradient.
"""

from __future__ import annotations

from random import Random
from typing import ClassVar, Literal

import numpy as np
from torch import Tensor

from regard.core.model import Model
from regard.core.registry import Kinds
from regard.core.spec import FileName, Positive, Size, Spec
from regard.data.batches import BatchSpec
from regard.data.prepared import Prepared
from regard.data.tokenizer import Tokenizer
from regard.errors import SpecError
from regard.tasks.documents import Span
from regard.tasks.language import LanguageTask, LanguageTaskSpec


class Mixture(Spec):
    """Which text is learned beside, and how much it counts."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds()
    home: ClassVar[str | None] = "task.mixture"
    kind: Literal["mixture"] = "mixture"
    run: FileName
    """The run whose text it is: a language model with the same tokens. What training read is copied."""
    weight: Positive = 0.1
    """A nat of a token of text counts this much."""
    context: Size = 64
    """A stretch of text has at most this many tokens."""

    def insist_on_text(self, text: Prepared, tokenizer: Tokenizer) -> None:
        """Refuse a run that has no text, or text in other tokens."""
        if "text" not in text.columns:
            raise SpecError(f"task.mixture.run: {self.run} has no running text", "a run of the task language")
        known = tokenizer.engine.get_vocab()
        theirs = text.lexicon.tokenizer.engine.get_vocab()
        strange = sorted(piece for piece, number in theirs.items() if known.get(piece) != number)
        if strange:
            raise SpecError(
                f"task.mixture.run: {self.run} has other tokens than the policy: {strange[0]!r} and "
                f"{len(strange) - 1} more differ",
                "the run that the policy's start began from, or one with tokenizer.like",
            )

    def build(self, text: Prepared, seed: int) -> MixedText:
        return MixedText(self, text, seed)


class MixedText:
    """The text, of which any stretch may come."""

    def __init__(self, spec: Mixture, text: Prepared, seed: int) -> None:
        self.spec, self.column = spec, text.columns["text"]
        self.task = LanguageTask(LanguageTaskSpec(context=spec.context), text, BatchSpec(rows=1), seed)
        # each document has one prediction more than tokens, that of its end
        sizes = np.diff(np.asarray(self.column.bounds(0, len(self.column)))) + 1
        self.ends = np.cumsum(sizes)

    def draw(self, luck: str) -> Span:
        """A stretch of a document, all places being equally likely to begin one."""
        place = Random(luck).randrange(int(self.ends[-1]))
        document = int(np.searchsorted(self.ends, place, "right"))
        before = int(self.ends[document - 1]) if document else 0
        first, size = place - before, int(self.ends[document]) - before
        return Span(document, first, min(first + self.spec.context, size))

    def lose(self, model: Model, luck: list[str]) -> Tensor:
        """The weighed loss of a stretch for each of these; a full one counts as many nats as a token of it has."""
        batch = self.task.make_batch([[self.draw(word)] for word in luck], Random())
        return self.spec.weight * self.task.loss(model, batch) / self.spec.context
