"""Linking words on the command line, with models of a toy language that learn it in seconds."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest
import torch

from regard.errors import DataError
from regard.lens.links import measure_links, read_gold
from regard.runs.align import AlignmentSettings, align
from tests.cli.test_cli import Done, regard
from tests.train.small import document

ARTICLES = [("the", "le"), ("a", "un"), ("this", "ce"), ("my", "mon")]
NOUNS = [("cat", "chat"), ("dog", "chien"), ("cow", "vache"), ("hen", "poule"), ("pig", "cochon"), ("fox", "renard")]
ADJECTIVES = [("red", "rouge"), ("old", "vieux"), ("big", "grand"), ("sad", "triste"), ("wet", "mouillé")]
VERBS = [("sees", "voit"), ("hears", "entend"), ("finds", "trouve")]


def write_toy(folder: Path, count: int, seed: int) -> None:
    """Pairs in two files, and their links: `the red cat sees a dog` is `le chat rouge voit un chien`."""
    chance, english, french, links = Random(seed), list[str](), list[str](), list[str]()
    for _ in range(count):
        words: list[tuple[str, str, int]] = []  # English, French, and where the French word stands
        for part in (ARTICLES, VERBS, ARTICLES):
            words.append((*chance.choice(part), len(words)))
            if part is ARTICLES and chance.random() < 0.5:  # an adjective stands after its noun in French
                words.append((*chance.choice(ADJECTIVES), len(words) + 1))
                words.append((*chance.choice(NOUNS), len(words) - 1))
            elif part is ARTICLES:
                words.append((*chance.choice(NOUNS), len(words)))
        english.append(" ".join(word for word, _, _ in words))
        french.append(" ".join(word for _, word, _ in sorted(words, key=lambda each: each[2])))
        links.append(" ".join(f"{here}-{there}" for here, (_, _, there) in enumerate(words)))
    for name, lines in (("en", english), ("fr", french), ("links", links)):
        (folder / f"toy.{name}").write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs, one for each direction, and pairs that they haven't seen."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("toy")
    write_toy(folder, 1500, 1)
    tree = {
        "corpus": {"train": {"kind": "text", "source": "toy.en", "target": "toy.fr"}},
        "data": str(folder),
        "tokenizer": {"pieces": "bpe", "vocabulary": 90},
        "batches": {"tokens": 300},
        "task": {"kind": "translation", "smoothing": 0.0},
        "train": {"steps": 200, "evaluate": 0, "save": 1000, "optimizer": {"kind": "adamw", "rate": 0.01}},
        "model": {
            "kind": "transformer-tiny",
            "width": 32,
            "depth": 2,
            "heads": 2,
            "hidden": 64,
            "dropout": 0.0,
        },
        "out": str(folder / "there"),
    }
    (folder / "run.yaml").write_text(json.dumps(tree))
    assert regard("train", str(folder / "run.yaml")).returncode == 0
    words = [f"out={folder / 'back'}", "corpus.reverse=true"]
    done = regard("train", str(folder / "run.yaml"), *words)
    assert done.returncode == 0, done.stderr
    write_toy(folder, 200, 2)
    return folder


def data(folder: Path) -> list[str]:
    return ["--data", str(folder / "toy.en"), "--data", str(folder / "toy.fr")]


def typed(text: str, *words: str) -> Done:
    with patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode()))):
        return regard(*words)


def test_auto_is_near_the_best_of_all_heads_and_finds_the_links(toy: Path) -> None:
    done = regard("align", str(toy / "there"), *data(toy), "--gold", str(toy / "toy.links"), "--table", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["error_rate"] < 0.2 and found["sentences"] == 200
    best = min(found["heads"], key=lambda head: head["error_rate"])
    assert found["heads"][0]["error_rate"] <= best["error_rate"] + 0.02
    assert found["chosen"] == [{"head": found["heads"][0]["head"], "step": found["heads"][0]["step"]}]
    alone = regard("align", str(toy / "there"), *data(toy), "--gold", str(toy / "toy.links"), "--no-lexical", "--json")
    assert found["error_rate"] <= json.loads(alone.stdout)["error_rate"]


def test_two_directions_are_joined_and_what_is_written_is_what_was_measured(toy: Path, tmp_path: Path) -> None:
    words = ["--reverse", str(toy / "back"), "--symmetrize", "intersection", "--out", str(tmp_path / "links")]
    done = regard("align", str(toy / "there"), *data(toy), "--gold", str(toy / "toy.links"), *words)
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "links").read_text().splitlines()
    sizes = [(len(one.split()), len(other.split())) for one, other in zip(*read_sides(toy), strict=True)]
    again = measure_links(
        [each.sure for each in read_gold(tmp_path / "links", sizes)], read_gold(toy / "toy.links", sizes)
    )
    assert len(lines) == 200 and f"error rate      {again.error_rate:.4f}" in done.stdout
    assert again.error_rate < 0.2 and done.stdout.count("head ") == 2


def test_gold_links_of_the_other_direction_are_turned(toy: Path) -> None:
    words = ["--data", str(toy / "toy.fr"), "--data", str(toy / "toy.en"), "--gold", str(toy / "toy.links")]
    found = json.loads(regard("align", str(toy / "back"), *words, "--turned", "--json").stdout)
    assert found["error_rate"] < 0.2
    # adjectives stand on the other side of their nouns, so links that weren't turned are wrong
    assert json.loads(regard("align", str(toy / "back"), *words, "--json").stdout)["error_rate"] < 1


def read_sides(folder: Path) -> list[list[str]]:
    return [(folder / f"toy.{side}").read_text().splitlines() for side in ("en", "fr")]


def test_pairs_from_standard_input_are_linked_line_by_line(toy: Path) -> None:
    text = (
        "the red cat sees a dog.\tle chat rouge voit un chien.\nthe old cow finds a pig.\tla vache trouve un cochon.\n"
    )
    done = typed(text, "align", str(toy / "there"), "--data", "-")
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert "1-2" in first.split() and "2-1" in first.split()
    assert second
    objects = typed(text, "align", str(toy / "there"), "--data", "-", "--json").stdout.splitlines()
    facts = json.loads(objects[0])
    assert facts["source"] == ["the", "red", "cat", "sees", "a", "dog."] and [1, 2] in facts["links"]
    drawn = typed(text, "align", str(toy / "there"), "--data", "-", "--format", "text").stdout
    assert any(line.split() == ["red", "rouge"] for line in drawn.splitlines())
    assert max(map(len, drawn.splitlines())) <= 80


def test_a_model_that_was_sent_out_and_came_back_links_the_same(toy: Path, tmp_path: Path) -> None:
    """Its tokenizer puts a frame around a source, and it has no pairs of its own to learn from."""
    assert regard("export", str(toy / "there"), str(tmp_path / "hf")).returncode == 0
    words = [*data(toy), "--learn", "0", "--head", "1.1", "--step", "writing", "--symmetrize", "union"]
    own, imported = (regard("align", str(noun), *words) for noun in (toy / "there", tmp_path / "hf"))
    assert own.returncode == 0, own.stderr
    assert own.stdout == imported.stdout and own.stdout.count("\n") == 200
    alone = regard("align", str(tmp_path / "hf"))
    assert alone.returncode == 3 and "there is a model in it, and no pairs" in alone.stderr


def test_the_built_in_corpus_has_gold_links_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(json.dumps(document(tmp_path / "run", "train.steps=3", "train.evaluate=0").tree))
    assert regard("train", str(tmp_path / "run.yaml")).returncode == 0
    page = tmp_path / "page.md"
    done = regard("align", str(tmp_path / "run"), "--split", "validation", "--table", "--record", str(page))
    assert done.returncode == 0, done.stderr
    assert "error rate" in done.stdout and "0.1     reading" in done.stdout and "sentences       12" in done.stdout
    assert "## Word alignment: en-fr" in page.read_text()
    report = align(str(tmp_path / "run"), settings=AlignmentSettings(learn=0), split="test")
    assert report.score is not None and len(report.links) == 12 and report.heads[0].score is None


@pytest.mark.parametrize(
    ("words", "piece"),
    [
        (["--head", "0.4"], "--head 0.4: it has the layers 0 (2 heads), 1 (2 heads), counted from 0"),
        (["--symmetrize", "growdiag"], "did you mean 'grow-diag'?"),
        (["--step", "read"], "no such step; known: auto, reading, writing"),
        (["--gold", "nowhere"], "nowhere: No such file"),
        (["--record", "page.md"], "there are no gold links"),
    ],
)
def test_a_mistake_is_told_and_nothing_is_written(words: list[str], piece: str, toy: Path, tmp_path: Path) -> None:
    out = tmp_path / "links"
    done = regard("align", str(toy / "there"), *data(toy), *words, "--out", str(out))
    assert done.returncode in (2, 3) and piece in done.stderr and not done.stdout
    assert not out.exists()


def test_gold_links_that_do_not_fit_are_told_before_the_work(toy: Path, tmp_path: Path) -> None:
    gold = tmp_path / "gold"
    gold.write_text("0-0\n")
    done = regard("align", str(toy / "there"), *data(toy), "--gold", str(gold))
    assert done.returncode == 3 and f"{gold} has 1 lines of links, and there are 200 pairs" in done.stderr
    with pytest.raises(DataError, match="gold:2: word 9 of the source"):
        gold.write_text("0-0\n9-0\n" + "0-0\n" * 198)
        align(str(toy / "there"), data(toy)[1::2], gold)


def test_an_empty_sentence_is_told_with_its_line(toy: Path) -> None:
    done = typed("the cat\tle chat\n\tle chien\n", "align", str(toy / "there"), "--data", "-")
    assert done.returncode == 3 and ":2" in done.stderr and "empty: source" in done.stderr


def test_a_model_that_does_not_attend_is_refused(tmp_path: Path) -> None:
    tree = document(tmp_path / "run", "train.steps=1", "train.evaluate=0", model="gru").tree
    (tmp_path / "run.yaml").write_text(json.dumps(tree))
    assert regard("train", str(tmp_path / "run.yaml")).returncode == 0
    done = regard("align", str(tmp_path / "run"))
    assert done.returncode == 3 and "sees its source as one vector" in done.stderr
