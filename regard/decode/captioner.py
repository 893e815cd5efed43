"""Pictures in, sentences out: pictures are read in batches, searched as translations are, and come back in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, overload

import numpy as np
import torch
from torch import Tensor

from regard.core.grid import Grid
from regard.core.inputs import Inputs
from regard.core.model import Model
from regard.data.canvas import Canvas, Picture
from regard.data.given import GivenPicture, list_pictures
from regard.data.picture import Fit
from regard.data.spelling import spell_tokens
from regard.data.tokenizer import Tokenizer
from regard.decode.filters import special_tokens
from regard.decode.pipeline import PicturePipeline
from regard.decode.reading import Pictured, Reading, Strip
from regard.decode.search import Hypothesis, Search, beam_search
from regard.decode.translator import Wishes

ROWS = 64  # pictures that are captioned together
LONGEST = 60  # tokens of a caption, unless more are asked for: a model that doesn't end must be stopped

Take = Callable[[GivenPicture, Fit | None], Picture]


@dataclass
class Caption:
    """One caption of a picture, and how it came about."""

    text: str
    tokens: list[str]  # its pieces; the end is the last of them
    log_probabilities: list[float]  # the model's own, token by token
    score: float
    attention: list[list[float]] | None = None  # (tokens, places), the mean of all heads; each row sums to 1
    cut: Literal["maximum", "context"] | None = None  # what ended it where the model would have gone on
    alternatives: list[Caption] = field(default_factory=list)  # the next best ones, where they were asked for

    def as_json(self) -> dict[str, Any]:
        """What is there, and nothing that isn't."""
        found = {name: value for name, value in vars(self).items() if value is not None}
        del found["alternatives"]
        more = [other.as_json() for other in self.alternatives]
        return {**found, "alternatives": more} if more else found


