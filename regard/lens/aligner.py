"""An aligner: a translator, the head that was chosen of it, and the table of tokens that it links again and again.

`auto` chooses without gold links. Its criterion is `measure_consistency`: of all heads, means of layers and steps, the
one whose links tell the most of the target's tokens, on a thousand pairs. On the built-in corpus the order that it
gives is nearly that of the alignment error rate, and its first is the best (docs/results.md; tests/cli/test_align.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from regard.decode.translator import Translator
from regard.errors import InputError
from regard.host.meter import SILENT, Meter
from regard.lens.alignment import (
    CutText,
    HeadChoice,
    Step,
    TokenPair,
    Weights,
    list_choices,
    list_layers,
    merge_words,
    watch_pairs,
)
from regard.lens.lexical import LinkTable, learn_table, measure_consistency
from regard.lens.links import Link, Links, Symmetry, symmetrize, turn_links

SAMPLE = 1000  # pairs that a head is chosen by
WINDOW = 1024  # pairs whose weights are held at once
Join = Literal["none"] | Symmetry
JOINS: tuple[str, ...] = ("none", *get_args(Symmetry))


@dataclass(frozen=True)
class HeadCandidate:
    """What could be taken, and how consistent its links are."""

    choice: HeadChoice
    consistency: float


@dataclass
class Aligner:
    """A translator that links words, by one choice of its weights."""

    translator: Translator
    candidates: list[HeadCandidate]  # the best first
    table: LinkTable | None = None  # None: attention alone

    @property
    def choice(self) -> HeadChoice:
        return self.candidates[0].choice

    def weigh(self, pairs: Sequence[TokenPair]) -> list[Weights]:
        """The weights between the tokens of each pair: (target tokens, source tokens)."""
        found = watch_choice(self.translator, pairs, self.choice)
        if self.table is None:
            return found
        return [self.table.sharpen(each, pair) for each, pair in zip(found, pairs, strict=True)]

    def weigh_words(self, pairs: Sequence[tuple[CutText, CutText]]) -> list[Weights]:
        """The weights between the words of each pair: (target words, source words)."""
        found = self.weigh([(source.tokens, target.tokens) for source, target in pairs])
        return [merge_words(each, *pair) for each, pair in zip(found, pairs, strict=True)]


def watch_choice(translator: Translator, pairs: Sequence[TokenPair], choice: HeadChoice) -> list[Weights]:
    """What one choice takes of each pair; no other layer is watched."""
    layers = list_layers(translator)
    wanted = layers if choice.layer is None else {choice.layer: layers[choice.layer]}
    found = {n: choice.take(look) for n, look in watch_pairs(translator, pairs, wanted)}
    return [found[n] for n in range(len(pairs))]


def make_aligner(
    translator: Translator,
    pairs: Sequence[TokenPair],
    head: str = "auto",
    step: Literal["auto"] | Step = "auto",
    lexical: bool = True,
    meter: Meter = SILENT,
) -> Aligner:
    """An aligner from pairs to learn from, which fit the model: they choose a head, where it isn't told, and make the
    table, unless `lexical` is off.
    """
    layers = list_layers(translator)
    sample = pairs[:: max(1, len(pairs) // SAMPLE)][:SAMPLE]
    looks: dict[HeadChoice, list[Weights]] = {}
    with meter.watch("choosing a head, pairs", len(sample)) as advance:
        order = list[int]()
        for n, look in watch_pairs(translator, sample, layers):
            order.append(n)
            for choice in read_head(head, {layer: len(weights) for layer, weights in look.items()}):
                if step in ("auto", choice.step):
                    looks.setdefault(choice, []).append(choice.take(look).copy())
            advance()
    ordered = [sample[n] for n in order]
    candidates = [HeadCandidate(choice, measure_consistency(ordered, looks[choice])) for choice in looks]
    candidates.sort(key=lambda candidate: -candidate.consistency)
    aligner = Aligner(translator, candidates)
    if lexical:
        weights = list[Weights]()
        with meter.watch("learning which words belong together, pairs", len(pairs)) as advance:
            for first in range(0, len(pairs), WINDOW):
                weights += watch_choice(translator, pairs[first : first + WINDOW], aligner.choice)
                advance(min(WINDOW, len(pairs) - first))
            aligner.table = learn_table(pairs, weights)
    return aligner


def read_head(text: str, heads: Mapping[int, int]) -> list[HeadChoice]:
    """What a user means by `auto`, `mean`, `LAYER` or `LAYER.HEAD`, of layers with so many heads; at both steps."""
    if text == "auto":
        return list_choices(heads)
    if text == "mean":
        return [HeadChoice(None, None, step) for step in get_args(Step)]
    found = re.fullmatch(r"(\d+)(?:\.(\d+))?", text)
    layer, head = (int(found[1]), None if found[2] is None else int(found[2])) if found else (-1, None)
    if layer not in heads or (head is not None and head >= heads[layer]):
        there = ", ".join(f"{number} ({count} {'head' if count == 1 else 'heads'})" for number, count in heads.items())
        raise InputError(f"--head {text}: it has the layers {there}, counted from 0", "--head auto, mean, 0 or 0.0")
    return [HeadChoice(layer, head, step) for step in get_args(Step)]


def pick_rows(weights: Weights) -> Links:
    """Each target word linked to the source word with the most weight."""
    return frozenset((int(row.argmax()), there) for there, row in enumerate(weights) if row.size and row.max() > 0)


def pick_columns(weights: Weights) -> Links:
    """Each source word linked to the target word that gives it the most weight."""
    return turn_links(pick_rows(weights.T))


def link_words(forward: Weights, backward: Weights | None = None, how: Join = "grow-diag") -> Links:
    """Links from the weights between words: (target words, source words).

    `backward`: those of a model of the other direction, (source words, target words); without one the same weights are
    looked at from both sides, since a row finds one source word for each target word and a column one target word for
    each source word. `none`: rows alone.
    """
    links = pick_rows(forward)
    if how == "none":
        return links
    other: frozenset[Link] = pick_columns(forward) if backward is None else turn_links(pick_rows(backward))
    return symmetrize(links, other, how)
