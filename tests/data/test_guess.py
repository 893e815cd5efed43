"""What files are taken for where nobody says anything about them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from regard.data.corpus import CorpusSpec
from regard.data.guess import divide_files, propose_corpus
from regard.data.log import Log
from regard.errors import DataError, SpecError

TEXTS = [f"the film number {n} was {'fine' if n % 2 else 'dull'} and long" for n in range(40)]
LABELS = ["good" if n % 2 else "bad" for n in range(40)]
OTHERS = [f"le film {n} était {'bon' if n % 2 else 'nul'}" for n in range(40)]


def table(sign: str, *columns: list[str], header: str = "") -> str:
    rows = [sign.join(cells) for cells in zip(*columns, strict=True)]
    return "\n".join([header, *rows] if header else rows) + "\n"


def objects(**columns: list[Any]) -> str:
    rows = zip(*columns.values(), strict=True)
    return "".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows)


IDS = [f"{n}_{n % 7}" for n in range(40)]
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "header.csv": (table(",", TEXTS, LABELS, header="review,label"), "labels", {"text": "review", "label": "label"}),
    "plain.csv": (table(",", TEXTS, LABELS), "labels", {}),
    "first.tsv": (table("\t", LABELS, TEXTS), "labels", {"text": 1, "label": 0}),
    "ids.tsv": (table("\t", LABELS, IDS, TEXTS), "labels", {"text": 2, "label": 0}),
    "both.tsv": (table("\t", LABELS, TEXTS, OTHERS), "labels", {"text": 1, "label": 0, "second": 2}),
    "pairs.tsv": (table("\t", TEXTS, OTHERS), "pairs", {}),
    "pairs.txt": (table("\t", TEXTS, OTHERS), "pairs", {}),
    "sides.tsv": (table("\t", OTHERS, TEXTS, header="en\tfr"), "pairs", {"source": "en", "target": "fr"}),
    "commas.txt": (table(",", TEXTS, LABELS), "labels", {}),
    "a.jsonl": (objects(en=TEXTS, fr=OTHERS), "pairs", {"source": "en", "target": "fr"}),
    "b.jsonl": (objects(summary=OTHERS, dialogue=TEXTS, id=IDS), "pairs", {"source": "dialogue", "target": "summary"}),
    "c.jsonl": (objects(sentence=TEXTS, stars=[n % 5 for n in range(40)]), "labels", {"text": "sentence"}),
    "d.jsonl": (objects(tokens=[["a", "b"]] * 9, ner_tags=[["X", "Y"]] * 9), "tags", {"words": "tokens"}),
    "e.jsonl": (objects(title=TEXTS, body=OTHERS, category=LABELS), "labels", {"label": "category"}),
    "alone.csv": (table(",", [text.replace(",", "") for text in TEXTS], header="text"), "documents", {"text": "text"}),
    "words.txt": ("the DET\ncat NOUN\n\nit PRON\nsleeps VERB\n", "tags", {}),
    "book.txt": ("Call me Ishmael.\nSome years ago, never mind how long.\n\nIt is a way I have.\n", "documents", {}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_file_tells_its_form_and_its_columns(tmp_path: Path, name: str) -> None:
    content, form, columns = CASES[name]
    (tmp_path / name).write_text(content)
    found = propose_corpus([str(tmp_path / name)])
    assert found.form == form
    assert columns.items() <= found.corpus["train"].items()
    if not columns:
        assert not {"text", "label", "source", "target"} & found.corpus["train"].keys()
    corpus = CorpusSpec.parse({**found.corpus, "split": {"validation": 0.0}})
    assert list(corpus.deal(form, tmp_path, Log("stop")))


def test_a_task_that_is_told_decides_what_columns_are_looked_for(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(objects(title=TEXTS, body=OTHERS, category=LABELS))
    found = propose_corpus([str(tmp_path / "a.jsonl")], "pairs")
    assert found.corpus["train"] | {"source": "body", "target": "title"} == found.corpus["train"]
    told = propose_corpus([str(tmp_path / "a.jsonl")], None, {"text": "body", "label": "category"})
    assert told.form == "labels" and told.corpus["train"]["text"] == "body"


def test_labels_are_found_in_a_file_that_is_sorted_by_them(tmp_path: Path) -> None:
    rows = [f"{'neg' if n < 1500 else 'pos'}\tthis is review {n}" for n in range(3000)]
    (tmp_path / "a.tsv").write_text("\n".join(rows))
    assert propose_corpus([str(tmp_path / "a.tsv")]).form == "labels"


@pytest.mark.parametrize(
    ("names", "sides"),
    [
        (("train.en", "train.fr"), True),
        (("news.en-de.en", "news.en-de.de"), True),
        (("source.txt", "target.txt"), True),
        (("one.txt", "two.txt"), False),
        (("en.txt", "part2.txt"), False),
    ],
)
def test_two_files_whose_names_differ_in_a_language_are_a_translation(
    tmp_path: Path, names: tuple[str, str], sides: bool
) -> None:
    for name in names:
        (tmp_path / name).write_text("a line of text\nanother one\n")
    found = propose_corpus([str(tmp_path / name) for name in names])
    assert found.form == ("pairs" if sides else "documents")


def test_names_tell_splits_if_one_is_for_training() -> None:
    files = ["d/val.en", "d/val.fr", "d/train.en", "d/train.fr", "d/test_2016.en", "d/test_2016.fr"]
    found = divide_files(files)
    assert list(found) == ["train", "validation", "test"] and found["validation"] == files[:2]
    assert divide_files(["en_ewt-ud-train.conllu", "en_ewt-ud-dev.conllu"])["validation"] == ["en_ewt-ud-dev.conllu"]
    assert divide_files(["my-test.csv"]) == {"train": ["my-test.csv"]}
    assert divide_files(["train.csv", "more.csv"]) == {"train": ["train.csv", "more.csv"]}


def test_an_empty_file_is_told(tmp_path: Path) -> None:
    for name in ("a.txt", "a.csv"):
        (tmp_path / name).write_text("\n")
        with pytest.raises(DataError):
            propose_corpus([str(tmp_path / name)])


def test_files_that_can_not_be_guessed_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(table(",", TEXTS, LABELS))
    with pytest.raises(SpecError, match="no reader is called 'excel'"):
        propose_corpus([str(tmp_path / "a.csv")], None, {"kind": "excel"})
    for name in ("train.en", "train.fr", "val.en"):
        (tmp_path / name).write_text("a\n")
    with pytest.raises(DataError, match="a source and a target are wanted"):
        propose_corpus([str(tmp_path / name) for name in ("train.en", "train.fr", "val.en")])


def test_a_header_with_another_number_of_columns_breaks_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("text\tlabel\n" + table("\t", TEXTS, LABELS, IDS))
    assert propose_corpus([str(tmp_path / "a.tsv")]).form


@pytest.mark.parametrize("name", ["latin.txt", "latin.txt.gz", "latin.csv", "latin.jsonl"])
def test_lines_of_another_encoding_are_told_and_read_once_it_is_named(tmp_path: Path, name: str) -> None:
    rows = {"csv": "review,stars\n", "jsonl": ""}.get(name.rpartition(".")[2], "")
    for n, text in enumerate(OTHERS):
        row = {"csv": f"{text},{n % 3}", "jsonl": json.dumps({"text": text}, ensure_ascii=False)}
        rows += row.get(name.rpartition(".")[2], text) + "\n"
    raw = rows.encode("latin-1")
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith("gz") else raw)
    with pytest.raises(DataError, match=r"aren't UTF-8: 40 of .*\(bad UTF-8 40\)") as caught:
        propose_corpus([str(tmp_path / name)])
    assert "encoding=latin-1" in caught.value.hint
    found = propose_corpus([str(tmp_path / name)], told={"encoding": "latin-1"})
    assert found.form == ("labels" if name == "latin.csv" else "documents")
    assert found.corpus["train"]["encoding"] == "latin-1"


def test_an_encoding_that_nobody_knows_is_refused_before_a_guess(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a text\n")
    with pytest.raises(SpecError, match="latin-one"):
        propose_corpus([str(tmp_path / "a.txt")], told={"encoding": "latin-one"})


def test_a_column_that_is_told_stays_and_the_other_is_found(tmp_path: Path) -> None:
    rows = table(",", TEXTS, LABELS, [str(n % 3) for n in range(40)], header="review,label,helpful")
    (tmp_path / "a.csv").write_text(rows)
    found = propose_corpus([str(tmp_path / "a.csv")], told={"label": "helpful"})
    assert found.form == "labels"
    assert {"label": "helpful", "text": "review"}.items() <= found.corpus["train"].items()


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_column_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path, name: str) -> None:
    rows = {"a.csv": table(",", TEXTS, LABELS, header="review,stars"), "a.jsonl": objects(review=TEXTS, stars=LABELS)}
    (tmp_path / name).write_text(rows[name])
    with pytest.raises(DataError, match="no field is called 'rating'; fields here: review, stars") as caught:
        propose_corpus([str(tmp_path / name)], told={"label": "rating"})
    assert caught.value.hint == "label=FIELD"


@pytest.mark.parametrize("names", [("a.en", "short.fr"), ("a.en", "a.fr")])
def test_two_languages_of_unequal_length_are_asked_about(tmp_path: Path, names: tuple[str, str]) -> None:
    files = [str(tmp_path / name) for name in names]
    for file, texts in zip(files, (TEXTS, OTHERS[:30]), strict=True):
        Path(file).write_text("\n".join(texts) + "\n")
    with pytest.raises(DataError, match=r"has 40 lines and .* has 30") as caught:
        propose_corpus(files)
    assert "--task language" in caught.value.hint
    assert propose_corpus(files, "documents").form == "documents"
    Path(files[1]).write_text("\n".join(OTHERS) + "\n")
    assert propose_corpus(files).form == "pairs"
