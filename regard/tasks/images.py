"""Classification of pictures: one label for each.

While a model is trained, chance changes its pictures (`augment`); where it puts two together, their classes are shared
in proportion, so the loss is that of a distribution over classes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Literal, overload

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.inputs import Inputs
from regard.core.model import Model, ModelSpec
from regard.core.role import Answers
from regard.core.spec import Rate
from regard.data.augment.prints import AugmentSpec, Prints, augment
from regard.data.batches import BatchSpec
from regard.data.canvas import Picture
from regard.data.column import ColumnSpec
from regard.data.given import GivenPicture, list_pictures
from regard.data.lexicon import Lexicon
from regard.data.origin import Origin
from regard.data.picture import Fit
from regard.data.prepared import Prepared
from regard.data.sample import Form, Sample
from regard.data.sieve import Row
from regard.decode.pipeline import PicturePipeline, Pipeline, refuse_target
from regard.decode.reading import Pictured, Reading, Strip
from regard.errors import SpecError
from regard.tasks.example import Example, format_share
from regard.tasks.measures import Numbers, measure_labels, measure_probabilities
from regard.tasks.picture import PictureTask, PictureTaskSpec, insist_on_canvas, read_given
from regard.tasks.scores import SampleScores, count_labels, divide_labels, score_labels, score_shares, take_time
from regard.tasks.task import Pulse, one_stack
from regard.tasks.verdict import Verdict, judge

ROWS = 128  # pictures that are looked at together


class ImageTaskSpec(PictureTaskSpec):
    """Learn to label pictures."""

    form: ClassVar[Form] = "images"
    words: ClassVar[bool] = False
    answers: ClassVar[Answers | None] = "classes"
    measures: ClassVar[Mapping[str, bool]] = {
        "accuracy": True,
        "top5": True,
        "macro_f1": True,
        "loss": False,
        "calibration": False,
    }
    roles: ClassVar[tuple[str, str, str]] = ("picture", "label", "answer")
    kind: Literal["images"] = "images"
    augment: tuple[AugmentSpec, ...] = ()
    """Pictures are changed by chance in these ways while training, in this order."""
    smoothing: Rate = 0.0
    """This share of the right class's probability is shared among all classes (label smoothing)."""

    def fit_model(self, model: ModelSpec, lexicon: Lexicon) -> ModelSpec:
        one_stack(model, "classification of pictures")
        fitted = super().fit_model(model, lexicon)
        count = len(lexicon.labels)
        if count < 2:
            raise SpecError(f"corpus: {count} labels, and there must be two at least")
        if fitted.head is not None and fitted.head.answers == "classes":
            return fitted.replace(head=fitted.head.replace(classes=count))  # one that was trained is used on
        grid = fitted.main.embedding.grid
        pool = "first" if grid is not None and grid.first else "mean"
        return fitted.replace(head={"kind": "classes", "classes": count, "pool": pool})

    def labels(self, sample: Sample) -> Sequence[str]:
        return (sample["label"],)

    def texts(self, sample: Sample) -> Sequence[str]:
        return ()

    def columns(self, lexicon: Lexicon) -> Mapping[str, ColumnSpec]:
        label = ColumnSpec(shape=(), below=len(lexicon.labels))
        return {**super().columns(lexicon), "label": label}

    def encode(self, samples: Sequence[Sample], lexicon: Lexicon) -> Sequence[Row]:
        numbers = {label: number for number, label in enumerate(lexicon.labels)}
        return [{"picture": sample["picture"], "label": numbers[sample["label"]]} for sample in samples]

    def build(self, prepared: Prepared, batches: BatchSpec, seed: int) -> ImageTask:
        return ImageTask(self, prepared, batches, seed)

    def choose_pipeline(self, model: ModelSpec) -> type[Pipeline]:
        return ImageClassifier

    def pipeline(self, network: Model, lexicon: Lexicon, origin: Origin | None = None) -> ImageClassifier:
        return ImageClassifier(network, lexicon, fit=self.fit)

    def measure(
        self, pipeline: ImageClassifier, samples: Sequence[Sample], pulse: Pulse = lambda: None
    ) -> Mapping[str, Any]:
        return pipeline.measure(samples, pulse)

    def score_samples(
        self, pipeline: ImageClassifier, samples: Sequence[Sample], pulse: Pulse = lambda: None
    ) -> SampleScores:
        (numbers, logs), seconds = take_time(lambda: pipeline.judge_all(samples, pulse))
        labels = pipeline.lexicon.labels
        gold, guesses = [(sample["label"],) for sample in samples], [(labels[n],) for n in logs.argmax(1)]
        sure = [format_share(share) for share in np.exp(logs.max(1)).tolist()]
        examples = [
            Example((str(sample.get("place", f"picture {n + 1}")),), wanted, guess, guess == wanted, sure[n])
            for n, (sample, wanted, guess) in enumerate(zip(samples, gold, guesses, strict=True))
        ]
        statistics = score_labels(gold, guesses, labels) | score_shares(numbers, logs)
        portions = {"labels": divide_labels(gold, guesses)}
        return SampleScores(statistics, examples, telling="loss", seconds=seconds, portions=portions)

    def count_training(self, prepared: Prepared) -> Mapping[str, Counter[str]]:
        return {"labels": count_labels(prepared.columns["label"], prepared.lexicon.labels)}

    def make_sample(self, text: str) -> Sample:
        return {"picture": text, "place": text}  # the path of a file, which is read when it is asked about

    def demonstrate(self, pipeline: ImageClassifier, samples: Sequence[Sample]) -> list[Example]:
        verdicts = pipeline.classify([sample["picture"] for sample in samples])
        return [
            Example(
                (str(sample.get("place", "a picture")),),
                (sample["label"],) if "label" in sample else (),
                (verdict.label,),
                verdict.label == sample["label"] if "label" in sample else None,
                "" if verdict.probability is None else format_share(verdict.probability),
            )
            for sample, verdict in zip(samples, verdicts, strict=True)
        ]


