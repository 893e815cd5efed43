"""Measures: right on cases that can be worked out by hand, and intervals that mean what they say."""

from __future__ import annotations

import json
import math
import time

import numpy as np
import pytest
from numpy.typing import NDArray

from regard.cli.evaluate import show_measures
from regard.errors import InputError
from regard.tasks.measures import Measure, measure_labels, measure_parts, ratio, tables

NAMES = ["noun", "verb", "other", "never"]
GOLD = [0, 0, 0, 1, 1, 2]
GUESSES = [0, 0, 1, 1, 0, 2]


def guessed(count: int, labels: int, seed: int, right: float = 0.8) -> tuple[list[int], list[int]]:
    """Gold labels of uneven frequency, and guesses of which a share is right."""
    chance = np.random.default_rng(seed)
    gold = np.minimum(chance.geometric(0.3, count) - 1, labels - 1)
    return gold.tolist(), np.where(chance.random(count) < right, gold, chance.integers(labels, size=count)).tolist()


def width(found: Measure) -> float:
    return found.high - found.low


def accuracy(gold: list[int], guesses: list[int], groups: list[int] | None = None, seed: int = 0) -> Measure:
    found = measure_labels(gold, guesses, [str(number) for number in range(50)], groups, seed)
    return Measure(found["accuracy"], found["accuracy_low"], found["accuracy_high"])


def test_a_small_case_comes_out_as_by_hand() -> None:
    found = measure_labels(GOLD, GUESSES, NAMES)
    assert found["accuracy"] == pytest.approx(4 / 6)
    assert found["macro_f1"] == pytest.approx((2 / 3 + 1 / 2 + 1) / 3)
    assert found["count"] == 6
    assert found["labels"]["noun"] == pytest.approx({"precision": 2 / 3, "recall": 2 / 3, "f1": 2 / 3, "count": 3})
    assert found["labels"]["verb"] == pytest.approx({"precision": 1 / 2, "recall": 1 / 2, "f1": 1 / 2, "count": 2})
    assert found["confusion"] == {"labels": ["noun", "verb", "other"], "counts": [[2, 1, 0], [1, 1, 0], [0, 0, 1]]}
    assert json.loads(json.dumps(found)) == found


def test_a_label_that_is_only_guessed_counts_and_one_that_never_occurs_does_not() -> None:
    found = measure_labels([0, 0, 0], [0, 0, 3], NAMES)
    assert found["labels"]["never"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "count": 0}
    assert found["macro_f1"] == pytest.approx((0.8 + 0) / 2)
    assert set(found["labels"]) == {"noun", "never"}


@pytest.mark.parametrize("grouped", [False, True])
def test_every_measure_equals_that_of_a_plain_loop(grouped: bool) -> None:
    gold, guesses = guessed(400, 9, seed=1)
    found = measure_labels(
        gold, guesses, [str(number) for number in range(9)], [n // 7 for n in range(400)] if grouped else None
    )
    pairs = list(zip(gold, guesses, strict=True))
    scores = []
    for label in sorted({*gold, *guesses}):
        right = sum(one == other == label for one, other in pairs)
        missed = sum(one == label != other for one, other in pairs)
        wrong = sum(other == label != one for one, other in pairs)
        scores.append(2 * right / (2 * right + missed + wrong))
        told = found["labels"][str(label)]
        assert told["count"] == right + missed
        assert told["precision"] == pytest.approx(right / (right + wrong) if right + wrong else 0)
        assert told["recall"] == pytest.approx(right / (right + missed) if right + missed else 0)
        assert told["f1"] == pytest.approx(scores[-1])
    assert found["accuracy"] == pytest.approx(sum(one == other for one, other in pairs) / 400)
    assert found["macro_f1"] == pytest.approx(sum(scores) / len(scores))


def test_every_measure_equals_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics", exc_type=ImportError)
    gold, guesses = guessed(400, 9, seed=2)
    found = measure_labels(gold, guesses, [str(number) for number in range(9)])
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(gold, guesses))
    assert found["macro_f1"] == pytest.approx(metrics.f1_score(gold, guesses, average="macro", zero_division=0))
    assert found["confusion"]["counts"] == metrics.confusion_matrix(gold, guesses).tolist()


