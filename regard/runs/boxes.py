"""Does a word look at what it speaks of? A captioner's attention against the boxes that a corpus knows.

Captions are the corpus's own, teacher-forced, so that every word has its box whatever the model would have written.
What counts is the attention of the step that writes a word, the mean of its tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.core.inputs import Inputs
from regard.core.probe import Record
from regard.data.corpus import BoxedCaption, Split
from regard.decode.captioner import Captioner
from regard.errors import InputError
from regard.host.meter import SILENT, Meter
from regard.lens.alignment import CutText, WordedText, cut_text
from regard.lens.boxes import ALL, BoxScore, WatchedCaption, measure_boxes
from regard.runs.evaluate import choose_split, count_training, name_model, open_run
from regard.runs.load import load_as
from regard.runs.precision import spell_precision
from regard.runs.results import machine, record
from regard.tasks.picture import PictureTaskSpec
from regard.tasks.task import TaskSpec

ROWS = 64  # captions that are read together


def writes_captions(noun: str) -> bool:
    """Whether a run learned to caption pictures, so that its words are aligned with places instead of words."""
    run = open_run(noun)
    return run is not None and run.spec.task.form == "captions"


@dataclass(frozen=True)
class BoxReport:
    """How much of each word's attention is in its box: by head, and for the mean of all by the class of the word."""

    captions: int
    classes: Mapping[str, BoxScore]
    heads: Mapping[str, BoxScore]  # of all words: LAYER.HEAD, the best first
    precision: str = "fp32"  # what the weights were packed to

    def as_json(self) -> dict[str, Any]:
        tell = {"classes": self.classes, "heads": self.heads}
        named = {key: {name: score.as_json() for name, score in found.items()} for key, found in tell.items()}
        return {"captions": self.captions, "precision": self.precision, **named}


@torch.no_grad()
def compare_boxes(
    noun: str, split: Split | None = None, meter: Meter = SILENT, precision: str | None = None
) -> BoxReport:
    """Measure a captioner's attention on a split whose boxes the run's corpus knows."""
    captioner = load_as(noun, Captioner, "only a captioner's words look at a picture", precision)
    run = open_run(noun)
    chosen = choose_split(run) if split is None else split
    boxed = [] if run is None else list(run.spec.corpus.list_boxes(chosen))
    if not boxed:
        raise InputError(f"{noun}: its corpus knows no boxes of what words speak of", "a run on corpus: scenes")
    assert run is not None
    insist_on_whole(run.spec.task, boxed)
    spec = captioner.model.spec.encoder
    grid = None if spec is None else spec.embedding.grid
    names = captioner.model.alignments
    if grid is None or not names:
        raise InputError(f"{noun}: nothing in its decoder attends to the places of a picture")
    watched: dict[str, list[WatchedCaption]] = {}
    with meter.watch("looking at pictures", len(boxed)) as advance:
        for caption, maps in watch_captions(captioner, boxed, names):
            for name, weights in maps.items():
                height, width, _ = caption.picture.shape
                seen = WatchedCaption(weights, caption.boxes, caption.kinds, height, width)
                watched.setdefault(name, []).append(seen)
            advance()
    classes = measure_boxes(watched.pop(ALL), grid)
    heads = {name: measure_boxes(seen, grid)[ALL] for name, seen in watched.items()}
    ranked = sorted(heads.items(), key=lambda each: -each[1].inside.value)
    return BoxReport(len(boxed), classes, dict(ranked), captioner.precision)


def insist_on_whole(task: TaskSpec, boxed: Sequence[BoxedCaption]) -> None:
    """Refuse pictures that the model sees a part of, or with a border: their boxes are elsewhere in what it sees."""
    if not isinstance(task, PictureTaskSpec) or task.size is None or task.fit not in ("crop", "pad"):
        return
    height, width = (task.size, task.size) if isinstance(task.size, int) else task.size
    for caption in boxed:
        tall, wide, _ = caption.picture.shape
        if tall * width != wide * height:
            told = f"pictures of {tall} × {wide} are fitted to {height} × {width}, and boxes aren't"
            raise InputError(f"task.fit: {task.fit}: {told}", "a run with task.fit=resize")


def watch_captions(
    captioner: Captioner, boxed: Sequence[BoxedCaption], names: Sequence[str]
) -> Iterator[tuple[BoxedCaption, dict[str, Any]]]:
    """For each caption what its words looked at, (words, places): by head, and the mean of all heads."""
    given = iter(boxed)
    while group := list(islice(given, ROWS)):
        tokenizer = captioner.tokenizer
        cut = [cut_text(tokenizer, WordedText.locate(each.text, each.words)) for each in group]
        read = Inputs.pad([[tokenizer.begin, *each.tokens] for each in cut], tokenizer.pad)
        look = Record(*names)
        pictures = captioner.look_at([captioner.take(each.picture, None) for each in group])
        captioner.model(replace(read, memory=pictures, probe=look).to(captioner.model.device))
        heads = {
            f"{layer}.{head}": look[name][:, head].float().cpu().numpy()  # (rows, time, places)
            for layer, name in enumerate(names)
            for head in range(look[name].shape[1])
        }
        heads = {ALL: np.mean(list(heads.values()), 0), **heads}
        for row, (caption, text) in enumerate(zip(group, cut, strict=True)):
            yield caption, {name: average_words(weights[row], text) for name, weights in heads.items()}


def average_words(weights: Any, text: CutText) -> Any:
    """The mean attention of each word's tokens: (words, places)."""
    shares = text.shares / text.shares.sum(1, keepdims=True)
    return shares @ weights[: len(text.tokens)]


def record_boxes(page: Path, noun: str, split: Split | None, done: BoxReport) -> None:
    """Put a row for each class of words into the page of results."""
    run = open_run(noun)
    assert run is not None
    seconds, steps = count_training(run)
    packed = "" if done.precision == "fp32" else f", {done.precision}"
    for name, score in done.classes.items():
        row = {
            "words": f"{Path(run.folder).name}{packed}: {name}",
            "count": f"{score.words:,}",
            "model": name_model(noun),
            "trained": f"{seconds / 60:.1f} min, {steps:,} steps",
            "attention in the box": f"{score.inside.value:.1%} ({score.inside.low:.1%} to {score.inside.high:.1%})",
            "uniform": f"{score.uniform:.1%}",
            "times uniform": f"{score.gain:.2f}",
            "pointing": f"{score.pointing.value:.1%}",
            "split": f"{split or choose_split(run)}, {done.captions:,} captions",
            "machine": machine(),
            "command": f"`regard align RUN{'' if split is None else f' --split {split}'}"
            f"{spell_precision(done.precision)}`",
        }
        record(page, "Attention in the boxes of what words speak of: scenes", row)