@dataclass
class ImageBatch:
    """Pictures, and how much of each class is in them."""

    inputs: Inputs  # (rows, channels, height, width)
    targets: Tensor  # (rows, classes), each row adds up to 1


class ImageTask(PictureTask[ImageBatch]):
    """The task on one prepared corpus."""

    goal, rising = "accuracy", True
    counts = "pictures"

    def __init__(self, spec: ImageTaskSpec, prepared: Prepared, batches: BatchSpec, seed: int) -> None:
        super().__init__(spec, prepared, batches, seed)
        for change in spec.augment:
            change.insist(self.canvas)

    def make_batch(self, rows: list[int], chance: Random) -> ImageBatch:
        classes = self.columns["label"].gather(rows)
        shares = np.eye(len(self.lexicon.labels), dtype=np.float32)[classes.astype(np.int64)]
        prints = augment(Prints(self.gather(rows), self.canvas, shares), self.spec.augment, chance)
        assert prints.shares is not None
        return ImageBatch(self.read(prints.pictures), torch.from_numpy(prints.shares))

    def size(self, batch: ImageBatch) -> int:
        return len(batch.targets)

    def loss(self, model: Model, batch: ImageBatch) -> Tensor:
        logits = model(batch.inputs.to(model.device))
        targets = batch.targets.to(model.device)
        return F.cross_entropy(logits, targets, reduction="sum", label_smoothing=self.spec.smoothing)

    def measure(self, model: Model, pulse: Pulse) -> Mapping[str, Any]:
        found = ImageClassifier(model, self.lexicon).measure(self.validation, pulse)
        return {name: value for name, value in found.items() if not isinstance(value, dict)}