def test_resampling_counts_equals_resampling_items() -> None:
    gold, guesses = guessed(60, 5, seed=3)
    sentences = [number // 6 for number in range(60)]
    found = measure_labels(gold, guesses, [str(number) for number in range(5)], sentences, seed=7)
    drawn, values = np.random.default_rng(7).integers(10, size=(1000, 10)), []
    for resample in drawn:
        items = [n for sentence in resample for n in range(60) if sentences[n] == sentence]
        values.append(macro_f1([gold[n] for n in items], [guesses[n] for n in items]))
    assert [found["macro_f1_low"], found["macro_f1_high"]] == pytest.approx(np.percentile(values, (2.5, 97.5)))


def macro_f1(gold: list[int], guesses: list[int]) -> float:
    scores = []
    for label in {*gold, *guesses}:
        right = sum(one == other == label for one, other in zip(gold, guesses, strict=True))
        scores.append(2 * right / (gold.count(label) + guesses.count(label)))
    return sum(scores) / len(scores)


@pytest.mark.parametrize("seed", range(5))
def test_an_interval_holds_its_value_and_is_the_same_for_the_same_seed(seed: int) -> None:
    gold, guesses = guessed(30, 12, seed)  # most labels are rare
    found = measure_labels(gold, guesses, [str(number) for number in range(12)], seed=seed)
    for name in ("accuracy", "macro_f1"):
        assert 0 <= found[f"{name}_low"] <= found[name] <= found[f"{name}_high"] <= 1
        assert found[f"{name}_low"] < found[f"{name}_high"]
    assert measure_labels(gold, guesses, [str(number) for number in range(12)], seed=seed) == found


def test_an_interval_shrinks_with_the_root_of_the_data() -> None:
    few, many = (width(accuracy(*guessed(count, 3, seed=4))) for count in (200, 3200))
    assert few / many == pytest.approx(4, rel=0.25)


def test_the_interval_of_an_accuracy_holds_the_truth_in_about_95_of_100_cases() -> None:
    chance = np.random.default_rng(0)
    hits = 0
    for case in range(300):
        found = accuracy([0] * 150, (chance.random(150) > 0.7).astype(int).tolist(), seed=case)
        hits += found.low <= 0.7 <= found.high
    assert 0.91 <= hits / 300 <= 0.98


def test_words_that_are_wrong_together_make_a_wider_interval_by_sentence() -> None:
    chance = np.random.default_rng(5)
    right = np.repeat(chance.random(100) < 0.8, 10)  # all ten words of a sentence, or none
    sentences = [number // 10 for number in range(1000)]
    by_word = accuracy([0] * 1000, (~right).astype(int).tolist())
    by_sentence = accuracy([0] * 1000, (~right).astype(int).tolist(), sentences)
    assert by_sentence.value == by_word.value
    assert width(by_sentence) / width(by_word) == pytest.approx(math.sqrt(10), rel=0.2)


def test_the_numbers_of_sentences_need_not_be_dense_or_in_order() -> None:
    gold, guesses = guessed(60, 4, seed=6)
    dense = [number // 6 for number in range(60)]
    assert accuracy(gold, guesses, [10 * number - 30 for number in dense]) == accuracy(gold, guesses, dense)
    assert accuracy(gold[::-1], guesses[::-1], dense[::-1]) == accuracy(gold, guesses, dense)


def losses(count: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    chance = np.random.default_rng(seed)
    counts = chance.integers(3, 30, count)
    return np.array([chance.exponential(2.0, length).sum() for length in counts]), counts


def test_a_ratio_is_that_of_the_sums_and_holds_the_truth_in_about_95_of_100_cases() -> None:
    hits = 0
    for case in range(300):
        sums, counts = losses(50, case)
        found = ratio(sums.tolist(), counts.tolist(), case)
        assert found.value == pytest.approx(sums.sum() / counts.sum())
        hits += found.low <= 2.0 <= found.high
    assert 0.90 <= hits / 300 <= 0.98


def test_sentences_in_which_nothing_is_counted_change_no_ratio() -> None:
    sums, counts = (part.tolist() for part in losses(20, seed=1))
    assert ratio([*sums, 0.0, 0.0], [*counts, 0, 0]) == ratio(sums, counts)


def test_drawing_a_piece_at_a_time_equals_drawing_all_at_once() -> None:
    sums, counts = losses(6000, seed=2)  # 1000 times as many are more than are drawn at a time
    found = ratio(sums.tolist(), counts.tolist(), seed=3)
    drawn = np.random.default_rng(3).integers(6000, size=(1000, 6000))
    values = sums[drawn].sum(1) / counts[drawn].sum(1)
    assert [found.low, found.high] == pytest.approx(np.percentile(values, (2.5, 97.5)))


def test_25000_tags_are_measured_in_less_than_two_seconds() -> None:
    gold, guesses = guessed(25_000, 50, seed=8)
    names = [str(number) for number in range(50)]
    times = []
    for groups in ([number * 2000 // 25_000 for number in range(25_000)], None):
        before = time.process_time()
        measure_labels(gold, guesses, names, groups)
        times.append(time.process_time() - before)
    assert max(times) < 2


@pytest.mark.parametrize(
    ("gold", "guesses", "names", "groups", "message"),
    [
        ([0, 1], [0], NAMES, None, "2 gold labels and 1 guesses"),
        ([], [], NAMES, None, "no labels"),
        ([0, 4], [0, 1], NAMES, None, "0 to 3 here, and there are 0 to 4"),
        ([0, 1], [0, -1], NAMES, None, "0 to 3 here, and there are -1 to 1"),
        ([0, 1], [0, 1], ["a", "a"], None, "2 labels, and only 1 different"),
        ([0, 1], [0, 1], NAMES, [0], "1 groups for 2 labels"),
    ],
)
def test_labels_that_do_not_fit_together_are_refused(
    gold: list[int], guesses: list[int], names: list[str], groups: list[int] | None, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        measure_labels(gold, guesses, names, groups)


@pytest.mark.parametrize(
    ("sums", "counts", "message"),
    [
        ([1.0], [1, 2], "1 sums and 2 counts"),
        ([0.0], [0], "all counts are 0"),
        ([math.inf], [1], "finite"),
        ([1.0], [-1], "not below 0"),
    ],
)
def test_sums_that_make_no_mean_are_refused(sums: list[float], counts: list[float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ratio(sums, counts)


def test_tables_stand_in_columns() -> None:
    assert tables(measure_labels(GOLD, GUESSES, ["noun", "動詞", "x\x1b[2J", "never"])) == [
        "label  precision  recall      f1  count",
        "noun       66.7%   66.7%   66.7%      3",
        "動詞       50.0%   50.0%   50.0%      2",
        "x�[2J     100.0%  100.0%  100.0%      1",
        "",
        "is \\ guessed  noun  動詞  x�[2J",
        "noun             2     1      ·",
        "動詞             1     1      ·",
        "x�[2J            ·     ·      1",
    ]


def test_of_many_labels_the_most_confused_pairs_are_shown() -> None:
    gold = [*range(20), *[3] * 9, *[5] * 4]
    guesses = [*range(20), *[4] * 9, *[6] * 4]
    lines = tables(measure_labels(gold, guesses, [f"label {number}" for number in range(20)]))
    assert lines[-3:] == [
        "is       guessed  count  share",
        "label 3  label 4      9  90.0%",
        "label 5  label 6      4  80.0%",
    ]
    perfect = tables(measure_labels(gold, gold, [f"label {number}" for number in range(20)]))
    assert perfect[-1] == "no label was taken for another"
    mixed = tables(measure_labels(*guessed(2000, 20, seed=9), [f"label {number}" for number in range(20)]))
    assert mixed[-1].startswith("and ") and mixed[-1].endswith(" more pairs")


def test_parts_count_alike_whatever_their_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    samples = [{"part": "qa10"}, {"part": "qa10"}, {"part": "qa10"}, {"part": "qa2"}, {}]
    found = measure_parts(samples, [0, 1, 1, 0, 0], [0, 1, 0, 1, 0])
    assert list(found["by_part"].items()) == [("qa2", 0.0), ("qa10", pytest.approx(2 / 3))]
    assert found["mean_of_parts"] == pytest.approx(1 / 3)
    assert measure_parts([{}], [0], [0]) == {}
    show_measures(found, as_json=False)
    assert "part      qa10  66.7%" in capsys.readouterr().out
