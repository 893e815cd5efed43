"""What all tasks on pictures share: how pictures come to one size, the column that keeps them, a model that reads
pictures of that size, and what it is given of a batch.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from regard.core.inputs import Inputs
from regard.core.model import ModelSpec
from regard.core.spec import Size
from regard.data.array import describe
from regard.data.batches import BatchSpec
from regard.data.canvas import Canvas, Picture
from regard.data.column import ColumnSpec
from regard.data.given import GivenPicture, name_picture, open_picture
from regard.data.lexicon import Lexicon
from regard.data.log import Unusable
from regard.data.picture import Fit, fit_picture
from regard.data.sample import Sample
from regard.data.sieve import Row
from regard.errors import InputError, SpecError
from regard.tasks.task import Task, TaskSpec

B = TypeVar("B")
FITTED = "--fit resize, crop or pad; from Python, fit="  # how one asks a model that was trained to take another size


class PictureTaskSpec(TaskSpec):
    """Learn from pictures, all of one size."""

    size: Size | tuple[Size, Size] | None = None
    """Pictures have sides of this many pixels, or this height and width; unless given, those of the first picture."""
    fit: Fit | None = None
    """A picture of another size is stretched (resize), or scaled, and then its longer side is cut (crop) or its shorter
    one filled with black (pad); unless given, it is left out."""
    channels: Literal[1, 3] | None = None
    """Pictures become grey (1) or coloured (3); unless given, they are as the first one is."""

    @model_validator(mode="after")
    def check_fit(self) -> Self:
        if self.fit is not None and self.size is None:
            raise ValueError(f"fit: {self.fit} to which size? task.size says it, such as task.size=32")
        return self

    def receive(self, sample: Sample) -> Sample:
        return {**sample, "picture": fit_picture(sample["picture"], self.size, self.fit, self.channels)}

    def take_like(self, canvas: Canvas, fit: Fit | None) -> Self:
        """The same for pictures that come later, which must be like those that were trained on."""
        if canvas.dtype != "uint8":  # maps: an encoder takes pictures of the size that the task names, and others none
            return self if fit is None else self.replace(fit=fit)
        return self.replace(size=(canvas.height, canvas.width), fit=fit or self.fit, channels=canvas.channels)

    def columns(self, lexicon: Lexicon) -> Mapping[str, ColumnSpec]:
        canvas = insist_on_canvas(lexicon)
        return {"picture": ColumnSpec(dtype=canvas.dtype, shape=canvas.shape)}

    def count_tokens(self, row: Row) -> int:
        return 1  # pictures have no tokens, so none is too long

    def places(self, row: Row) -> Mapping[str, int]:
        return {}  # the model is made for as many places as a picture has

    def fit_model(self, model: ModelSpec, lexicon: Lexicon) -> ModelSpec:
        return redraw(model, insist_on_canvas(lexicon))


def insist_on_canvas(lexicon: Lexicon) -> Canvas:
    """What pictures look like; an error where nothing is known of them."""
    if lexicon.canvas is None:
        raise InputError("this model has read no pictures, so it isn't known what they should look like")
    return lexicon.canvas


def read_given(given: GivenPicture, canvas: Canvas, fit: Fit | None) -> Picture:
    """What a user hands in, as a picture on a canvas; an error says what is wrong with it."""
    picture, name = open_picture(given), name_picture(given)
    if picture.dtype != np.dtype(canvas.dtype):
        raise InputError(f"{name}it is {describe(picture)}, and the model reads {canvas.dtype} {canvas.shape}")
    try:
        return fit_picture(picture, (canvas.height, canvas.width), fit, canvas.channels, FITTED)
    except Unusable as error:
        raise InputError(f"{name}{error.message}", error.hint) from None


def redraw(model: ModelSpec, canvas: Canvas) -> ModelSpec:
    """A model that reads pictures as they are on a canvas, by its encoder or its decoder."""
    stacks = {"encoder": model.encoder, "decoder": model.decoder}
    found = {
        side: stack.replace(embedding=stack.embedding.redraw(*canvas.shape))
        for side, stack in stacks.items()
        if stack is not None and stack.embedding.picture is not None
    }
    if not found:
        raise SpecError("model: it reads words, and this task has pictures", "model=cct-2-3x2, or model=vit-tiny")
    return model.replace(**found)


class PictureTask(Task[B], ABC):
    """A task on one prepared corpus of pictures."""

    usual_rows: ClassVar[int | None] = 64
    sorted_by = ("picture",)

    def choose_plan(self, batches: BatchSpec) -> BatchSpec:
        if batches.budgeted:
            told = f"{batches.tokens}, and a batch of pictures is so many pictures, not tokens"
            raise SpecError(f"batches.tokens: {told}", f"batches.rows={self.usual_rows}")
        return super().choose_plan(batches)

    @property
    def canvas(self) -> Canvas:
        return insist_on_canvas(self.lexicon)

    def gather(self, rows: Sequence[int]) -> NDArray[Any]:
        """Pictures as they are kept: (rows, height, width, channels)."""
        return self.columns["picture"].gather(rows)

    def read(self, pictures: NDArray[Any]) -> Inputs:
        """What a model is given of pictures."""
        return Inputs(self.canvas.normalise(pictures))
