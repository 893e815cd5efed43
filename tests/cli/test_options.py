"""Settings as people see them, and options that they know from elsewhere."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from regard.cli.settings import draw
from regard.runs.settings import find_pages, list_pages
from tests.cli.test_cli import regard


def test_without_a_terminal_there_is_a_line_for_each_key() -> None:
    lines = regard("settings", "train.optimizer.adamw").stdout.splitlines()
    assert [line.split("\t")[:2] for line in lines[:2]] == [
        ["train.optimizer.rate", "adamw"],
        ["train.optimizer.decay", "adamw"],
    ]
    assert all(line.count("\t") == 4 for line in lines)


def test_json_has_everything() -> None:
    (page,) = [json.loads(line) for line in regard("settings", "train", "--json").stdout.splitlines()]
    clip = next(setting for setting in page["settings"] if setting["name"] == "clip")
    assert clip["key"] == "train.clip"
    assert (clip["type"], clip["default"], clip["range"]) == ("number or none", 1.0, "> 0")
    precision = next(setting for setting in page["settings"] if setting["name"] == "precision")
    assert precision["choices"] == ["fp32", "bf16"]


def test_the_usual_comes_first_and_all_on_demand() -> None:
    done = regard("settings")
    assert "train.minutes\t" in done.stdout and "train.optimizer.betas\tadamw" in done.stdout
    assert "mix.heads" not in done.stdout
    assert "next: regard settings train.optimizer" in done.stderr.replace("python -m regard", "regard")
    assert "mix.heads\tattention" in regard("settings", "--all").stdout


def test_a_terminal_of_eighty_columns_is_wide_enough() -> None:
    for page in list_pages():
        out = io.StringIO()
        draw(page, Console(file=out, width=80, force_terminal=True, color_system=None, highlight=False), first=True)
        told = " ".join(out.getvalue().split())
        assert max(map(len, out.getvalue().splitlines())) <= 80, page.path
        assert all(setting.name in told for setting in page.settings)


def test_a_page_for_people_has_the_type_and_then_the_meaning() -> None:
    out = io.StringIO()
    (page,) = find_pages("train.clip")
    draw(page, Console(file=out, width=80, force_terminal=True, color_system=None), first=True)
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert lines[2:4] == [
        "  clip  number or none; > 0; default 1.0",
        "        A gradient whose norm is larger than this is scaled down to it; none: no",
    ]


def test_a_mistake_gets_the_nearest_name() -> None:
    done = regard("settings", "trian")
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean 'train'?" in done.stderr
    assert regard("settings", "train", "--all").returncode == 2


@pytest.mark.parametrize("verb", ["train", "resume", "plan", "show", "translate", "generate", "eval"])
def test_help_leads_to_the_settings(verb: str) -> None:
    assert "regard settings" in " ".join(regard(verb, "--help").stdout.replace("│", " ").split())


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("translate RUN --num-beams 4", "--beam 4"),
        ("translate RUN --num_beams=4", "--beam 4"),
        ("translate RUN --beam-size 4", "--beam 4"),
        ("translate RUN --max-new-tokens 50", "--set max_tokens=50"),
        ("translate RUN --no-repeat-ngram-size 3", "--set no_repeat=3"),
        ("translate RUN --length-penalty 0.6", "--set length=power --set alpha=0.6; the score is divided by"),
        ("generate RUN --max-new-tokens 50", "--tokens 50"),
        ("generate RUN --num-return-sequences 3", "--samples 3"),
        ("generate RUN --do-sample", "--set sample=true"),
        ("generate RUN --top-k 40", "--set top_k=40"),
        ("train FILE --learning-rate 0.001", "train.optimizer.rate=0.001"),
        ("train FILE --lr=0.001", "train.optimizer.rate=0.001"),
        ("train FILE --epochs 3", "train.epochs=3"),
        (
            "train FILE --batch-size 32",
            "batches.tokens=…; it counts tokens, pads included; batches.rows counts samples",
        ),
        ("train FILE --bf16", "train.precision=bf16"),
        ("plan FILE --d-model 64", "model.width=64"),
        ("resume RUN --max-steps 500", "train.steps=500"),
        ("show gpt2 --n-layer 4", "depth=4"),
    ],
)
def test_an_option_of_others_is_answered_with_ours(words: str, hint: str) -> None:
    done = regard(*words.split())
    verb, _, option, *_ = words.replace("=", " ").split()
    assert done.returncode == 2
    assert done.stderr.startswith(f"regard: {verb} has no option {option}\n  try: {hint}"), done.stderr


@pytest.mark.parametrize("words", ["train FILE --colour", "show gpt2 --lr 3", "doctor --num-beams 3"])
def test_an_option_that_nothing_answers_is_the_parsers_to_refuse(words: str) -> None:
    done = regard(*words.split())
    assert done.returncode == 2
    assert "No such option" in done.stderr


def test_a_preset_answers_others_words_on_the_command_line() -> None:
    assert "n_layer: unknown setting; did you mean depth=4?" in regard("show", "gpt2", "n_layer=4").stderr
