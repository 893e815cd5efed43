"""Files of different kinds in one split, pairs that change sides, and text that is written anew before it is cut."""

from __future__ import annotations

import lzma
import zipfile
from pathlib import Path

import pytest

from regard.data.corpora.files import Files
from regard.data.log import Log
from regard.data.reader import ReaderSpec
from regard.data.tokenizer import Tokenizer, TokenizerSpec
from regard.errors import DataError, RegardError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table in an archive, two packed files, and a plain one."""
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        archive.writestr("data/pairs.txt", "Go.\tVa !\nRun!\tCours !\n")
        archive.writestr("data/names.txt", "Ann\n")
    (tmp_path / "a.en.xz").write_bytes(lzma.compress(b"one\ntwo\n"))
    (tmp_path / "a.fr.xz").write_bytes(lzma.compress(b"un\ndeux\n"))
    (tmp_path / "b.tsv").write_text("three\ttrois\n")
    return tmp_path


PARTS = [
    {"kind": "tsv", "path": "data.zip:data/pairs.txt", "header": False},
    {"kind": "text", "source": "a.en.xz", "target": "a.fr.xz"},
    {"path": "b.tsv", "header": False},
    {"kind": "text", "source": "a.en.xz", "target": "a.fr.xz"},
]
SIDES = [("Go.", "Va !"), ("Run!", "Cours !"), ("one", "un"), ("two", "deux"), ("three", "trois"), ("one", "un")]


def read(folder: Path, **more: object) -> list[tuple[str, str]]:
    corpus = Files.parse({"train": {"kind": "several", "parts": PARTS}, "split": {"validation": 0}, **more})
    samples = corpus.samples("pairs", "train", folder, Log("stop"))
    return [(sample["source"], sample["target"]) for sample in samples]


def test_readers_of_different_kinds_are_read_one_after_the_other(folder: Path) -> None:
    assert read(folder) == [*SIDES, ("two", "deux")]


def test_pairs_change_sides(folder: Path) -> None:
    assert read(folder, reverse=True) == [(target, source) for source, target in read(folder)]


def test_a_list_of_readers_survives_json() -> None:
    spec = ReaderSpec.parse({"kind": "several", "parts": PARTS})
    assert ReaderSpec.parse(spec.model_dump(mode="json")) == spec
    assert spec.forms() == ("pairs",)


@pytest.mark.parametrize(
    ("tree", "piece"),
    [
        ({"kind": "several", "parts": []}, "there is no reader in it"),
        (
            {"kind": "several", "parts": [PARTS[1], {"kind": "conllu", "path": "a.conllu"}]},
            "all must be of one form",
        ),
    ],
)
def test_readers_that_do_not_go_together_are_refused(tree: dict[str, object], piece: str) -> None:
    with pytest.raises(RegardError, match=piece):
        ReaderSpec.parse(tree)


def test_documents_have_no_sides() -> None:
    with pytest.raises(RegardError, match="reverse"):
        Files.parse({"train": {"kind": "documents", "path": "a.txt"}, "reverse": True})


def test_a_doubt_about_a_part_says_which_part(folder: Path) -> None:
    for name, lines in (("b.en", "english\nthree\n"), ("b.fr", "french\ntrois\n")):
        (folder / name).write_text(lines)
    tree = {"train": {"kind": "several", "parts": [PARTS[1], {"kind": "text", "source": "b.en", "target": "b.fr"}]}}
    corpus = Files.parse({**tree, "split": {"validation": 0}})
    with pytest.raises(DataError) as caught:
        list(corpus.samples("pairs", "train", folder, Log("stop")))
    assert "in item 1 of parts: header: " in str(caught.value)


def test_text_is_written_anew_in_order_and_the_rules_are_saved(tmp_path: Path) -> None:
    rules = {"can't": "cannot", "n't": " not", r"(?<=\b[ld])'": "e "}
    spec = TokenizerSpec.parse({"pieces": "word", "lowercase": True, "rewrite": rules})
    tokenizer = spec.train(["I can't; he isn't. L'ami d'Anne"])
    assert tokenizer.tokens("He CAN'T isn't l'ami d'Anne") == ["he", "cannot", "is", "not", "le", "ami", "de", "anne"]
    tokenizer.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.encode(["l'ami isn't"]) == tokenizer.encode(["l'ami isn't"])


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(RegardError, match="rewrite"):
        TokenizerSpec.parse({"rewrite": {"(": "x"}})
