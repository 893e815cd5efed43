"""Words and their patches: what the tables say, and that a training can be followed from checkpoint to checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.lab.apparatus.bench import Bench
from regard.lab.apparatus.experiment import Tables
from regard.lab.patches import CLASSES, COURSE, ROWS, WORDS, WordPatches, average_loss, tell_class, tell_moment
from regard.lens.boxes import ALL, BoxScore
from regard.tasks.measures import Measure


def make_tables(*shares: float, relation: float | None = None) -> Tables:
    """A course through shares of attention in boxes that take a tenth of the picture."""
    course, words = [], []
    for n, share in enumerate(shares):
        scores = {kind: make_score(share) for kind in (ALL, *CLASSES)}
        if relation is not None:
            scores["relation"] = make_score(relation)
        course.append(tell_moment(1000 * n, 3.0 - n, scores))
        words += [tell_class(1000 * n, kind, score) for kind, score in scores.items()]
    return {COURSE: course, WORDS: words}


def make_score(share: float) -> BoxScore:
    return BoxScore(Measure(share, share - 0.01, share + 0.01), 0.1, Measure(share, share, share), 50)


def test_attention_that_comes_to_the_boxes_is_shown() -> None:
    found = WordPatches().conclude(make_tables(0.1, 0.05, 0.4))
    assert found.shown
    assert "After 2,000 pictures, 40% of a word's attention" in found.sentence
    assert "4.0 times as much as by chance (1.0 times at the start, after a fall to 0.50 at 1,000)" in found.sentence


def test_attention_that_goes_elsewhere_is_not_shown() -> None:
    found = WordPatches().conclude(make_tables(0.1, 0.07, 0.02))
    assert not found.shown and "0.2 times as much as by chance" in found.sentence
    assert str(found).startswith("Not shown here: ")


def test_every_class_must_be_above_chance_beyond_its_interval() -> None:
    assert not WordPatches().conclude(make_tables(0.1, 0.4, relation=0.105)).shown
    assert WordPatches().conclude(make_tables(0.1, 0.4, relation=0.12)).shown


def test_plots_have_the_classes_and_what_chance_would_give() -> None:
    gains, shares, losses = WordPatches().draw(make_tables(0.1, 0.4))
    assert set(gains.series) == set(CLASSES)
    assert [point.value for point in gains.series["shape"]] == pytest.approx([1.0, 4.0])
    assert [point.value for guide in gains.guides.values() for point in guide] == [1.0, 1.0]
    assert [(point.low, point.high) for point in shares.series[ALL]][1] == pytest.approx((0.39, 0.41))
    assert [point.value for point in losses.series["loss"]] == [3.0, 2.0]


def test_a_loss_is_the_mean_of_the_steps_before() -> None:
    losses = [float(n) for n in range(1, 101)]
    assert average_loss(losses, 100) == sum(range(76, 101)) / 25
    assert average_loss(losses, 1) == 1.0


def test_a_training_is_followed_through_its_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: dict[object, object] = {(700, 100): (4, 2), 300: 12}
    monkeypatch.setattr(Bench, "choose", lambda bench, usual, full: sizes[usual])
    tables = WordPatches().measure(Bench(tmp_path))
    assert [row["pictures"] for row in tables[COURSE]] == [0, 2 * ROWS, 4 * ROWS]
    assert {row["words"] for row in tables[WORDS]} == {ALL, *CLASSES}
    for row in tables[WORDS]:
        assert 0 < row["low"] <= row["inside"] <= row["high"] < 1
        assert row["times"] == pytest.approx(row["inside"] / row["uniform"])
    assert len({row["uniform"] for row in tables[COURSE]}) == 1  # the same held-out pictures each time
    assert 3 < tables[COURSE][0]["loss"] < 4.5  # as one who guesses among some forty words
    WordPatches().conclude(tables)
