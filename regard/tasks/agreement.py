"""How well texts agree with several references each: BLEU-1 to BLEU-4 with brevity penalty (Papineni et al. 2002) by
sacreBLEU, CIDEr-D (Vedantam et al. 2015), and the share that equals one of its references to the letter.

BLEU and CIDEr-D look at words as the figures of the field do: in lower case, without punctuation, clitics apart, not
stemmed. Intervals are bootstraps over pictures, since the references of one picture aren't independent.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from regard.errors import InputError
from regard.tasks.measures import Measure, Numbers, enclose, ratio, resample
from regard.tasks.significance import Statistic

ORDERS = 4  # n-grams of one to four words
SIGMA = 6.0  # of the gaussian over differences of length
WORD = re.compile(r"n't\b|'(?:s|m|d|re|ve|ll)\b|\w+(?=n't\b)|\w+(?:[-/.,]\w+)*")
MANNER = "words:lower-case,no-punctuation"
CIDER = f"cider-d|n:1-{ORDERS}|sigma:6|idf:references|{MANNER}"

References = Sequence[Sequence[str]]  # of each text, one or several
Gram = tuple[str, ...]


def measure_agreement(texts: Sequence[str], references: References) -> dict[str, Any]:
    """Every measure of texts against their references, with intervals and signatures."""
    if len(texts) != len(references) or not texts or not all(references):
        counted = f"{len(texts)} texts and references for {len([some for some in references if some])}"
        raise InputError(f"{counted}: there must be a text, and each needs a reference")
    words = [cut_words(text) for text in texts]
    wanted = [[cut_words(text) for text in group] for group in references]
    scores, signature = measure_bleu(words, wanted)
    right = [float(text in group) for text, group in zip(texts, references, strict=True)]
    ones = [1] * len(texts)
    return {
        **{name: value for order, found in enumerate(scores, 1) for name, value in found.named(f"bleu{order}").items()},
        **ratio(score_consensus(words, wanted), ones).named("cider"),
        **ratio(right, ones).named("exact"),
        "distinct": float(len(set(texts))),  # captions that differ: a model that ignores its pictures has few
        "pictures": len(texts),
        "signatures": {"bleu4": signature, "cider": CIDER},
    }


def cut_words(text: str) -> list[str]:
    """The words of a text in lower case; punctuation is none, and "dog's" is two: "dog" and "'s"."""
    return WORD.findall(text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'"))


def measure_bleu(
    texts: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]
) -> tuple[list[Measure], str]:
    """BLEU-1 to BLEU-4 of all texts together, in percent, and the signature of the last."""
    from sacrebleu.metrics.bleu import BLEU

    lines = [" ".join(words) for words in texts]
    groups = [[" ".join(words) for words in group] for group in references]
    rows = count_matches(lines, groups)
    drawn = resample(np.arange(len(rows)), rows, 0)
    most = max(map(len, groups))
    streams = [[group[n] if n < len(group) else None for group in groups] for n in range(most)]
    found, signature = [], ""
    for order in range(1, ORDERS + 1):
        scorer = BLEU(lowercase=True, tokenize="none", max_ngram_order=order, force=True)
        value = scorer.corpus_score(lines, streams).score  # type: ignore[arg-type]  # None: there is no further one
        found.append(enclose(np.array([value]), bleu(drawn, order)))
        signature = f"{scorer.get_signature()}|{MANNER}"
    return found, signature


def count_matches(lines: Sequence[str], groups: References) -> Numbers:
    """What `bleu` needs of each text, cut into words by spaces; a text's own counts add up to those of all."""
    from sacrebleu.metrics.bleu import BLEU

    # the effective order only silences a warning here
    single = BLEU(lowercase=True, tokenize="none", effective_order=True)
    scores = [single.sentence_score(line, group) for line, group in zip(lines, groups, strict=True)]
    return np.array([[*one.counts, *one.totals, one.sys_len, one.ref_len] for one in scores], np.float64)


