"""The share of operations that wait, against counting by hand; times of equal work, and what they say."""

from __future__ import annotations

from typing import Any

import pytest

from regard.lab import parallel
from regard.lab.apparatus.experiment import Tables
from regard.lab.apparatus.lineup import LINEUP
from regard.lab.parallel import GROWTH, TIMES, Parallel, compare_ends, share_waiting, time_lengths


@pytest.mark.parametrize("length", [4, 16])
def test_all_of_a_recurrence_waits_and_little_of_attention(length: int) -> None:
    assert share_waiting(LINEUP["RNN"], length) == 1.0
    assert share_waiting(LINEUP["attention"], length) == pytest.approx(1 / length)
    assert share_waiting(LINEUP["mean pooling"], length) == pytest.approx(1 / length)


def test_two_operations_of_a_position_of_mamba_wait() -> None:
    """Its scan is a product and a sum; all else is done for all positions at once."""
    one, some = share_waiting(LINEUP["Mamba"], 1), share_waiting(LINEUP["Mamba"], 16)
    few = share_waiting(LINEUP["Mamba"], 8)
    assert one == 1.0
    operations = 2 * (16 - 8) / (16 * some - 8 * few)  # of one position
    assert operations == pytest.approx(round(operations)) and operations > 10


def test_the_work_is_the_same_at_every_length() -> None:
    names = ("RNN", "mean pooling")
    rows = time_lengths({name: LINEUP[name] for name in names}, (4, 8, 16), work=32, rounds=1)
    assert [row["batch"] * row["length"] for row in rows] == [32] * 6
    assert all(row["forward ms"] > 0 and row["training ms"] > 0 for row in rows)


def test_who_is_too_slow_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "PATIENCE", 0.0)
    rows = time_lengths({"mean pooling": LINEUP["mean pooling"]}, (4, 8), work=8, rounds=1)
    assert [row["length"] for row in rows] == [4]


def make_tables(recurrent: float) -> Tables:
    speeds = {"RNN": recurrent, "LSTM": recurrent, "GRU": 30.0, "convolution": 1.1, "mean pooling": 1.0}
    speeds["attention"] = 8.0
    times: list[dict[str, Any]] = [
        {"mixer": name, "length": length, "batch": 64 // length, "forward ms": growth, "training ms": 2 * growth}
        for name, speed in speeds.items()
        for length, growth in ((16, 1.0), (64, speed))
    ]
    return {GROWTH: compare_ends(times, dict.fromkeys(speeds, 0.5) | {"RNN": 1.0}), TIMES: times}


def test_the_conclusion_compares_loops_with_what_is_done_at_once() -> None:
    found = Parallel().conclude(make_tables(3.0))
    assert found.shown
    assert "RNN 3.0, LSTM 3.0, GRU 30.0 times as long, and convolution 1.1 and mean pooling 1.0" in found.sentence
    assert "100 % of the RNN's" in found.sentence
    assert not Parallel().conclude(make_tables(1.05)).shown


def test_times_and_shares_are_drawn() -> None:
    training, forward, waits = Parallel().draw(make_tables(3.0))
    assert [point.value for point in training.series["RNN"]] == [2.0, 6.0]
    assert [point.value for point in forward.series["RNN"]] == [1.0, 3.0]
    assert waits.named
