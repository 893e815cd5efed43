"""Splits made of the training data: by a hash of what is asked, or by a column; training keeps what it needs."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from regard.data.corpora import files
from regard.data.corpus import CorpusSpec
from regard.data.log import Log
from regard.data.preparation import prepare
from regard.data.prepared import Prepared
from regard.data.split import SplitSpec, hash_text, split_by_hash, split_by_text
from regard.data.tokenizer import TokenizerSpec
from regard.errors import DataError, SpecError
from regard.tasks.task import TaskSpec

TASKS = {"pairs": "translation", "documents": "language", "labels": "classification", "tags": "tagging"}
ROWS = [
    {
        "source": f"text {n}",
        "target": f"texte {n}",
        "text": f"text {n}",
        "label": f"class {n % 2}",
        "group": f"g{n % 30}",
    }
    | {"words": ["text", str(n)], "tags": ["N", "NUM"]}
    for n in range(600)
]


def make(folder: Path, form: str = "labels", rows: Any = None, **corpus: Any) -> tuple[Prepared, Log]:
    folder.mkdir(exist_ok=True)
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows or ROWS))
    tree = {"kind": "files", "train": "a.jsonl", **corpus}
    task, tokens = TaskSpec.parse(TASKS[form]), TokenizerSpec(pieces="word")
    return prepare(CorpusSpec.parse(tree), task, tokens, 50, folder, folder / "data")


def count(prepared: Prepared) -> dict[str, int]:
    return dict(prepared.facts["samples"])


@pytest.mark.parametrize("form", TASKS)
def test_every_form_is_split_by_what_a_model_is_asked(tmp_path: Path, form: str) -> None:
    ready, log = make(tmp_path / "a", form, split={"validation": 0.1, "test": 0.2})
    counts = count(ready)
    assert sum(counts.values()) == 600
    assert 30 < counts["validation"] < 90 and 80 < counts["test"] < 160
    assert log.notes == [f"kept back for {split}: {counts[split]} of 600 samples" for split in ("validation", "test")]
    # the order of the rows, and rows beside them, change nothing
    again, _ = make(tmp_path / "b", form, [*reversed(ROWS), *ROWS[:0]], split={"validation": 0.1, "test": 0.2})
    assert {str(one) for one in map(_asked, again.samples("test"))} == {
        str(one) for one in map(_asked, ready.samples("test"))
    }
    other, _ = make(tmp_path / "c", form, split={"validation": 0.1, "test": 0.2, "seed": 1})
    assert {str(one) for one in map(_asked, other.samples("test"))} != {
        str(one) for one in map(_asked, ready.samples("test"))
    }


def _asked(sample: dict[str, Any]) -> Any:
    return sample.get("text", sample.get("source", sample.get("words")))


def test_the_rule_is_the_one_that_the_built_in_corpora_have() -> None:
    for n in range(2000):
        assert split_by_hash(hash_text(f"text {n}"), 0.05, 0.05) == split_by_text(f"text {n}")
    assert split_by_hash(hash_text("x"), 0, 0) == "train"
    with pytest.raises(SpecError, match="leave nothing to train on"):
        SplitSpec(validation=0.5, test=0.5)


@pytest.mark.parametrize("form", TASKS)
def test_without_files_for_it_a_part_is_kept_back_for_validation_and_told(tmp_path: Path, form: str) -> None:
    ready, log = make(tmp_path / "a", form)
    counts = count(ready)
    assert 10 < counts["validation"] < 60 and counts["train"] + counts["validation"] == 600
    assert log.notes == [
        f"kept back for validation: {counts['validation']} of 600 samples (corpus.split.validation=0: none)"
    ]
    whole, silent = make(tmp_path / "b", form, split={"validation": 0})
    assert count(whole) == {"train": 600} and not silent.notes
    named, silent = make(tmp_path / "c", form, validation="a.jsonl")
    assert count(named) == {"train": 600, "validation": 600}


def test_no_more_than_some_are_kept_back_where_nobody_said_how_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST", 20)
    ready, _ = make(tmp_path / "a")
    assert count(ready) == {"train": 580, "validation": 20}
    other, _ = make(tmp_path / "b", rows=ROWS[::-1])
    first, second = ({sample["text"] for sample in one.samples("validation")} for one in (ready, other))
    assert first == second
    assert count(make(tmp_path / "d", split={"validation": 0.1})[0])["validation"] > 20


def test_rows_that_agree_in_a_column_stay_together(tmp_path: Path) -> None:
    ready, _ = make(tmp_path / "a", split={"validation": 0.2, "test": 0.2, "by": "group"})
    sides = [
        {int(sample["text"].split()[1]) % 30 for sample in ready.samples(split)} for split in ("validation", "test")
    ]
    assert all(sides) and not sides[0] & sides[1]
    assert count(ready)["validation"] == 20 * len(sides[0]) and count(ready)["test"] == 20 * len(sides[1])
    assert "group" not in ready.samples("test")[0]
    (tmp_path / "b").mkdir()
    (tmp_path / "b/a.txt").write_text("a\nb\n")
    train = {"kind": "documents", "path": "a.txt", "unit": "line"}
    with pytest.raises(SpecError, match=r"split.by: documents has no column 'author'"):
        make(tmp_path / "b", "documents", train=train, split={"by": "author"})
    with pytest.raises(DataError, match=r"fields here: source, .*; looked for: author"):
        make(tmp_path / "b", split={"by": "author"})


def test_a_label_that_only_the_kept_part_has_is_trained_on(tmp_path: Path) -> None:
    rows = [*ROWS, *({"text": f"odd {n}", "label": f"lone {n}"} for n in range(200))]
    ready, log = make(tmp_path / "a", rows=rows, train={"path": "a.jsonl", "many": True}, split={"validation": 0.2})
    assert len(ready.lexicon.labels) == 202
    assert any(note.startswith("given back by validation") for note in log.notes)
    assert not any("odd" in sample["text"] for sample in ready.samples("validation"))


@pytest.mark.parametrize("count_of", [1, 2, 3])
def test_a_corpus_of_a_few_samples_is_trained_on_whole(tmp_path: Path, count_of: int) -> None:
    for first in range(0, 60, count_of):
        ready, log = make(tmp_path / str(first), "pairs", ROWS[first : first + count_of])
        if not ready.has("validation"):
            assert count(ready) == {"train": count_of}
            assert log.notes == ["too few samples to keep any back for validation"]
        assert count(ready)["train"] > 0
    with pytest.raises(DataError, match=r"split.test: 0.01 of 3 samples came to none"):
        make(tmp_path / "a", "pairs", ROWS[:3], split={"test": 0.01})


def test_one_book_gives_its_end(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("".join(f"line {n}\n" for n in range(1000)))
    corpus = {"kind": "files", "train": "book.txt", "split": {"test": 0.1}}
    ready, log = prepare(
        CorpusSpec.parse(corpus), TaskSpec.parse("language"), TokenizerSpec(), 50, tmp_path, tmp_path / "d"
    )
    (validation,), (test,) = ready.samples("validation"), ready.samples("test")
    assert test["text"].endswith("line 999\n") and 880 < len(test["text"]) < 900
    whole = (tmp_path / "book.txt").read_text()
    assert whole.endswith(validation["text"] + test["text"])
    assert [note.partition(" (")[0] for note in log.notes] == [
        f"kept back for {split}: the end of each document, as there are few" for split in ("validation", "test")
    ]


def test_what_two_splits_have_in_common_is_counted(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name, rows in (("val", ROWS[:40]), ("test", [*ROWS[590:], {"text": "new", "label": "class 1"}])):
        (tmp_path / f"a/{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, log = make(tmp_path / "a", validation="val.jsonl", test="test.jsonl")
    assert log.notes == [
        "40 of 40 samples of validation are trained on too",
        "10 of 11 samples of test are trained on too",
    ]


def test_what_is_given_twice_is_refused() -> None:
    train = {"kind": "documents", "path": "a.txt"}
    with pytest.raises(SpecError, match="and there are files for it too"):
        CorpusSpec.parse({"train": train, "test": train, "split": {"test": 0.1}})
    with pytest.raises(SpecError, match="holdout"):
        CorpusSpec.parse({"train": train, "holdout": 0.1, "split": {"validation": 0.1}})


def test_standard_input_is_split_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO("".join(f"text {n}\ttexte {n}\n" for n in range(200)).encode())

    monkeypatch.setattr("sys.stdin", Stdin())
    counts = count(make(tmp_path / "a", "pairs", train={"kind": "tsv", "path": "-"}, split={"test": 0.2})[0])
    assert sum(counts.values()) == 200 and counts["test"] > 10