def score_agreement(texts: Sequence[str], references: References) -> dict[str, Statistic]:
    """BLEU-4, CIDEr-D and the share that is right to the letter, text by text, for comparisons."""
    words = [cut_words(text) for text in texts]
    wanted = [[cut_words(text) for text in group] for group in references]
    lines, groups = [" ".join(one) for one in words], [[" ".join(one) for one in group] for group in wanted]
    right = [float(text in group) for text, group in zip(texts, references, strict=True)]
    return {
        "bleu4": Statistic(count_matches(lines, groups), True, lambda sums: bleu(sums, ORDERS)),
        "cider": Statistic.mean(score_consensus(words, wanted), rising=True),
        "exact": Statistic.mean(right, rising=True),
    }


def bleu(sums: Numbers, order: int) -> Numbers:
    """BLEU in percent from sums of counts, smoothed as sacreBLEU does: (rows, 10) -> (rows,).

    A row has the matches of each order, the n-grams of each order, the length and that of the nearest references.
    """
    right, total = sums[:, :order], sums[:, ORDERS : ORDERS + order]
    length, nearest = sums[:, -2], sums[:, -1]
    missed = np.cumsum(right == 0, 1)  # each order without a match counts half as much as the one before
    share = np.where(right > 0, right, 0.5**missed) / np.maximum(total, 1)
    mean = np.exp(np.log(np.maximum(share, 1e-300)).mean(1))
    short = np.exp(np.minimum(0, 1 - nearest / np.maximum(length, 1e-300)))
    some = (total > 0).all(1) & (right > 0).any(1)
    return np.where(some, 100 * short * mean, 0.0)


def score_consensus(texts: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]) -> list[float]:
    """CIDEr-D of each text, 10 at the most: how much of it its references say that others' don't.

    An n-gram weighs what the logarithm of its rarity is among the pictures of this set, so values of different sets
    can't be compared.
    """
    counted = [[count_grams(words) for words in group] for group in references]
    spread = Counter(gram for group in counted for gram in set().union(*group))
    everything = math.log(len(references))
    rarity = {gram: everything - math.log(count) for gram, count in spread.items()}
    found = []
    for words, group in zip(texts, counted, strict=True):
        text = _weigh(count_grams(words), rarity, everything)
        found.append(10 * sum(_compare(text, _weigh(one, rarity, everything)) for one in group) / len(group))
    return found


def count_grams(words: Sequence[str]) -> Counter[Gram]:
    """How often each n-gram of one to four words is there."""
    return Counter(tuple(words[n : n + size]) for size in range(1, ORDERS + 1) for n in range(len(words) - size + 1))


class GramWeights(list[dict[Gram, float]]):
    """What the n-grams of a text weigh, order by order."""

    bigrams = 0  # its length, as the published code takes it


def _weigh(counts: Mapping[Gram, int], rarity: Mapping[Gram, float], unknown: float) -> GramWeights:
    found = GramWeights({} for _ in range(ORDERS))
    for gram, count in counts.items():
        found[len(gram) - 1][gram] = count * rarity.get(gram, unknown)
        found.bigrams += count if len(gram) == 2 else 0
    return found


def _compare(text: GramWeights, reference: GramWeights) -> float:
    """The mean over the orders of a cosine whose matches are clipped, times a gaussian of the lengths' difference."""
    near = math.exp(-((text.bigrams - reference.bigrams) ** 2) / (2 * SIGMA**2))
    return near * sum(_cosines(text, reference)) / ORDERS


def _cosines(text: GramWeights, reference: GramWeights) -> Iterator[float]:
    for ours, theirs in zip(text, reference, strict=True):
        shared = sum(min(weight, theirs[gram]) * theirs[gram] for gram, weight in ours.items() if gram in theirs)
        sizes = math.hypot(*ours.values()) * math.hypot(*theirs.values())
        yield shared / sizes if sizes else 0.0
