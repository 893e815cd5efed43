"""What experiments ask of translators: what they write, which sentences they get right, and where they look."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.core.model import Model
from regard.core.probe import Edit
from regard.data.batches import Batch, make_batch
from regard.data.corpus import Split
from regard.data.reader import Pair
from regard.decode.translator import Translator
from regard.errors import RegardWarning
from regard.lens.links import AlignmentScore
from regard.runs.align import AlignmentReport, AlignmentSettings, HeadScore, align
from regard.runs.evaluate import TestSet, evaluate
from regard.runs.folder import Run
from regard.tasks.entropy import losses
from regard.tasks.translation import list_pairs, predict

ROWS = 64  # sentences that are read at once


@dataclass(frozen=True)
class Translated:
    """What a run wrote for the sentences of a split, and every measure of it."""

    pairs: Sequence[Pair]
    texts: Sequence[str]
    measures: Mapping[str, Any]


def translate_split(run: Run, split: Split = "test") -> Translated:
    """Let a run translate a split that it kept, by the likeliest word at each step."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RegardWarning)  # young models write without end, which their measures show
        done = evaluate([str(run.folder)], TestSet(split=split), {"beam": 1})
    assert done.texts is not None
    return Translated(list_pairs(run.prepared().samples(split)), done.texts, done.measures)


@dataclass(frozen=True)
class Answers:
    """How a model reads given translations: a value for each pair."""

    losses: Tensor  # nats, the sum over the target's tokens
    sizes: Tensor  # tokens of the target, with its end
    right: Tensor  # whether each token of the reference is the likeliest, given those before it

    @property
    def loss(self) -> float:
        """Nats a token."""
        return float(self.losses.sum() / self.sizes.sum())

    @property
    def exact(self) -> float:
        """The share of references that a greedy search would write token by token."""
        return float(self.right.double().mean())


@torch.no_grad()
def answer_pairs(translator: Translator, pairs: Sequence[Pair], edit: Edit | None = None) -> Answers:
    """Loss and exact match of each pair in one pass, without a search; under an edit, such as a head that is cut.

    A greedy search writes the reference if and only if each of its tokens is the likeliest after those before it; so
    exact match can be counted while the model reads the reference, which is many times quicker than writing.
    """
    assert isinstance(translator.model, Model)
    nats, sizes, right = (torch.zeros(len(pairs), dtype=torch.float64) for _ in range(3))
    order = sorted(range(len(pairs)), key=lambda n: len(pairs[n][1]))
    with translator.model.watch(Edit({}) if edit is None else edit):
        for first in range(0, len(order), ROWS):
            group = order[first : first + ROWS]
            found = predict(translator.model, batch_pairs(translator, [pairs[n] for n in group]), translator.target)
            lost = losses(found.factors, found.targets).split(found.sizes)
            best = (found.factors.table().argmax(-1) == found.targets).split(found.sizes)
            for n, part, hits in zip(group, lost, best, strict=True):
                nats[n], sizes[n], right[n] = part.double().sum(), len(part), bool(hits.all())
    return Answers(nats, sizes, right.bool())


def batch_pairs(translator: Translator, pairs: Sequence[Pair]) -> Batch:
    """Pairs of texts as a model reads them."""
    source, target = translator.source, translator.target
    sources, targets = source.encode([pair[0] for pair in pairs]), target.encode([pair[1] for pair in pairs])
    return make_batch(sources, targets, source.pad, target.begin, target.end)


def link_split(noun: str, split: Split = "test") -> AlignmentReport:
    """The links of attention alone, each target word with the source word that gets the most weight.

    The head is the one whose links are the most consistent, which needs no gold links; each head's error is measured
    too.
    """
    settings = AlignmentSettings(join="none", lexical=False, learn=0)  # chosen on the same texts, without their links
    return align(noun, settings=settings, split=split, compare=True)


def list_head_scores(report: AlignmentReport) -> dict[tuple[int, int], AlignmentScore]:
    """How each single head links words, by layer and number, at the step where its links are the more consistent."""
    found: dict[tuple[int, int], HeadScore] = {}
    for each in report.heads:
        layer, head = each.candidate.choice.layer, each.candidate.choice.head
        if layer is None or head is None:  # a mean of several
            continue
        known = found.get((layer, head))
        if known is None or each.candidate.consistency > known.candidate.consistency:
            found[layer, head] = each
    return {place: each.score for place, each in sorted(found.items()) if each.score is not None}
