"""The verb that looks inside, as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from regard.cli import app
from regard.cli.inspect import ENDINGS
from regard.errors import InputError, RegardError
from regard.lens.keep import WRITERS

FIXTURES = Path(__file__).parent.parent / "fixtures" / "0.1"
TRANSLATION, LANGUAGE, TAGGING = (str(FIXTURES / name) for name in ("translation", "language", "tagging"))
TEXT = "the cat sees the green dog ."


def inspect(*words: str, given: str | None = None) -> str:
    result = CliRunner().invoke(app, ["inspect", *words], input=given)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_grid_is_drawn_for_the_mean_a_layer_and_a_head() -> None:
    assert "decoder cross, the mean of 2 heads" in inspect(TRANSLATION, TEXT)
    assert "decoder cross, layer 0, head 1" in inspect(TRANSLATION, TEXT, "--head", "0.1")
    shown = inspect(LANGUAGE, "--text", TEXT, "--head", "1")
    assert "decoder mix, layer 1, the mean of 2 heads" in shown
    assert "weight in %" in shown
    assert "decoder, rollout of 2 layers" in inspect(LANGUAGE, TEXT, "--head", "rollout")


def test_another_kind_of_attention_is_chosen_by_its_names() -> None:
    assert "encoder mix, the mean of 2 heads" in inspect(TRANSLATION, TEXT, "--names", "encoder.*")


def test_all_heads_stand_on_a_sheet() -> None:
    shown = inspect(LANGUAGE, TEXT, "--all")
    assert shown.count("2 heads)") == 2
    assert max(map(len, shown.splitlines())) <= 80


def test_predictions_stand_below() -> None:
    shown = inspect(TAGGING, "the cat", "--predictions")
    assert "probability" in shown
    assert "DET" in shown


def test_predictions_are_of_tokens_though_the_grid_is_of_words() -> None:
    assert "probability" in inspect(LANGUAGE, TEXT, "--predictions", "--by-word")


def test_texts_come_from_standard_input_too() -> None:
    lines = inspect(LANGUAGE, "--json", given="the cat\nthe dog\n").splitlines()
    assert [json.loads(line)["title"] for line in lines] == ["the cat", "the dog"]


def test_words_are_merged_on_demand() -> None:
    whole, merged = (json.loads(inspect(LANGUAGE, TEXT, "--json", *more)) for more in ((), ("--by-word",)))
    assert len(merged["axes"]["target"]["tokens"]) < len(whole["axes"]["target"]["tokens"])


def test_a_target_is_looked_at_as_it_is_given(tmp_path: Path) -> None:
    out = tmp_path / "look.npz"
    inspect(TRANSLATION, TEXT, "--target", "le chat .", "--out", str(out))
    with np.load(out) as found:
        assert found["axis.written"].tolist() == ["le", "chat", ".", "[EOS]"]


def test_all_names_are_listed() -> None:
    assert "decoder.blocks.1.mix.context" in inspect(LANGUAGE, "--names", "list").splitlines()


def test_analyses_are_printed_as_data() -> None:
    assert "rollout" in inspect(TRANSLATION, "--analysis", "list")
    found = json.loads(inspect(TRANSLATION, TEXT, "--analysis", "ablation"))
    assert {len(heads) for heads in found["heads"].values()} == {2}


def test_heads_have_their_importance() -> None:
    found = json.loads(inspect(TRANSLATION, TEXT, "--json"))
    assert all(head["importance"] >= 0 for each in found["maps"] for head in each["summary"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([TRANSLATION, TEXT, "--analysis", "gates"], "gate"),
        ([TRANSLATION, TEXT, "--analysis", "nonsense"], "there is no analysis 'nonsense'"),
        ([TRANSLATION, TEXT, "--head", "9.9", "--json"], "--head is for what is drawn here"),
        ([TRANSLATION, TEXT, "--all", "--analysis", "heads"], "--all is for what is drawn here"),
        ([TRANSLATION, TEXT, "--all", "--head", "9.9"], "--all draws all heads"),
        ([TRANSLATION, TEXT, "--json", "--out", "x.json"], "--json prints, and --out x.json writes"),
        ([TRANSLATION, " "], "the text is empty"),
        ([LANGUAGE, TEXT, "--target", "le chat"], "this Writer reads one text"),
        ([LANGUAGE, TEXT, "--head", "0.2"], "layer 0 has 2 heads, counted from 0"),
        ([LANGUAGE, TEXT, "--head", "7"], "has no layer 7"),
        ([LANGUAGE, TEXT, "--head", "last"], "which one is that"),
        ([LANGUAGE, TEXT, "--names", "*.cross.weights"], r"nothing here is called \*\.cross\.weights"),
        ([TAGGING, TEXT], "nothing in this model attends"),
        ([LANGUAGE, "one", "two", "--target", "three"], "--target belongs to one text"),
        ([LANGUAGE, TEXT, "--best", "0"], "one answer at least"),
    ],
    ids=str,
)
def test_what_cannot_be_shown_is_an_error_with_a_way_out(words: list[str], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        inspect(*words)


@pytest.mark.parametrize(("words", "name"), [([TEXT, TEXT], "look.json"), ([TEXT], "look.gif"), ([], "look.json")])
def test_nothing_is_written_where_something_is_wrong(words: list[str], name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds one text|what is it to be"):
        inspect(LANGUAGE, *words, "--out", str(tmp_path / name), given="")
    assert not list(tmp_path.iterdir())


def test_what_can_be_written_is_what_the_help_says() -> None:
    assert tuple(WRITERS) == ENDINGS
