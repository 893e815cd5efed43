"""Every key of a run file is told: with its type, its default, its range and its meaning, from the code itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest

from regard.core.registry import Kinds
from regard.core.setting import Setting, list_settings, make_plain, read_meanings, read_shape
from regard.core.spec import Spec
from regard.errors import SpecError
from regard.mixers.attention import Attention
from regard.parts.position import Sinusoidal
from regard.runs.settings import describe_default, describe_type, find_pages, list_pages
from regard.runs.spec import RunSpec
from regard.train.optimizer import AdamW
from regard.train.spec import TrainSpec

DOCS = Path(__file__).parents[2] / "docs" / "settings.md"
RENEW = "python -m regard settings --markdown > docs/settings.md"


@pytest.fixture(scope="module")
def fresh() -> dict[str, Any]:
    """What a program of its own tells: here, other tests have entered kinds of theirs."""
    code = (
        "import json\nfrom regard.runs.settings import list_pages, write_markdown\n"
        "print(json.dumps({'pages': [page.as_json() for page in list_pages()], 'markdown': write_markdown()}))"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    found: dict[str, Any] = json.loads(told)
    return found


def test_the_page_of_the_docs_is_what_the_code_says(fresh: dict[str, Any]) -> None:
    assert DOCS.read_text() == fresh["markdown"], f"docs/settings.md is out of date; {RENEW}"


def test_every_key_has_a_meaning(fresh: dict[str, Any]) -> None:
    keys = [setting for page in fresh["pages"] for setting in page["settings"]]
    assert len(keys) > 500
    for setting in keys:
        meaning = setting["meaning"]
        assert meaning[:1].isupper() and meaning.endswith("."), setting
        assert setting["type"], setting


def test_every_page_says_what_it_is(fresh: dict[str, Any]) -> None:
    paths = [page["path"] for page in fresh["pages"]]
    assert len(paths) == len(set(paths)) > 90
    for page in fresh["pages"]:
        assert page["summary"], page["path"]
        assert all(page["kinds"].values()), page["path"]


def test_every_key_of_every_spec_of_a_run_file_is_on_a_page() -> None:
    told = {(page.path, setting.name) for page in list_pages() for setting in page.settings}
    for name in RunSpec.model_fields:
        assert ("", name) in told or name == "kind"
    for name in TrainSpec.model_fields:
        assert ("train", name) in told or name == "kind"
    for name in Attention.model_fields:
        assert ("mix.attention", name) in told or name == "kind"


@pytest.mark.parametrize(
    ("path", "pages", "key"),
    [
        ("train", ["train"], "steps"),
        ("train.optimizer", ["train.optimizer"], "rate"),
        ("train.optimizer.adamw", ["train.optimizer.adamw"], "betas"),
        ("optimizer", ["train.optimizer"], "rate"),
        ("adamw", ["train.optimizer.adamw"], "betas"),
        ("model.gpt2", ["model.gpt2"], "width"),
        ("model.transformer-tiny", ["model.transformer-tiny"], "width"),
        ("gpt2-medium", ["model.gpt2-medium"], "width"),
        ("model.model", ["model.model"], "encoder"),
        ("task.language", ["task.language"], "context"),
        ("corpus.tsv", ["corpus.train.tsv"], "path"),
        ("search", ["task.search"], "beam"),
        ("mix.attention", ["mix.attention"], "heads"),
        ("train.optimizer.rate", ["train.optimizer"], "rate"),
        ("train.clip", ["train"], "clip"),
        ("learning_rate", ["train.optimizer"], "rate"),
        ("num_beams", ["task.search"], "beam"),
    ],
)
def test_a_path_finds_its_page(path: str, pages: list[str], key: str) -> None:
    found = find_pages(path)
    assert [page.path for page in found] == pages
    assert key in [setting.name for setting in found[0].settings]


def test_a_key_alone_is_told_once() -> None:
    (page,) = find_pages("train.clip")
    (setting,) = page.settings
    assert page.spell(setting) == "train.clip"
    assert {page.path for page in find_pages("model.width")} >= {"model.gpt2", "model.rnn", "model.transformer"}
    assert all(page.only("width").settings == page.settings for page in find_pages("model.width"))


def test_a_kind_is_left_out_of_a_key_as_the_command_line_takes_it() -> None:
    (page,) = find_pages("train.optimizer.adamw")
    assert "train.optimizer.betas" in [page.spell(setting) for setting in page.settings]


def test_a_preset_has_its_own_defaults() -> None:
    def width(path: str) -> Any:
        return find_pages(path)[0].only("width").settings[0].default

    assert (width("model.gpt2-medium"), width("model.gpt2"), width("model.transformer-tiny")) == (1024, 768, 128)


@pytest.mark.parametrize(("path", "hint"), [("trian", "did you mean 'train'?"), ("adamW", "did you mean 'adamw'?")])
def test_a_path_that_is_not_there_gets_the_nearest(path: str, hint: str) -> None:
    with pytest.raises(SpecError, match=f"no setting is called '{path}'; {hint}".replace("?", r"\?")) as caught:
        find_pages(path)
    assert "regard settings" in caught.value.hint


def take(spec: type[Spec], name: str) -> tuple[str, str]:
    (setting,) = [setting for setting in list_settings(spec) if setting.name == name]
    return describe_type(setting), describe_default(setting)


@pytest.mark.parametrize(
    ("spec", "name", "words", "default"),
    [
        (TrainSpec, "steps", "whole number or none; ≥ 1, ≤ 2^24", "none"),
        (TrainSpec, "tokens", "whole number or none; ≥ 1", "none"),
        (TrainSpec, "clip", "number or none; > 0", "1.0"),
        (TrainSpec, "precision", "fp32, bf16", "fp32"),
        (TrainSpec, "recompute", "true or false", "false"),
        (TrainSpec, "freeze", "list of texts", "[]"),
        (TrainSpec, "costs", "mapping to numbers; ≥ 0", "{}"),
        (TrainSpec, "optimizer", "kind: adafactor, adam, adamw, muon, sgd", "adamw"),
        (AdamW, "betas", "2 numbers; ≥ 0, < 1", "[0.9, 0.98]"),
        (RunSpec, "out", "path", "required"),
        (RunSpec, "tokenizer", "settings (see tokenizer)", "its own"),
        (RunSpec, "model", "preset or settings or none", "none"),
        (Attention, "over", "self, memory", "self"),
    ],
)
def test_types_and_defaults_are_told_in_words(spec: type[Spec], name: str, words: str, default: str) -> None:
    assert take(spec, name) == (words, default)


def test_a_default_is_its_kind_and_what_differs() -> None:
    assert make_plain(Sinusoidal()) == "sinusoidal"
    assert make_plain(Sinusoidal(halves=True)) == {"kind": "sinusoidal", "halves": True}
    assert make_plain((Sinusoidal(),)) == ["sinusoidal"]


class Shelf(Spec):
    """A spec of a test."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds()
    kind: Literal["shelf"] = "shelf"
    boards: int = 3
    """The shelf has this many boards,
    one above the other."""
    bare: bool = False


class Rack(Shelf):
    kind: Literal["rack"] = "rack"  # type: ignore[assignment]
    boards: int = 5


def test_a_meaning_is_the_string_under_a_field_here_or_above() -> None:
    assert read_meanings(Shelf) == {"boards": "The shelf has this many boards, one above the other."}
    facts = {setting.name: setting.meaning for setting in list_settings(Rack)}
    assert facts == {"boards": "The shelf has this many boards, one above the other.", "bare": ""}


def test_where_there_is_no_source_there_is_no_meaning() -> None:
    made = type(
        "Made", (Shelf,), {"__annotations__": {"kind": Literal["made"]}, "kind": "made", "__module__": __name__}
    )
    assert read_meanings(made) == {}


def test_a_setting_is_plain_data() -> None:
    setting = Setting("heads", read_shape(int), 8, required=False, meaning="There are this many heads.")
    assert setting.as_json() == {
        "name": "heads",
        "type": "whole number",
        "required": False,
        "default": 8,
        "meaning": "There are this many heads.",
    }
