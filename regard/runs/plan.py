"""What a run will cost, measured in a few seconds: parameters, memory, speed, and how long it will take.

A few real steps are made on the first pairs of the corpus, in a folder that is thrown away; nothing is trained or kept.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import ClassVar, Literal, Self

import torch

from regard.config import Document
from regard.core.outline import outline
from regard.core.registry import Kinds
from regard.core.spec import Spec
from regard.data.corpus import CorpusSpec, Split
from regard.data.log import Log
from regard.data.preparation import prepare
from regard.data.sample import Form, Sample
from regard.host.machine import device, peak_memory
from regard.host.meter import SILENT, Advance, Meter, ignore
from regard.runs.assembly import Assembly
from regard.runs.folder import borrow_lexicon
from regard.runs.spec import RunSpec
from regard.runs.start import load_start
from regard.runs.uses import load_uses
from regard.train.listener import Listener, Step
from regard.train.moment import Moment
from regard.train.trainer import Trainer

SAMPLE = 4000  # samples
SEARCHED = 200_000  # samples that are looked through for further labels
WARM = 3  # steps that pay for memory and threads
SECONDS = 6.0  # of measuring
LEARNED = ("bpe", "byte-bpe", "unigram", "wordpiece")  # pieces whose number is chosen


@dataclass
class Forecast:
    """What there is to know before training."""

    model: str
    parameters: int
    state_bytes_per_token: int
    device: str
    peak_memory: int  # bytes of the whole process in the steps that were made
    tokens_per_second: float
    counted: str  # what these tokens are: pictures, pairs, …
    steps_per_second: float
    samples: int | None  # in the corpus, where a budget in epochs made it necessary to count
    seconds: float  # until the first budget is used up


class Sampled(CorpusSpec):
    """The first samples of another corpus."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds()
    home: ClassVar[str | None] = None  # nobody writes it
    kind: Literal["sampled"] = "sampled"
    whole: CorpusSpec

    def forms(self) -> tuple[Form, ...]:
        return self.whole.forms()

    def settle(self, form: Form, folder: Path) -> Self:
        return self.replace(whole=self.whole.settle(form, folder))

    def splits(self) -> tuple[Split, ...]:
        return ("train",)

    def samples(self, form: Form, split: Split, folder: Path, log: Log) -> Iterator[Sample]:
        """The first, and later on only those with a label that none before had."""
        seen: set[str] = set()
        for number, sample in enumerate(islice(self.whole.samples(form, split, folder, log), SEARCHED)):
            labels = {sample.get("label", ""), *sample.get("tags", ())}
            if number < SAMPLE or labels - seen:
                yield sample
            elif form not in ("labels", "tags", "images"):
                return
            seen |= labels


class Clock(Listener):
    """When each step ended, and how many tokens and pairs it had."""

    def __init__(self) -> None:
        self.times = [time.perf_counter()]
        self.tokens = [0]
        self.shares = [0.0]
        self.advance: Advance = ignore

    def on_step(self, step: Step, moment: Moment) -> None:
        self.times.append(time.perf_counter())
        self.tokens.append(moment.tokens)
        self.shares.append(moment.epoch + moment.share)
        self.advance()


def plan(document: Document, meter: Meter = SILENT) -> Forecast:
    """Measure a few steps of a run and reckon the rest."""
    load_uses(document)
    spec = RunSpec.parse(document.tree, document.where)
    with tempfile.TemporaryDirectory(prefix="regard-plan-") as folder:
        sampled = Sampled(whole=spec.corpus, policy=spec.corpus.policy)
        origin = None if spec.start is None else load_start(spec.start)
        assembly = Assembly.make(spec, origin)
        known = borrow_lexicon(spec) if origin is None else origin.lexicon
        limits = (spec.batches.longest, Path(spec.data), Path(folder))
        fitted = lambda lexicon: assembly.with_words(lexicon).model  # noqa: E731
        prepared, _ = prepare(sampled, assembly.task, spec.tokenizer, *limits, known, fitted, meter)
        # a sample has fewer words than the corpus; the model gets as many as the run will have at most
        new = spec.tokenizer.like is None and origin is None
        learned = assembly.task.words and spec.tokenizer.pieces in LEARNED and new
        model_spec, size = fitted(prepared.lexicon), spec.tokenizer.vocabulary
        model_spec = model_spec.grow(size, size) if learned else model_spec
        torch.manual_seed(spec.seed)
        model = model_spec.build().to(device(spec.device))
        clock = Clock()
        measuring = spec.train.replace(steps=None, epochs=None, tokens=None, minutes=SECONDS / 60, evaluate=0)
        with meter.watch("measuring, steps") as advance:
            clock.advance = advance
            task = assembly.task.build(prepared, spec.batches, spec.seed)
            Trainer(model, task, measuring, [clock]).run()
        samples = len(prepared)
    first = min(WARM, len(clock.times) - 2)
    elapsed = clock.times[-1] - clock.times[first]
    steps = (len(clock.times) - 1 - first) / elapsed
    tokens = (clock.tokens[-1] - clock.tokens[first]) / elapsed
    speed = (clock.shares[-1] - clock.shares[first]) * samples / elapsed  # samples a second
    total = _count(spec, meter) if spec.train.epochs else None
    budgets = [
        spec.train.steps / steps if spec.train.steps else None,
        spec.train.tokens / tokens if spec.train.tokens else None,
        60 * spec.train.minutes if spec.train.minutes else None,
        spec.train.epochs * total / speed if spec.train.epochs and total else None,
    ]
    seconds = min(budget for budget in budgets if budget is not None)
    drawn = outline(model_spec, str(spec.start if spec.model is None else spec.model.name))
    where = str(device(spec.device))
    return Forecast(
        drawn.tree.name,
        drawn.parameters,
        drawn.state_bytes_per_token,
        where,
        peak_memory(),
        tokens,
        task.counts,
        steps,
        total,
        seconds,
    )


def _count(spec: RunSpec, meter: Meter) -> int:
    count = 0
    with meter.watch("counting the corpus") as advance:
        for _ in spec.corpus.samples(spec.task.form, "train", Path(spec.data), Log("skip")):
            count += 1
            advance()
    return count