@dataclass(repr=False)
class Captioner(PicturePipeline):
    """A network that says what it sees, with the tokenizer that it writes with.

    A picture is the path of a file, its bytes, or an array (height, width, channels); so is a map of features.

    >>> import numpy, regard
    >>> captioner = regard.load("runs/scenes", kind=regard.Captioner)
    >>> caption = captioner.caption(numpy.zeros((48, 48, 3), "uint8"), beam=3)  # or a path, such as "dog.jpg"
    >>> isinstance(caption.text, str), caption.score < 0
    (True, True)
    """

    usage: ClassVar[str] = "caption {} PICTURE"
    verbs: ClassVar[tuple[str, ...]] = ("caption", "caption_all")
    model: Model
    tokenizer: Tokenizer
    canvas: Canvas  # what the pictures that it reads look like
    take: Take  # what makes such a picture of what a user hands in
    show: Callable[[GivenPicture], Picture | None] = lambda _: None  # what a person sees of what became a map
    search: Search = field(default_factory=Search)  # as it is validated while it learns
    blind: bool = False  # it is shown nothing: every picture is the mean one

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        return self.tokenizer, self.tokenizer

    @overload
    def caption(
        self, picture: GivenPicture, *, attention: bool = False, fit: Fit | None = None, **settings: Any
    ) -> Caption: ...

    @overload
    def caption(
        self, picture: Sequence[GivenPicture], *, attention: bool = False, fit: Fit | None = None, **settings: Any
    ) -> list[Caption]: ...

    def caption(
        self,
        picture: GivenPicture | Sequence[GivenPicture],
        *,
        attention: bool = False,
        fit: Fit | None = None,
        **settings: Any,
    ) -> Caption | list[Caption]:
        """The best caption of a picture, or of each of a list: `caption("dog.jpg", beam=5, max_tokens=20)`.

        `attention`: with the places that each token looked at; `fit`: how a picture of another size comes to the
        model's: resize, crop or pad; `best=3`: with the next best ones as `alternatives`.
        """
        given, one = list_pictures(picture)
        taken = [self.take(each, fit or self.fit) for each in given]
        found = []
        for best, *others in self.caption_all(taken, self.settings(settings), attention=attention):
            best.alternatives = others
            found.append(best)
        return found[0] if one else found

    def caption_all(
        self, pictures: Sequence[Picture], settings: Search | None = None, *, attention: bool = False, rows: int = ROWS
    ) -> Iterator[list[Caption]]:
        """The best captions of each picture, in order; pictures are as the model reads them (`take`)."""
        chosen = self.settings({}) if settings is None else settings
        for first in range(0, len(pictures), rows):
            group = pictures[first : first + rows]
            for hypotheses in self._find(group, chosen, attention):
                yield self._tell(hypotheses)

    def settings(self, given: Mapping[str, Any]) -> Search:
        """A search with what is given; where nothing is, a beam of five."""
        usual = {"beam": max(5, int(given.get("best", 1)))}
        return Search.parse(usual).heed(given)

    def look_at(self, pictures: Sequence[Picture]) -> Inputs:
        """What the encoder is given of pictures."""
        pixels = self.canvas.normalise(np.stack(pictures))
        # what is subtracted from every picture is the mean of all: zeros are the picture that says nothing
        return Inputs(torch.zeros_like(pixels) if self.blind else pixels).to(self.model.device)

    @torch.no_grad()
    def _find(self, pictures: Sequence[Picture], settings: Search, attention: bool = False) -> list[list[Hypothesis]]:
        """The best hypotheses of each picture."""
        memory = self.model.encode(self.look_at(pictures))
        demands = Wishes().demands(len(pictures), self.tokenizer, special_tokens(self.tokenizer))
        demands.filters = [chosen.build(self.tokenizer) for chosen in settings.filters]
        demands.most = [self._limit(settings)] * len(pictures)
        ends, begin = self.tokenizer.ends, self.tokenizer.begin
        return beam_search(self.model, memory, len(pictures), begin, ends, settings, demands, attention=attention)

    def _limit(self, settings: Search) -> int:
        most = settings.max_tokens or self.search.max_tokens or LONGEST
        # the token that it begins with takes a place too
        return most if self.model.limit is None else min(most, self.model.limit - 1)

    def _tell(self, found: Sequence[Hypothesis]) -> list[Caption]:
        texts = self.tokenizer.decode([item.tokens for item in found])
        return [
            Caption(
                text,
                self.tokenizer.pieces(item.tokens),
                item.log_probabilities,
                item.score,
                None if item.attention is None else item.attention.tolist(),
                None if not item.cut else "context" if len(item.tokens) + 1 == self.model.limit else "maximum",
            )
            for text, item in zip(texts, found, strict=True)
        ]

    def lay_out(self, text: GivenPicture, target: str | None = None) -> Reading:
        """A picture, and a caption that is given or that the model writes now; each position writes the next token."""
        picture = self.take(text, self.fit)
        seen = picture if picture.dtype == np.uint8 else self.show(text)
        if target is None:
            [[best]] = self._find([picture], self.settings({}))
            wanted = best.tokens
        else:
            [row] = self.tokenizer.encode([target.strip()])
            wanted = [*row, self.tokenizer.end]
        given = [self.tokenizer.begin, *wanted[:-1]]
        inputs = replace(Inputs.pad([given], self.tokenizer.pad), memory=self.look_at([picture]))
        return Reading(
            inputs,
            Strip.of(self.tokenizer, given),
            Strip.of_grid(self.grid),
            Strip.of(self.tokenizer, wanted),
            dict(enumerate(wanted)),
            partial(spell_tokens, self.tokenizer),
            text=str(text) if isinstance(text, str | Path) else "a picture",
            pictured=None if seen is None else Pictured(seen, self.grid, "source"),
        )

    @property
    def grid(self) -> Grid:
        """The places of the picture that words look at."""
        assert self.model.spec.encoder is not None
        grid = self.model.spec.encoder.embedding.grid
        assert grid is not None
        return grid


def repeat_memory(model: Model, pictures: Inputs, counts: Sequence[int]) -> Any:
    """What an encoder leaves of each picture, for as many texts as each has: a picture is read once."""
    memory = model.encode(pictures)
    assert memory is not None
    rows: Tensor = torch.repeat_interleave(torch.tensor(counts, device=model.device))
    return memory.select(rows)
