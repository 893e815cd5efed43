"""Word alignments from attention: which word of the source each word of a given translation belongs to.

The model reads pairs of texts, teacher-forced, and only the weights that are asked for are watched. Weights are between
pieces; what a source word's pieces get is added, what a target word's pieces give is averaged. A decoder looks twice
in the neighbourhood of a target word: at the step that writes it, when the word isn't known yet, and at the next one,
which reads it. Which of the two shows the alignment differs from model to model (Chen et al. 2020), so both are
candidates, for each head, for the mean of each layer and for that of all layers.

What attention can tell is where the model looked, not which words mean the same: a word that is written by looking at
its neighbour is linked to that neighbour.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from regard.core.inputs import Inputs
from regard.core.model import Model
from regard.core.probe import Record
from regard.data.tokenizer import Tokenizer
from regard.decode.translator import Translator
from regard.errors import InputError

Weights = NDArray[np.float32]
Step = Literal["writing", "reading"]
STEPS: tuple[Step, ...] = ("writing", "reading")
Tokens = Sequence[int]
TokenPair = tuple[Tokens, Tokens]  # source, target
CELLS = 1 << 24  # weights that are watched at once: 64 MB
ROWS = 64  # sentences that are read at once, if they are short


@dataclass(frozen=True)
class WordedText:
    """A text, and where its words begin and end."""

    text: str
    spans: tuple[tuple[int, int], ...]

    @classmethod
    def split(cls, text: str) -> WordedText:
        """The words that spaces divide: links in files count those."""
        return cls(text, tuple(found.span() for found in re.finditer(r"[^ \t\r\n\f\v]+", text)))

    @classmethod
    def locate(cls, text: str, words: Sequence[str]) -> WordedText:
        """Words that stand in a text one after the other, with spaces between them or without."""
        spans, end = list[tuple[int, int]](), 0
        for word in words:
            begin = text.find(word, end)
            if begin < 0:
                raise InputError(f"{word!r} doesn't stand in {text!r} after its first {end} letters")
            end = begin + len(word)
            spans.append((begin, end))
        return cls(text, tuple(spans))

    @property
    def words(self) -> list[str]:
        return [self.text[begin:end] for begin, end in self.spans]


@dataclass(frozen=True)
class CutText:
    """A text's tokens, and which share of each belongs to each word: (words, tokens)."""

    tokens: list[int]
    shares: Weights


def cut_text(tokenizer: Tokenizer, given: WordedText) -> CutText:
    """Cut a text into tokens that know their words.

    A token is its word's by the letters that it covers, whatever the tokenizer made of them. One that covers letters
    of several words is shared evenly; one that covers none, a space, belongs to the word that follows.
    """
    offsets = tokenizer.engine.encode(given.text, add_special_tokens=False).offsets
    starts = [begin for begin, _ in given.spans]
    shares = np.zeros((len(starts), len(offsets)), np.float32)
    for token, (begin, end) in enumerate(offsets):
        letters = [place for place in range(begin, end) if not given.text[place].isspace()]
        places = [bisect_right(starts, place) - 1 for place in letters] or [bisect_left(starts, end)]
        owners = {min(max(0, place), len(starts) - 1) for place in places} if starts else set()
        for owner in owners:
            shares[owner, token] = 1 / len(owners)
    return CutText(tokenizer.encode([given.text])[0], shares)


def merge_words(weights: Weights, source: CutText, target: CutText) -> Weights:
    """Weights between words from weights between tokens: (target words, source words)."""
    counts = target.shares.sum(1, keepdims=True)
    rows = target.shares / np.maximum(counts, np.finfo(np.float32).tiny)  # a word without a token looks at nothing
    return np.asarray(rows @ weights @ source.shares.T, np.float32)


@dataclass(frozen=True)
class HeadChoice:
    """Whose weights are taken, one head's or a mean, and at which step of the decoder."""

    layer: int | None  # None: the mean of all layers
    head: int | None  # None: the mean of all heads
    step: Step

    @property
    def name(self) -> str:
        """As it is typed: mean, 2, 2.3."""
        if self.layer is None:
            return "mean"
        return str(self.layer) if self.head is None else f"{self.layer}.{self.head}"

    def take(self, look: Mapping[int, Weights]) -> Weights:
        """The weights of one pair: (target tokens, source tokens), from those of each layer."""
        chosen = list(look) if self.layer is None else [self.layer]
        means = [look[layer].mean(0) if self.head is None else look[layer][self.head] for layer in chosen]
        whole: Weights = means[0] if len(means) == 1 else np.mean(means, 0)
        return whole[:-1] if self.step == "writing" else whole[1:]


