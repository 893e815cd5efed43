"""Recipes are compared on the same data at the same budget, or not at all."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from regard.config import Document
from regard.errors import RegardError
from regard.runs.budget import Budget, format_amount, read_amount
from regard.runs.contest import Contest, ContestEntry, ContestResult
from regard.runs.folder import Run
from regard.runs.match import CLOSE, count_weights, match_parameters
from regard.runs.standing import Standing
from regard.train.goal import Goal
from tests.runs.recipes import DECODER, RECURRENT, make_recipe

BOTH = {"attention": make_recipe(DECODER), "memory": make_recipe(RECURRENT, "train.minutes=3", "train.patience=1")}


def hold(place: Path, budget: str = "tokens=150", seeds: int = 2, recipes: Mapping[str, Document] = BOTH) -> Contest:
    """A contest in this process, which is quicker."""
    return Contest(recipes, Budget.read(budget), seeds, place, apart=False)


def test_a_contest_gives_both_the_same_budget_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    result = hold(tmp_path).conduct()
    assert result.recipes == ["attention", "memory"] and result.found == 0
    assert result.goal == Goal("loss", False) and result.measures[0] == "loss"
    tokens = [entry.standing.tokens for entry in result.entries]
    assert tokens[:2] == tokens[2:] and min(tokens) >= 150  # seed by seed, whatever budgets the recipes had
    assert [entry.seed for entry in result.entries] == [1, 2, 1, 2]
    for entry in result.entries:
        spec = Run.open(Path(entry.run)).spec
        assert (spec.train.tokens, spec.train.steps, spec.train.minutes, spec.train.patience) == (150, None, None, 0)
        assert entry.flops > 0 and entry.standing.parameters > 0 and entry.standing.peak_memory > 0
    (one, two), (three, four) = (result.collect(name, "loss") for name in result.recipes)
    assert result.subtract("memory", "loss").value == pytest.approx((three - one + four - two) / 2)

    shutil.rmtree(tmp_path / "memory-seed-2")
    again = hold(tmp_path).conduct()
    assert again.found == 3
    assert [entry.standing.measures for entry in again.entries] == [entry.standing.measures for entry in result.entries]


def test_operations_become_tokens(tmp_path: Path) -> None:
    contest = hold(tmp_path, "flops=20M", seeds=1)
    entries = contest.conduct().entries
    for entry in entries:
        per_token = entry.flops / entry.standing.tokens
        before = entry.standing.tokens - 60  # the last step goes past the budget, by less than a batch
        assert before * per_token < 20e6 <= entry.flops * 1.001
    assert entries[0].standing.tokens != entries[1].standing.tokens


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("corpus.train=61", "corpus.train: 60 in one, and 61 in other"),
        ("corpus.kind=reverse", "corpus.kind: 'copy' in one, and 'reverse' in other"),
        ("batches.rows=4", "batches.rows: 8 in one, and 4 in other"),
        ("tokenizer.vocabulary=77", "tokenizer.vocabulary: .* in one, and 77 in other"),
        ("train.goal=exact", "train.goal"),
        ("seed=1", "one and other say the same"),
    ],
)
def test_what_would_be_unfair_is_refused(word: str, told: str, tmp_path: Path) -> None:
    place = tmp_path / "out"
    with pytest.raises(RegardError, match=told):
        hold(place, recipes={"one": make_recipe(DECODER), "other": make_recipe(DECODER, word)}).conduct()
    assert not place.exists()


def test_one_recipe_no_seed_and_no_validation_data_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="two recipes"):
        hold(tmp_path, recipes={"one": make_recipe(DECODER)}).conduct()
    with pytest.raises(RegardError, match="--seeds 0"):
        hold(tmp_path, seeds=0).conduct()
    blind = {name: document.change(["corpus.validation=0"]) for name, document in BOTH.items()}
    with pytest.raises(RegardError, match="no validation data"):
        hold(tmp_path, recipes=blind).conduct()


def test_a_budget_without_room_for_a_step_is_refused(tmp_path: Path) -> None:
    for budget in ("tokens=5", "tokens=0.1", "minutes=0.00000001", "flops=1000"):
        with pytest.raises(RegardError, match=r"one step of .* takes .* too small"):
            hold(tmp_path, budget).conduct()
    assert not list(tmp_path.glob("*seed*"))


@pytest.mark.parametrize(
    ("text", "amount"),
    [("2M", 2e6), ("500k", 5e5), ("1e15", 1e15), ("1.5B", 1.5e9), ("2_000", 2000), ("7", 7), ("0.5", 0.5)],
)
def test_amounts_are_read(text: str, amount: float) -> None:
    assert read_amount(text, "--budget") == pytest.approx(amount)


@pytest.mark.parametrize("text", ["", "M", "-3", "0", "2 M", "2MM", "nan", "inf", "1e999", "three"])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(RegardError, match="isn't a number above 0"):
        read_amount(text, "--budget")


@pytest.mark.parametrize("text", ["2M", "hours=3", "tokens", "tokens:2M", "=5"])
def test_what_is_no_budget_is_refused(text: str) -> None:
    with pytest.raises(RegardError, match="tokens, minutes or flops"):
        Budget.read(text)


def test_amounts_are_written_in_three_digits() -> None:
    assert [format_amount(amount) for amount in (12, 1234, 2e6, 1.5e15)] == ["12", "1.23k", "2M", "1.5P"]
    assert str(Budget.read("tokens=2M")) == "tokens=2M" and str(Budget.read("minutes=5")) == "minutes=5"


@pytest.mark.parametrize(
    "model",
    [
        RECURRENT,
        {"kind": "decoder-tiny", "depth": 2, "heads": 3, "width": 48},
        {"kind": "llama-tiny", "depth": 1, "heads": 2},
    ],
)
def test_a_model_is_sized_to_another(model: dict[str, object], tmp_path: Path) -> None:
    recipe = make_recipe(DECODER, "model.width=96", f"out={tmp_path}/run")
    lexicon = Run.begin(recipe).prepared().lexicon
    target = count_weights(recipe, lexicon)
    sized = match_parameters("other", make_recipe(model), lexicon, target)
    assert abs(count_weights(sized, lexicon) - target) <= CLOSE * target
    assert sized.tree["model"]["width"] % sized.tree["model"].get("heads", 1) == 0
    assert match_parameters("other", sized, lexicon, target) is sized  # it is near enough already


def test_a_model_that_cannot_be_sized_is_refused_with_what_is_nearest(tmp_path: Path) -> None:
    recipe = make_recipe(RECURRENT, f"out={tmp_path}/run")
    lexicon = Run.begin(recipe).prepared().lexicon
    with pytest.raises(RegardError, match=r"within 2% of 20 parameters; model.width=1 has .* \(\+"):
        match_parameters("other", recipe, lexicon, 20)
    whole = Run.open(tmp_path / "run").assembly().model.model_dump(mode="json")
    with pytest.raises(RegardError, match="has no setting `width`"):
        match_parameters("own", make_recipe(whole), lexicon, 20)


def make_result(first: list[float], second: list[float], rising: bool = True) -> ContestResult:
    entries = [
        ContestEntry(name, seed, name, Standing({"score": value}, 1, 1, 1, 1.0, 1, 1), 1.0)
        for name, values in (("one", first), ("other", second))
        for seed, value in enumerate(values)
    ]
    return ContestResult(Goal("score", rising), Budget("tokens", 1), entries, {"one": (), "other": ()}, 0)


def test_seeds_are_paired() -> None:
    """Seeds differ more than recipes do, and still every pair says the same."""
    result = make_result([1.0, 5.0, 9.0], [2.0, 6.1, 9.9])
    assert result.conclude("other").startswith("other is better than one: +1 score, 95 % interval +0.7")
    assert make_result([1.0, 5.0, 9.0], [2.0, 6.1, 9.9], rising=False).conclude("other").startswith("other is worse")


def test_an_interval_around_nothing_shows_no_difference() -> None:
    assert make_result([1.0, 2.0, 3.0], [2.0, 1.5, 3.1]).conclude("other").startswith("No difference shown")
    assert make_result([1.0, 1.0], [1.0, 1.0]).conclude("other").startswith("No difference shown")
    assert make_result([1.0, math.nan], [1.0, 2.0]).conclude("other").startswith("No difference shown")
    assert make_result([1.0], [2.0]).conclude("other").endswith("one seed shows no difference.")