@dataclass(repr=False)
class ImageClassifier(PicturePipeline):
    """A model that learned to label pictures, with its labels.

    A picture is an array (height, width, channels) of bytes, or (height, width), or the path of a file.

    >>> import numpy, regard
    >>> classifier = regard.load("runs/halves", kind=regard.ImageClassifier)
    >>> classifier.classify(numpy.zeros((8, 8, 1), numpy.uint8)).label in classifier.lexicon.labels
    True
    """

    usage: ClassVar[str] = "classify {} PICTURE"
    verbs: ClassVar[tuple[str, ...]] = ("classify",)
    model: Model
    lexicon: Lexicon

    @overload
    def classify(self, picture: GivenPicture, fit: Fit | None = None) -> Verdict: ...  # type: ignore[overload-overlap]

    @overload
    def classify(self, picture: Sequence[GivenPicture], fit: Fit | None = None) -> list[Verdict]: ...

    def classify(
        self, picture: GivenPicture | Sequence[GivenPicture], fit: Fit | None = None
    ) -> Verdict | list[Verdict]:
        """The label of a picture; of a list of pictures, the label of each.

        `fit`: how a picture of another size comes to the model's: resize, crop, or pad.
        """
        given, one = list_pictures(picture)
        scores = self._score(given, fit)
        found = [judge(row, self.lexicon.labels) for logits in scores for row in logits]
        return found[0] if one else found

    def read(self, picture: GivenPicture, fit: Fit | None = None) -> Picture:
        """A picture as this model reads it, in its size and channels."""
        return read_given(picture, insist_on_canvas(self.lexicon), fit or self.fit)

    @torch.no_grad()
    def _score(
        self, pictures: Sequence[GivenPicture], fit: Fit | None = None, pulse: Pulse = lambda: None
    ) -> Iterator[Tensor]:
        """The scores of all labels, some pictures at a time: what stays in its file until then needs no memory."""
        canvas = insist_on_canvas(self.lexicon)
        for first in range(0, len(pictures), ROWS):
            pulse()
            stacked = np.stack([self.read(each, fit) for each in pictures[first : first + ROWS]])
            yield self.model(Inputs(canvas.normalise(stacked)).to(self.model.device)).float().cpu()

    def lay_out(self, text: GivenPicture, target: str | None = None) -> Reading:
        """A picture by its path, patch by patch; the row has one answer."""
        refuse_target(self, target)
        return self.lay_out_picture(text)

    def lay_out_picture(self, picture: GivenPicture) -> Reading:
        """What the model reads of a picture: its places, row by row, with what stands before them."""
        canvas, labels = insist_on_canvas(self.lexicon), self.lexicon.labels
        seen = self.read(picture)
        grid = self.model.spec.main.embedding.grid
        assert grid is not None
        return Reading(
            Inputs(canvas.normalise(seen[None])),
            Strip.of_grid(grid),
            targets={0: None},
            spell=lambda found: [labels[n] for n in found],
            text=str(picture) if isinstance(picture, str | Path) else "a picture",
            pictured=Pictured(seen, grid, "target") if canvas.dtype == "uint8" else None,
        )

    def judge_all(self, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> tuple[list[int], Numbers]:
        """The number of each sample's own label, and how likely each label is: logarithms, (rows, labels)."""
        numbers = {label: number for number, label in enumerate(self.lexicon.labels)}
        gold = [numbers[sample["label"]] for sample in samples]
        scores = self._score([sample["picture"] for sample in samples], pulse=pulse)
        return gold, torch.cat(list(scores)).double().log_softmax(-1).numpy()

    def measure(self, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> dict[str, Any]:
        """Every measure on samples with their labels."""
        gold, logs = self.judge_all(samples, pulse)
        found = measure_labels(gold, logs.argmax(1).tolist(), self.lexicon.labels)
        plain = {name: value for name, value in found.items() if not isinstance(value, dict)}
        return plain | measure_probabilities(gold, logs) | {name: found[name] for name in ("labels", "confusion")}
