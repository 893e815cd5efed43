"""Measures of captions: against plain loops, against sacreBLEU, and against what the published code says."""

from __future__ import annotations

import math
import random
from itertools import product

import numpy as np
import pytest

from regard.errors import InputError
from regard.tasks.agreement import bleu, cut_words, measure_agreement, measure_bleu, score_consensus

ANSWERS = ["A dog runs on the grass .", "two men play football", "a child's red sled, in snow!"]
REFERENCES = [
    ["a brown dog runs across the grass .", "a dog is running on grass", "The dog runs ."],
    ["Two men are playing football .", "men play a game"],
    ["A child rides a red sled in the snow .", "a child's sled", "snow and a red sled , and a child ."],
]


PUBLISHED_CIDER = [2.336765945864224, 2.321181150709265, 2.921592469392313]
PUBLISHED_BLEU = [0.9428731437439486, 0.7559803420838741, 0.4610031155723949]


def invent(chance: random.Random, pictures: int = 12) -> tuple[list[list[str]], list[list[list[str]]]]:
    def sentence() -> list[str]:
        return chance.choices(list("abcdef"), k=chance.randint(0, 9))

    return [sentence() for _ in range(pictures)], [
        [[*sentence(), "z"] for _ in range(chance.randint(1, 4))] for _ in range(pictures)
    ]


def consensus(texts: list[list[str]], references: list[list[list[str]]]) -> list[float]:
    """CIDEr-D from its formulas, with a dense vector over all n-grams that there can be."""

    def vector(words: list[str], grams: list[tuple[str, ...]], weights: np.ndarray) -> np.ndarray:
        size = len(grams[0])
        there = [tuple(words[n : n + size]) for n in range(len(words) - size + 1)]
        return np.array([there.count(gram) for gram in grams]) * weights

    letters = sorted({word for group in [texts, *references] for words in group for word in words})
    found = np.zeros(len(texts))
    for size in (1, 2, 3, 4):
        grams = (
            list(product(letters, repeat=size))
            if size < 4
            else sorted(
                {tuple(w[n : n + 4]) for group in [texts, *references] for w in group for n in range(len(w) - 3)}
            )
        )
        text_of = [[" " + " ".join(words) + " " for words in group] for group in references]
        spread = [sum(any(f" {' '.join(gram)} " in text for text in group) for group in text_of) for gram in grams]
        weights = np.log(len(texts) / np.maximum(1.0, spread))
        for n, (words, group) in enumerate(zip(texts, references, strict=True)):
            ours = vector(words, grams, weights)
            for reference in group:
                theirs = vector(reference, grams, weights)
                sizes = math.sqrt((ours @ ours) * (theirs @ theirs))
                cosine = np.minimum(ours, theirs) @ theirs / sizes if sizes else 0.0
                apart = max(0, len(words) - 1) - max(0, len(reference) - 1)
                found[n] += 10 / 4 * cosine * math.exp(-(apart**2) / 72) / len(group)
    return found.tolist()


@pytest.mark.parametrize("seed", range(3))
def test_consensus_equals_its_formulas(seed: int) -> None:
    texts, references = invent(random.Random(seed))
    assert score_consensus(texts, references) == pytest.approx(consensus(texts, references), abs=1e-12)


def test_the_published_code_gives_the_same_numbers() -> None:
    """Of pycocoevalcap 1.2 on these words. No four of them are right in a row, and only sacreBLEU smooths that."""
    words = [cut_words(text) for text in ANSWERS]
    references = [[cut_words(text) for text in group] for group in REFERENCES]
    assert score_consensus(words, references) == pytest.approx(PUBLISHED_CIDER, abs=1e-9)
    found = [measure.value for measure in measure_bleu(words, references)[0][:3]]
    assert found == pytest.approx([100 * share for share in PUBLISHED_BLEU], abs=1e-6)


def test_words_are_those_of_the_coco_tokenizer() -> None:
    assert cut_words("A man's dog doesn't run .") == ["a", "man", "'s", "dog", "does", "n't", "run"]
    assert cut_words("Two T-shirts, at 1,000 feet!") == ["two", "t-shirts", "at", "1,000", "feet"]
    assert cut_words("girl 's “ball”") == ["girl", "'s", "ball"]


@pytest.mark.parametrize("order", [1, 2, 4])
def test_bleu_of_sums_equals_sacrebleu(order: int) -> None:
    """What intervals are made of is what sacreBLEU says of such counts, where no n-gram is right too."""
    from sacrebleu.metrics.bleu import BLEU

    chance = np.random.default_rng(order)
    for _ in range(50):
        totals = np.sort(chance.integers(0, 9, 4))[::-1]
        counts = np.array([chance.integers(0, total + 1) for total in totals])
        length, nearest = int(totals[0]), int(chance.integers(1, 12))
        wanted = BLEU.compute_bleu(
            counts[:order].tolist(), totals[:order].tolist(), length, nearest, "exp", max_ngram_order=order
        ).score
        row = np.array([[*counts, *totals, length, nearest]], np.float64)
        assert bleu(row, order)[0] == pytest.approx(wanted, abs=1e-9)


def test_an_interval_holds_its_value_and_signatures_say_how() -> None:
    found = measure_agreement(ANSWERS, REFERENCES)
    for name in ("bleu1", "bleu2", "bleu3", "bleu4", "cider", "exact"):
        assert found[f"{name}_low"] <= found[name] <= found[f"{name}_high"]
    assert "case:lc" in found["signatures"]["bleu4"] and "nrefs:var" in found["signatures"]["bleu4"]
    assert found["pictures"] == 3 and found["distinct"] == 3


def test_exact_is_to_the_letter_and_with_any_reference() -> None:
    found = measure_agreement(["a b", "a b", "A b"], [["c", "a b"], ["c"], ["a b"]])
    assert found["exact"] == pytest.approx(1 / 3) and found["distinct"] == 2


def test_what_nothing_can_be_said_of_is_refused() -> None:
    with pytest.raises(InputError, match="each needs a reference"):
        measure_agreement(["a"], [[]])
    with pytest.raises(InputError, match="0 texts"):
        measure_agreement([], [])
