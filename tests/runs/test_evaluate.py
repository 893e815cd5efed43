"""What an evaluation writes into its row of results."""

from __future__ import annotations

from regard.runs.evaluate import tell_sizes


def test_measures_of_each_size_stand_in_a_cell() -> None:
    found = {"exact": 0.5, "by_size": {2: 0.5, 1: 1.0}, "steps_by_size": {1: 2.0, 2: 3.25}}
    assert tell_sizes(found) == {"exact": "1: 100.0%, 2: 50.0%", "steps": "1: 2.00, 2: 3.25"}


def test_many_sizes_stand_in_groups_with_the_mean_of_each() -> None:
    told = tell_sizes({"error_by_size": {size: float(size) for size in range(1, 20)}})["error"].split(", ")
    assert told[:2] == ["1 to 2: 1.5", "3 to 4: 3.5"] and told[-1] == "19: 19"


def test_one_size_is_told_by_the_whole() -> None:
    assert tell_sizes({"exact": 0.5, "by_size": {60: 0.5}}) == {} == tell_sizes({"bleu": 1.0})
