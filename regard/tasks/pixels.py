"""Pixels: pictures as sequences, each value predicted from those before it (van den Oord et al. 2016).

A model is measured by how unlikely pictures are to it that it hasn't seen: in nats a picture, and in bits a dimension,
which is a value of a pixel's channel. That holds for one way of making pictures black and white and no other, so every
result names it, and the order too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor

from regard.core.model import Model, ModelSpec
from regard.core.order import Order
from regard.core.spec import Count, Size
from regard.data.batches import BatchSpec
from regard.data.canvas import Canvas
from regard.data.lexicon import Lexicon
from regard.data.log import Unusable
from regard.data.origin import Origin
from regard.data.pixel import Binarisation, PixelCoder, find_grey
from regard.data.prepared import Prepared
from regard.data.sample import Form, Sample
from regard.data.sieve import Row
from regard.decode.painter import Painter, shift
from regard.decode.pipeline import Pipeline
from regard.errors import CheckpointError, SpecError
from regard.tasks.entropy import cross_entropy
from regard.tasks.example import Example
from regard.tasks.measures import Measure, ratio
from regard.tasks.picture import PictureTask, PictureTaskSpec, insist_on_canvas
from regard.tasks.scores import SampleScores, take_time
from regard.tasks.significance import Statistic
from regard.tasks.task import Pulse, one_stack

Levels = Annotated[int, Field(strict=True, ge=2, le=256)]


class PixelTaskSpec(PictureTaskSpec):
    """Learn to draw pictures, pixel by pixel."""

    form: ClassVar[Form] = "pictures"
    words: ClassVar[bool] = False
    measures: ClassVar[Mapping[str, bool]] = {"nats": False, "bits": False}
    kind: Literal["pixels"] = "pixels"
    levels: Levels | None = None
    """A value is one of this many, equal parts of 256; unless given, 256, or 2 where pictures are binarised."""
    binarise: Binarisation = "none"
    """Grey becomes black or white by a threshold (from 128 on), by chance once for each picture (static), or by chance
    anew in each epoch (dynamic); pictures with two values stay as they are."""
    order: Order = "raster"
    """Pixels are read and drawn row by row, in rows that turn at the ends, along Hilbert's curve, or in a random order
    that is the same for all pictures."""
    seed: Count = 0
    """A random order, and the chance of a static binarisation, follow from this number."""

    validate_on: Size | None = None
    """While training, this many pictures are measured, from all over the validation part; unless given, all of it."""

    @model_validator(mode="after")
    def check_levels(self) -> Self:
        if self.binarise != "none" and self.levels not in (None, 2):
            raise ValueError(f"levels: {self.levels}, and binarise={self.binarise} leaves 2; leave levels out")
        return self

    @property
    def level_count(self) -> int:
        """How many values there are."""
        return self.levels or (256 if self.binarise == "none" else 2)

    def make_coder(self, canvas: Canvas) -> PixelCoder:
        """How pictures on such a canvas become tokens."""
        return PixelCoder(*canvas.shape, self.level_count, self.binarise, self.order, self.seed)

    def receive(self, sample: Sample) -> Sample:
        received = super().receive(sample)
        picture = received["picture"]
        if picture.dtype != np.uint8:
            raise Unusable("a map of real numbers, and only bytes are drawn as pixels")
        if self.level_count > 2:
            return received
        if self.binarise != "none" and picture.max() == 1:
            raise Unusable("bits already (task.binarise=none task.levels=2 takes them): its largest value is 1")
        if self.binarise == "none" and (grey := find_grey(picture)) is not None:
            raise Unusable(f"grey (task.binarise makes it black or white): {grey} is among its values")
        return received

    def encode(self, samples: Sequence[Sample], lexicon: Lexicon) -> Sequence[Row]:
        return [{"picture": sample["picture"]} for sample in samples]

    def fit_model(self, model: ModelSpec, lexicon: Lexicon) -> ModelSpec:
        one_stack(model, "pixels")
        stack = model.decoder
        if stack is None or stack.embedding.picture is None or stack.embedding.token_count is None:
            raise SpecError("model: it doesn't read pictures pixel by pixel", "model=pixel-gpt, or pixelcnn")
        planes = [block.mix.kind for block in stack.layout() if block.mix is not None and block.mix.needs_grid]
        if planes and self.order != "raster":
            raise SpecError(
                f"task.order: {self.order}, and {planes[0]} mixes a picture as a plane, row by row",
                "task.order=raster, or model=pixel-gpt",
            )
        before = stack.embedding.token_count - 1
        first = tuple(
            block.replace(mix=block.mix and block.mix.relevel(before, self.level_count, stack.width))
            for block in stack.first
        )
        embedding = stack.embedding.redraw(*insist_on_canvas(lexicon).shape).resize(self.level_count + 1)
        embedding = embedding.reorder(self.order, self.seed if self.order == "random" else 0)
        head = {"kind": "vocabulary", "size": self.level_count, "tied": False, "bias": True}
        return model.replace(
            decoder=stack.replace(embedding=embedding, first=first),
            head=head if model.head is None else model.head.resize(self.level_count),
        )

    def build(self, prepared: Prepared, batches: BatchSpec, seed: int) -> PixelTask:
        return PixelTask(self, prepared, batches, seed)

    def choose_pipeline(self, model: ModelSpec) -> type[Pipeline]:
        return Painter

    def pipeline(self, network: Model, lexicon: Lexicon, origin: Origin | None = None) -> Painter:
        coder, embedding = self.make_coder(insist_on_canvas(lexicon)), network.spec.main.embedding
        if (embedding.picture, embedding.token_count) != (coder.shape, coder.levels + 1):
            raise CheckpointError(
                f"its model reads pictures of {embedding.picture} with {embedding.token_count} tokens, "
                f"and its task draws {coder.shape} with {coder.levels} levels"
            )
        return Painter(network, coder, fit=self.fit)

    def measure(self, pipeline: Painter, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> Mapping[str, Any]:
        return assess(pipeline, samples, pulse)

    def score_samples(self, pipeline: Painter, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> SampleScores:
        pictures = [sample["picture"] for sample in samples]
        nats, seconds = take_time(lambda: pipeline.score_all(pictures, lambda _: pulse()))
        sizes = [pipeline.coder.length] * len(samples)
        examples = [
            Example((str(sample.get("place", f"picture {n + 1}")),), (), (f"{value:.2f} nats",))
            for n, (sample, value) in enumerate(zip(samples, nats.tolist(), strict=True))
        ]
        statistics = {
            "nats": Statistic.mean(nats, rising=False, per_token=True),
            "bits": Statistic.mean(nats / math.log(2), sizes, rising=False, per_token=True),
        }
        tokens = f"{self.level_count} levels, {self.binarise}"  # the same pictures in other levels are other data
        return SampleScores(statistics, examples, telling="nats", seconds=seconds, tokens=tokens)


def assess(painter: Painter, samples: Sequence[Sample], pulse: Pulse) -> dict[str, Any]:
    """How unlikely pictures are: nats a picture and bits a dimension, with intervals, over all of them."""
    coder = painter.coder
    pictures = [sample["picture"] for sample in samples]
    nats = ratio(painter.score_all(pictures, lambda _: pulse()).tolist(), [1] * len(pictures))
    bits = Measure(*(value / math.log(2) / coder.length for value in nats))
    told = {"pictures": len(pictures), "binarisation": coder.describe(pictures), "order": coder.describe_order()}
    return nats.named("nats") | bits.named("bits") | told


class PixelTask(PictureTask[Tensor]):
    """The task on one prepared corpus; a batch is the tokens of its pictures, (rows, length)."""

    goal, rising = "nats", False
    counts = "pixels"
    usual_rows = 16

    def __init__(self, spec: PixelTaskSpec, prepared: Prepared, batches: BatchSpec, seed: int) -> None:
        super().__init__(spec, prepared, batches, seed)
        self.coder = spec.make_coder(self.canvas)

    def make_batch(self, rows: list[int], chance: Random) -> Tensor:
        return torch.from_numpy(self.coder.encode(self.gather(rows), chance.getrandbits(128)))

    def size(self, batch: Tensor) -> int:
        return batch.numel()

    def loss(self, model: Model, batch: Tensor) -> Tensor:
        targets = batch.to(model.device)
        features = model.features(shift(targets, self.coder.begin))
        return cross_entropy(model.scored(features.flatten(0, 1)), targets.flatten())

    def measure(self, model: Model, pulse: Pulse) -> Mapping[str, Any]:
        count = min(self.spec.validate_on or len(self.validation), len(self.validation))
        chosen = [self.validation[n * len(self.validation) // count] for n in range(count)]
        return assess(Painter(model, self.coder), chosen, pulse)
