"""Two tasks on samples that aren't text, as a user's own file would define them: being imported enters them.

Pictures, arrays of bytes, whose label says which half is bright; and signals, series of two numbers of any length, with
a vector to find: the mean of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.model import Model, ModelSpec
from regard.data.array import Array
from regard.data.batches import BatchSpec
from regard.data.column import ColumnSpec
from regard.data.corpus import Generated, Split
from regard.data.lexicon import Lexicon
from regard.data.origin import Origin
from regard.data.prepared import Prepared
from regard.data.sample import TEXT, Field, Form, FormSpec, Sample
from regard.data.sieve import Row
from regard.decode.pipeline import Pipeline
from regard.tasks.task import Pulse, Task, TaskSpec

HALVES = ("left", "right", "top", "bottom")


class BrightForm(FormSpec):
    kind: Literal["bright"] = "bright"
    holds: ClassVar[Mapping[str, Field]] = {"image": Array("uint8", 3), "label": TEXT}


class SignalForm(FormSpec):
    kind: Literal["signals"] = "signals"
    holds: ClassVar[Mapping[str, Field]] = {"signal": Array("float32", 2), "mean": Array("float32", 1)}


class Halves(Generated):
    """Pictures of noise, one half of each brighter than the other."""

    gives: ClassVar[tuple[Form, ...]] = ("bright",)
    kind: Literal["halves"] = "halves"
    train: int = 200
    validation: int = 20
    test: int = 20

    def stream(self, form: Form, split: Split) -> Iterator[Sample]:
        chance = np.random.default_rng([ord(letter) for letter in split] + [self.seed])
        while True:
            image, half = chance.integers(0, 64, (8, 8, 1), np.uint8), int(chance.integers(len(HALVES)))
            bright = (np.s_[:, :4], np.s_[:, 4:], np.s_[:4], np.s_[4:])[half]
            image[bright] += 160
            yield {"image": image, "label": HALVES[half]}


class Signals(Generated):
    """Series of two numbers, around a mean of their own."""

    gives: ClassVar[tuple[Form, ...]] = ("signals",)
    kind: Literal["signals"] = "signals"
    train: int = 200
    validation: int = 20
    test: int = 20

    def stream(self, form: Form, split: Split) -> Iterator[Sample]:
        chance = np.random.default_rng([ord(letter) for letter in split] + [self.seed])
        while True:
            middle = chance.normal(size=2)
            signal = chance.normal(middle, 0.1, (int(chance.integers(3, 9)), 2)).astype(np.float32)
            yield {"signal": signal, "mean": signal.mean(0)}


class PictureTaskSpec(TaskSpec):
    """Learn which half is bright."""

    form: ClassVar[Form] = "bright"
    words: ClassVar[bool] = False
    head: ClassVar[str | None] = "classes"
    kind: Literal["picture-labels"] = "picture-labels"

    def fit_model(self, model: ModelSpec, lexicon: Lexicon) -> ModelSpec:
        return model.replace(head={"kind": "classes", "classes": len(lexicon.labels)})

    def labels(self, sample: Sample) -> Sequence[str]:
        return (sample["label"],)

    def columns(self, lexicon: Lexicon) -> Mapping[str, ColumnSpec]:
        image = ColumnSpec(dtype="uint8", shape=(8, 8, 1), below=224)
        return {"image": image, "label": ColumnSpec(below=len(lexicon.labels))}

    def encode(self, samples: Sequence[Sample], lexicon: Lexicon) -> Sequence[Row]:
        return [{"image": sample["image"], "label": [lexicon.labels.index(sample["label"])]} for sample in samples]

    def count_tokens(self, row: Row) -> int:
        return 1  # a picture is one, however many patches it has

    def build(self, prepared: Prepared, batches: BatchSpec, seed: int) -> PictureTask:
        return PictureTask(self, prepared, batches, seed)

    def choose_pipeline(self, model: ModelSpec) -> type[Pipeline]:
        return Looker

    def pipeline(self, network: Model, lexicon: Lexicon, origin: Origin | None = None) -> Looker:
        return Looker(network, lexicon.labels)

    def measure(self, pipeline: Looker, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> Mapping[str, Any]:
        return pipeline.measure(samples)


def light(images: Sequence[np.ndarray[Any, Any]]) -> Tensor:
    """Pictures as a model takes them: (rows, channels, height, width), from -1 to 1."""
    return torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).float() / 127.5 - 1


class PictureTask(Task[tuple[Tensor, Tensor]]):
    goal, rising = "accuracy", True
    sorted_by = ("image",)

    def make_batch(self, rows: list[int], chance: Random) -> tuple[Tensor, Tensor]:
        labels = [self.columns["label"][n][0] for n in rows]
        return light([self.columns["image"].read(n) for n in rows]), torch.tensor(labels)

    def size(self, batch: tuple[Tensor, Tensor]) -> int:
        return len(batch[1])

    def loss(self, model: Model, batch: tuple[Tensor, Tensor]) -> Tensor:
        return F.cross_entropy(model(batch[0]), batch[1], reduction="sum")

    def measure(self, model: Model, pulse: Pulse) -> Mapping[str, Any]:
        return Looker(model, self.lexicon.labels).measure(self.validation)


@dataclass
class Looker(Pipeline):
    """A model that learned to label pictures."""

    model: Model
    labels: list[str]

    @torch.no_grad()
    def label_all(self, images: Sequence[np.ndarray[Any, Any]]) -> list[str]:
        return [self.labels[n] for n in self.model(light(images)).argmax(-1).tolist()]

    def measure(self, samples: Sequence[Sample]) -> dict[str, Any]:
        found = self.label_all([sample["image"] for sample in samples])
        right = sum(one == sample["label"] for one, sample in zip(found, samples, strict=True))
        return {"accuracy": right / len(samples)}


class SignalTaskSpec(TaskSpec):
    """Learn the mean of a series."""

    form: ClassVar[Form] = "signals"
    words: ClassVar[bool] = False
    kind: Literal["signal-means"] = "signal-means"

    def fit_model(self, model: ModelSpec, lexicon: Lexicon) -> ModelSpec:
        assert model.decoder is not None
        read = model.decoder.replace(embedding={"kind": "numbers", "channels": 2})
        return model.replace(decoder=read, head={"kind": "classes", "classes": 2, "pool": "last"})

    def columns(self, lexicon: Lexicon) -> Mapping[str, ColumnSpec]:
        signal = ColumnSpec(dtype="float32", shape=(None, 2), least=-9, below=9)
        return {"signal": signal, "mean": ColumnSpec(dtype="float32", shape=(2,))}

    def encode(self, samples: Sequence[Sample], lexicon: Lexicon) -> Sequence[Row]:
        return samples

    def count_tokens(self, row: Row) -> int:
        return len(row["signal"])

    def build(self, prepared: Prepared, batches: BatchSpec, seed: int) -> SignalTask:
        return SignalTask(self, prepared, batches, seed)

    def choose_pipeline(self, model: ModelSpec) -> type[Pipeline]:
        return Averager

    def pipeline(self, network: Model, lexicon: Lexicon, origin: Origin | None = None) -> Averager:
        return Averager(network)

    def measure(self, pipeline: Averager, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> Mapping[str, Any]:
        return pipeline.measure(samples)


@dataclass
class SignalBatch:
    signals: Tensor  # (rows, time, 2)
    valid: Tensor  # (rows, time)
    means: Tensor  # (rows, 2)


def collect(signals: Sequence[np.ndarray[Any, Any]], means: Sequence[np.ndarray[Any, Any]]) -> SignalBatch:
    table = torch.nn.utils.rnn.pad_sequence([torch.from_numpy(signal) for signal in signals], batch_first=True)
    lengths = torch.tensor([len(signal) for signal in signals])
    return SignalBatch(table, torch.arange(table.shape[1])[None] < lengths[:, None], torch.from_numpy(np.stack(means)))


class SignalTask(Task[SignalBatch]):
    goal, rising = "error", False
    sorted_by = ("signal",)

    def make_batch(self, rows: list[int], chance: Random) -> SignalBatch:
        signals, means = ([self.columns[name].read(n) for n in rows] for name in ("signal", "mean"))
        return collect(signals, means)

    def size(self, batch: SignalBatch) -> int:
        return len(batch.means)

    def loss(self, model: Model, batch: SignalBatch) -> Tensor:
        return F.mse_loss(model(batch.signals, valid=batch.valid), batch.means, reduction="sum")

    def measure(self, model: Model, pulse: Pulse) -> Mapping[str, Any]:
        return Averager(model).measure(self.validation)


@dataclass
class Averager(Pipeline):
    """A model that learned means."""

    model: Model

    @torch.no_grad()
    def measure(self, samples: Sequence[Sample]) -> dict[str, Any]:
        batch = collect([sample["signal"] for sample in samples], [sample["mean"] for sample in samples])
        return {"error": float(F.mse_loss(self.model(batch.signals, valid=batch.valid), batch.means))}