def list_layers(translator: Translator) -> dict[int, str]:
    """The names under which each layer's attention over the source is seen, by the number of its block."""
    model = translator.model
    if not isinstance(model, Model):
        raise InputError("an ensemble has several attentions", "one run at a time")
    names = model.alignments
    if model.encoder is None:  # it reads source and target in one, so it looks at the source among its own text
        names = tuple(f"{mixer.path}.weights" for mixer in model.mixers if "weights" in mixer.names)
    if not names:
        told = translator.unseeing or "this model has no attention"
        raise InputError(told, "a model that attends: luong, bahdanau, transformer-tiny, …")
    return {_number_block(name): name for name in names}


def _number_block(name: str) -> int:
    found = re.search(r"\bblocks\.(\d+)\.", name)
    assert found is not None, name
    return int(found[1])


def list_choices(heads: Mapping[int, int], layer: int | None = None, head: int | None = None) -> list[HeadChoice]:
    """All that can be taken of layers with so many heads, at both steps; of one layer or head where it is told."""
    pairs: list[tuple[int | None, int | None]] = []
    for number, count in heads.items():
        if layer in (None, number):
            pairs += [(number, one) for one in range(count) if count > 1 and head in (None, one)]
            pairs += [(number, None)] if head is None or count == 1 else []
    if layer is None and len(heads) > 1:
        pairs.append((None, None))
    return [HeadChoice(*pair, step) for step in STEPS for pair in pairs]


def find_excess(translator: Translator, pair: TokenPair) -> str:
    """Why a pair is too long for the model, or has nothing to link; empty where neither."""
    source, target = pair
    if not source or not target:
        return f"the {'target' if source else 'source'} is empty"
    limits = translator.model.spec.limits() if isinstance(translator.model, Model) else {}
    if isinstance(translator.model, Model) and translator.model.encoder is None:
        taken = {"decoder": len(source) + len(target) + 1}
    else:
        taken = {"encoder": len(translator.read(list(source))), "decoder": len(target) + 1}
    for side, size in taken.items():
        if side in limits and size > limits[side]:
            return f"{size} tokens, and its {side} has positions for {limits[side]}"
    return ""


@torch.no_grad()
def watch_pairs(
    translator: Translator, pairs: Sequence[TokenPair], layers: Mapping[int, str]
) -> Iterator[tuple[int, dict[int, Weights]]]:
    """Let a model read pairs; for each its number and each layer's weights: (heads, target tokens + 1, source tokens).

    The row before the first token is the step that writes it. Pairs of like length are read together, so they come
    in another order.
    """
    order = sorted(range(len(pairs)), key=lambda n: len(pairs[n][0]) + len(pairs[n][1]))
    model = translator.model
    assert isinstance(model, Model)
    while order:
        longest, group = max(len(pairs[order[-1]][0]), len(pairs[order[-1]][1])) + 2, list[int]()
        while order and len(group) < max(1, min(ROWS, CELLS // (longest * longest * 8 * len(layers)))):
            group.append(order.pop())
        record = Record(*layers.values())
        inputs, corners = _make_inputs(translator, [pairs[n] for n in group])
        model.features(replace(inputs.to(model.device), probe=record))
        arrays = {layer: record[name].float().cpu().numpy() for layer, name in layers.items()}
        for row, (n, (top, left)) in enumerate(zip(group, corners, strict=True)):
            bottom, right = top + len(pairs[n][1]) + 1, left + len(pairs[n][0])
            yield n, {layer: array[row, :, top:bottom, left:right] for layer, array in arrays.items()}


def _make_inputs(translator: Translator, pairs: Sequence[TokenPair]) -> tuple[Inputs, list[tuple[int, int]]]:
    """What the model reads, and where in its weights a pair's first step and first source token stand."""
    model = translator.model
    assert isinstance(model, Model)
    pad, opening = translator.target.pad, translator.generation.opening
    begin = [translator.begin] if opening is None else [translator.begin, opening]  # as the search lets it begin
    first = len(begin) - 1  # the step that writes the first token of the target
    if model.encoder is None:
        whole = [[*source, *begin, *target] for source, target in pairs]
        return Inputs.pad(whole, pad), [(len(source) + first, 0) for source, _ in pairs]
    frame = translator.source.frame if translator.foreign else None
    memory = Inputs.pad([translator.read(list(source)) for source, _ in pairs], translator.source.pad)
    targets = Inputs.pad([[*begin, *target] for _, target in pairs], pad)
    return replace(targets, memory=memory.to(model.device)), [(first, len(frame[0]) if frame else 0)] * len(pairs)
