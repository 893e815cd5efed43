"""Captioning: next-token prediction of what is said of a picture, given the picture.

An example is a picture with one of its captions, so an epoch sees a picture as often as it has captions, each once.
There is one way to evaluate, in training and in `eval`: captions are searched, and measured against all references of
their picture. The blind control (`blind: true`) is the same model without pictures: what it lacks is what they bring.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from random import Random
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np
import torch
from pydantic import model_validator
from torch import Tensor

from regard.core.inputs import Inputs
from regard.core.model import Model, ModelSpec
from regard.core.spec import Rate, Size
from regard.data.augment.prints import AugmentSpec, Prints, augment
from regard.data.batches import Batch, BatchSpec
from regard.data.canvas import Canvas, Picture
from regard.data.column import Column, ColumnSpec
from regard.data.encoders.encoder import EncoderSpec
from regard.data.given import GivenPicture, name_picture, open_picture
from regard.data.lexicon import Lexicon
from regard.data.log import Unusable
from regard.data.origin import Origin
from regard.data.picture import Fit, fit_picture
from regard.data.prepared import Prepared
from regard.data.sample import Form, Sample
from regard.data.sieve import Row
from regard.decode.captioner import Captioner, repeat_memory
from regard.decode.pipeline import Pipeline
from regard.decode.search import Search
from regard.errors import InputError, SpecError
from regard.tasks.agreement import measure_agreement, score_agreement
from regard.tasks.entropy import cross_entropy, losses
from regard.tasks.example import Example
from regard.tasks.measures import ratio
from regard.tasks.picture import PictureTask, PictureTaskSpec, insist_on_canvas, read_given
from regard.tasks.reinforce import Reinforce
from regard.tasks.scores import SampleScores
from regard.tasks.significance import Statistic
from regard.tasks.task import Pulse
from regard.tasks.translation import predict

ROWS = 32  # pictures whose captions are measured together


class CaptioningTaskSpec(PictureTaskSpec):
    """Learn to say what is in a picture: with an encoder that reads pictures and a decoder that writes."""

    form: ClassVar[Form] = "captions"
    writes: ClassVar[bool] = True
    searches: ClassVar[bool] = True
    roles: ClassVar[tuple[str, str, str]] = ("picture", "references", "caption")
    measures: ClassVar[Mapping[str, bool]] = {
        "loss": False,
        "perplexity": False,
        **{f"bleu{order}": True for order in (1, 2, 3, 4)},
        "cider": True,
        "exact": True,
        "distinct": True,
    }
    kind: Literal["captioning"] = "captioning"
    encoder: EncoderSpec | None = None
    """This network from elsewhere looks at each picture once, and the model reads the map that it made."""
    augment: tuple[AugmentSpec, ...] = ()
    """Pictures are changed by chance in these ways while training, in this order; mind what captions say of left."""
    smoothing: Rate = 0.1
    """This share of the right word's probability is shared among all words (label smoothing)."""
    search: Search = Search()
    """Validation captions in this way while training goes on."""
    validation: Size = 500
    """While training goes on, at most this many pictures of the validation part are captioned."""
    reinforce: Reinforce = Reinforce()
    """How attention that draws where it looks is rewarded, where a model has such (hard: sampled)."""
    blind: bool = False
    """The model is shown no picture, as a control: whatever it says, it knows from captions."""

    @model_validator(mode="after")
    def check(self) -> Self:
        for change in self.augment:
            if change.blends or change.repeats:
                raise ValueError(f"augment: {change.kind} puts pictures together or repeats them; a caption is of one")
        if self.encoder is not None and self.channels == 1:
            raise ValueError(f"channels: 1, and the encoder {self.encoder.kind} reads colours; leave it out")
        return self

    def fit_model(self, model: ModelSpec, lexicon: Lexicon) -> ModelSpec:
        if model.encoder is None or model.decoder is None or model.encoder.embedding.picture is None:
            told = "captioning needs an encoder that reads pictures and a decoder that writes"
            raise SpecError(f"model: {told}", "model=show-attend-tell, or model=captioner")
        if lexicon.tokenizers[0] is not lexicon.tokenizers[1]:
            raise SpecError("tokenizer.shared: captions have one vocabulary", "tokenizer.shared=true")
        if insist_on_canvas(lexicon).dtype == "float32" and model.encoder.embedding.kind == "convolutional":
            told = "its convolutions would shrink a map of features, whose places are for words to look at"
            raise SpecError(f"model.map: {told}", "model=show-attend-tell-features, or model.map=features")
        return super().fit_model(model, lexicon)

    def receive(self, sample: Sample) -> Sample:
        texts = [text.strip() for text in sample["texts"] if text.strip()]
        if not texts:
            raise Unusable("a picture without a caption")
        if self.encoder is not None:
            if sample["picture"].dtype != np.uint8:
                raise Unusable("a map of features already, and task.encoder makes one of a picture")
            return {**sample, "picture": self.encode_picture(sample["picture"], self.fit), "texts": texts}
        return {**super().receive(sample), "texts": texts}

    def encode_picture(self, picture: Picture, fit: Fit | None) -> Picture:
        """The encoder's map of a picture."""
        assert self.encoder is not None
        return self.encoder.map_pictures([fit_picture(picture, self.size, fit, 3)])[0]

    def take_picture(self, canvas: Canvas, given: GivenPicture, fit: Fit | None) -> Picture:
        """What a user hands in, as the model reads it: a map is read as it is, a picture by the encoder first."""
        fit = fit or self.fit
        if self.encoder is None:
            return read_given(given, canvas, fit)
        picture, name = open_picture(given), name_picture(given)
        try:
            if picture.dtype == np.uint8:
                picture = self.encode_picture(picture, fit)
        except Unusable as error:
            raise InputError(f"{name}{error.message}", error.hint) from None
        if picture.shape != canvas.shape:
            told = f"it becomes a map of {picture.shape}, and the model reads {canvas.shape}"
            raise InputError(f"{name}{told}", "a picture as large as those that it learned from")
        return picture

    def show_picture(self, given: GivenPicture) -> Picture | None:
        """The pixels that the encoder made its map of; None where a map was handed in."""
        picture = open_picture(given)
        return fit_picture(picture, self.size, self.fit) if picture.dtype == np.uint8 else None

    def texts(self, sample: Sample) -> Sequence[str]:
        texts: Sequence[str] = sample["texts"]
        return texts

    def columns(self, lexicon: Lexicon) -> Mapping[str, ColumnSpec]:
        tokens = ColumnSpec(below=len(lexicon.tokenizer))
        return {**super().columns(lexicon), "captions": tokens, "sizes": ColumnSpec()}

    def encode(self, samples: Sequence[Sample], lexicon: Lexicon) -> Sequence[Row]:
        rows = iter(lexicon.tokenizer.encode([text for sample in samples for text in sample["texts"]]))
        found: list[Row] = []
        for sample in samples:
            captions = [next(rows) for _ in sample["texts"]]
            tokens = [token for caption in captions for token in caption]
            found.append({"picture": sample["picture"], "captions": tokens, "sizes": list(map(len, captions))})
        return found

    def count_tokens(self, row: Row) -> int:
        return max(row["sizes"])

    def places(self, row: Row) -> Mapping[str, int]:
        return {"decoder": max(row["sizes"]) + 1}  # with a beginning

    def build(self, prepared: Prepared, batches: BatchSpec, seed: int) -> CaptioningTask:
        return CaptioningTask(self, prepared, batches, seed)

    def choose_pipeline(self, model: ModelSpec) -> type[Pipeline]:
        return Captioner

    def pipeline(self, network: Model, lexicon: Lexicon, origin: Origin | None = None) -> Captioner:
        canvas = insist_on_canvas(lexicon)
        take = partial(self.take_picture, canvas)
        return Captioner(network, lexicon.tokenizer, canvas, take, self.show_picture, self.search, self.blind)

    def measure(self, pipeline: Captioner, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> Mapping[str, Any]:
        return evaluate_captioner(pipeline, samples, self.search, pulse=pulse)

    def score_samples(
        self, pipeline: Captioner, samples: Sequence[Sample], pulse: Pulse = lambda: None
    ) -> SampleScores:
        found = caption_samples(pipeline, samples, pipeline.settings({}), pulse)  # the search of `regard eval`
        references = [sample["texts"] for sample in samples]
        statistics = score_agreement(found.texts, references)
        statistics["loss"] = Statistic.mean(found.nats, found.tokens, rising=False, per_token=True)
        examples = [
            Example((str(sample.get("place", "a picture")),), tuple(wanted), (text,), text in wanted or None)
            for sample, wanted, text in zip(samples, references, found.texts, strict=True)
        ]
        return SampleScores(
            statistics,
            examples,
            telling="cider",
            seconds=found.seconds,
            written=sum(len(row) + 1 for row in pipeline.tokenizer.encode(found.texts)),  # with the end of each
            sizes=[len(wanted[0].split()) for wanted in references],
            size_name="words of the first reference",
        )

    def demonstrate(self, pipeline: Captioner, samples: Sequence[Sample]) -> list[Example]:
        found = pipeline.caption([sample["picture"] for sample in samples])
        return [
            Example(
                (str(sample.get("place", "a picture")),),
                tuple(sample.get("texts", ())),
                (caption.text,),
                caption.text in sample.get("texts", ()) or None,  # one that differs may be as good
                "" if caption.cut is None else f"cut by its {caption.cut}",
            )
            for sample, caption in zip(samples, found, strict=True)
        ]


class Pairs(Sequence[tuple[int]]):
    """The length of every caption of every picture, in order, read when asked for; and whose caption each is."""

    def __init__(self, sizes: Column) -> None:
        self.sizes = sizes
        self.ends = np.asarray(sizes.bounds(0, len(sizes)))  # eight bytes a picture

    def __len__(self) -> int:
        return int(self.ends[-1])

    @overload
    def __getitem__(self, index: int) -> tuple[int]: ...

    @overload
    def __getitem__(self, index: slice) -> list[tuple[int]]: ...

    def __getitem__(self, index: int | slice) -> tuple[int] | list[tuple[int]]:
        if isinstance(index, int):
            return self[index : index + 1][0]
        first, last, _ = index.indices(len(self))
        return [(size,) for size in self.sizes.read_items(first, last).tolist()]

    def find(self, number: int) -> tuple[int, int]:
        """Which picture a caption is of, and which of its captions it is."""
        sample = int(np.searchsorted(self.ends, number, "right")) - 1
        return sample, number - int(self.ends[sample])


class CaptioningTask(PictureTask[Batch]):
    """The task on one prepared corpus."""

    goal, rising = "bleu4", True
    reinforces = True

    def __init__(self, spec: CaptioningTaskSpec, prepared: Prepared, batches: BatchSpec, seed: int) -> None:
        super().__init__(spec, prepared, batches, seed)
        for change in spec.augment:
            change.insist(self.canvas)
        self.pairs = Pairs(self.columns["sizes"])
        self.rewards = spec.reinforce.build()

    def choose_plan(self, batches: BatchSpec) -> BatchSpec:
        return batches if batches.budgeted else super().choose_plan(batches)  # captions have tokens

    def order(self, epoch: int) -> Iterator[tuple[list[int], float]]:
        """Pairs of a picture and a caption, captions of like length together."""
        done = 0
        for rows in self.plan.plan(self.pairs, self.seed, epoch):
            done += len(rows)
            yield rows, done / len(self.pairs)

    def make_batch(self, rows: list[int], chance: Random) -> Batch:
        found = [self.pairs.find(row) for row in rows]
        tokenizer = self.tokenizer
        captions = [self._read_caption(*place) for place in found]
        pictures = self.gather([sample for sample, _ in found])
        pixels = self.canvas.normalise(augment(Prints(pictures, self.canvas), self.spec.augment, chance).pictures)
        source = Inputs(torch.zeros_like(pixels) if self.spec.blind else pixels)
        target = Inputs.pad([[tokenizer.begin, *row, tokenizer.end] for row in captions], tokenizer.pad)
        return Batch(source, target, sum(len(row) + 1 for row in captions))

    def _read_caption(self, sample: int, number: int) -> list[int]:
        sizes = self.columns["sizes"][sample]
        first = sum(sizes[:number])
        return self.columns["captions"].part(sample, first, first + sizes[number])

    def size(self, batch: Batch) -> int:
        return batch.tokens

    def loss(self, model: Model, batch: Batch) -> Tensor:
        with self.rewards.watch(model):
            found = predict(model, batch, self.tokenizer)
        loss = cross_entropy(found.factors, found.targets, self.spec.smoothing)
        if not self.rewards.wanted:
            return loss
        with torch.no_grad():  # what a row's draws were worth is its log-likelihood, without smoothing
            nats = torch.stack([part.sum() for part in losses(found.factors, found.targets).split(found.sizes)])
        return self.rewards.charge(loss, nats)

    def memory(self) -> Mapping[str, Tensor]:
        return self.rewards.memory() if self.rewards.wanted else {}

    def recall(self, model: Model, memory: Mapping[str, Tensor]) -> None:
        if memory:
            self.rewards.recall(memory)

    def measure(self, model: Model, pulse: Pulse) -> Mapping[str, Any]:
        some = spread_out(self.validation, self.spec.validation)
        measures = evaluate_captioner(self.spec.pipeline(model, self.lexicon), some, self.spec.search, pulse=pulse)
        del measures["decoding_seconds"]  # a run that goes on must journal the same
        return measures


def spread_out(samples: Sequence[Sample], most: int) -> Sequence[Sample]:
    """At most so many samples, from all over."""
    count = min(most, len(samples))
    return [samples[n * len(samples) // count] for n in range(count)]


@dataclass
class Captions:
    """What a captioner wrote of pictures, and how likely it found their references."""

    texts: list[str] = field(default_factory=list)
    nats: list[float] = field(default_factory=list)  # of all references of each picture
    tokens: list[int] = field(default_factory=list)  # that they have
    cut: int = 0  # captions that came to no end
    seconds: float = 0.0  # that writing took


def caption_samples(
    captioner: Captioner, samples: Sequence[Sample], settings: Search, pulse: Pulse = lambda: None
) -> Captions:
    """Caption pictures, and read their references."""
    found = Captions()
    for first in range(0, len(samples), ROWS):
        pulse()
        some = samples[first : first + ROWS]
        # a few at a time: what is kept on disk needn't fit the memory
        pictures = [captioner.take(sample["picture"], None) for sample in some]
        for nats, tokens in add_losses(captioner, pictures, [sample["texts"] for sample in some]):
            found.nats.append(nats)
            found.tokens.append(tokens)
        began = time.perf_counter()
        for best, *_ in captioner.caption_all(pictures, settings):
            found.texts.append(best.text)
            found.cut += best.cut is not None
        found.seconds += time.perf_counter() - began
    return found


def evaluate_captioner(
    captioner: Captioner, samples: Sequence[Sample], settings: Search, *, pulse: Pulse = lambda: None
) -> dict[str, Any]:
    """Every measure of a captioner on pictures with their references."""
    found = caption_samples(captioner, samples, settings, pulse)
    loss = ratio(found.nats, found.tokens)  # in nats a token, without smoothing
    agreement = measure_agreement(found.texts, [sample["texts"] for sample in samples])
    measures = loss.named("loss") | loss.exponential().named("perplexity") | agreement
    return measures | {"cut": found.cut, "decoding_seconds": found.seconds}


@torch.no_grad()
def add_losses(
    captioner: Captioner, pictures: Sequence[Picture], references: Sequence[Sequence[str]]
) -> Iterator[tuple[float, int]]:
    """The cross-entropy of all references of each picture, in nats, and how many tokens they have."""
    model, tokenizer = captioner.model, captioner.tokenizer
    memory = repeat_memory(model, captioner.look_at(pictures), list(map(len, references)))
    rows = tokenizer.encode([text for texts in references for text in texts])
    target = Inputs.pad([[tokenizer.begin, *row, tokenizer.end] for row in rows], tokenizer.pad).to(model.device)
    kept = target.real[:, 1:]
    factors = model.factors(replace(target.without_last(), memory=memory), kept)
    parts = losses(factors, target.tokens[:, 1:][kept]).split([len(row) + 1 for row in rows])
    costs = zip(parts, rows, strict=True)
    for texts in references:
        own = [(float(part.sum()), len(row) + 1) for part, row in islice(costs, len(texts))]
        yield sum(nats for nats, _ in own), sum(tokens for _, tokens in own)
