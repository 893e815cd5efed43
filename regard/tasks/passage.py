"""Passages: stretches of text that language models are compared by, whatever their tokens are.

A document is cut into passages by its letters alone, so they are the same for every model. What a token costs belongs
to the passage, and to the word, that its last letter stands in.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from regard.data.tokenizer import Tokenizer
from regard.tasks.example import Example
from regard.tasks.measures import Numbers
from regard.tasks.scores import WORD, Portion, Portions, SampleScores
from regard.tasks.significance import Statistic

LETTERS = 500  # of a passage: about what a window of an evaluation goes on by
SHOWN = 160  # letters of a passage that an example shows


def score_passages(texts: Sequence[str], tokenizer: Tokenizer, lost: Sequence[Numbers], seconds: float) -> SampleScores:
    """What a language model made of documents, passage by passage; `lost`: nats of each token and of the end."""
    nats, tokens, sizes, before = list[float](), list[int](), list[int](), list[int]()
    words, examples = list[list[Portion]](), list[Example]()
    encodings = tokenizer.engine.encode_batch(list(texts), add_special_tokens=False)
    for text, encoding, costs in zip(texts, encodings, lost, strict=True):
        places = [max(begin, end - 1) for begin, end in encoding.offsets]
        # a token's place never goes back, and the end stands in the last passage
        at = np.maximum.accumulate(np.array([*places, max(0, len(text) - 1)], np.int64))
        for first, last in pairwise(cut_passages(text)):
            inside = slice(*np.searchsorted(at, (first, last)).tolist())
            passage = text[first:last]
            nats.append(float(costs[inside].sum()))
            tokens.append(len(costs[inside]))
            sizes.append(len(passage.encode()))
            before.append(first)
            words.append(_cost_words(text, first, last, at[inside], costs[inside]))
            bits = nats[-1] / math.log(2) / max(1, sizes[-1])
            examples.append(Example((passage[:SHOWN],), (), (f"{bits:.3f} bits a byte",)))
    bits_of = [value / math.log(2) for value in nats]
    return SampleScores(
        {
            "bits_per_byte": Statistic.mean(bits_of, sizes, rising=False),
            "loss": Statistic.mean(nats, tokens, rising=False, per_token=True),
        },
        examples,
        telling="bits_per_byte",
        seconds=seconds,
        sizes=before if any(before) else [len(text) for text in texts],
        size_name="letters before it" if any(before) else "letters of the document",
        portions={"words": Portions("bits of a word", False, words)},
    )


def cut_passages(text: str) -> list[int]:
    """Where the passages of a text begin, and where the last one ends; between two words, if there are some."""
    bounds = [0]
    while bounds[-1] + LETTERS < len(text):
        near = text.rfind(" ", bounds[-1] + 1, bounds[-1] + LETTERS)
        bounds.append(bounds[-1] + LETTERS if near < 0 else near)
    return [*bounds, max(1, len(text))]


def _cost_words(text: str, first: int, last: int, places: Numbers, costs: Numbers) -> list[Portion]:
    """The bits of each word of a passage: what the tokens cost whose last letters stand in it."""
    spans = list(WORD.finditer(text, first, last))
    starts, bits = [found.start() for found in spans], [0.0] * len(spans)
    for place, cost in zip(places.tolist(), costs.tolist(), strict=True):
        n = bisect_right(starts, place) - 1
        if n >= 0 and place < spans[n].end():
            bits[n] += cost / math.log(2)
    return [Portion(found[0], cost, 1.0) for found, cost in zip(spans, bits, strict=True)]
