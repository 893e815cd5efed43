"""The verbs before training, as a stranger types them: looking at data, writing a run file, and being asked."""

from __future__ import annotations

import io
import json
import shlex
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import yaml

from regard.cli.prepare import settle_doubts
from regard.cli.progress import Work
from regard.config import Document, assignments, read, spell_word
from regard.errors import Doubt
from tests.cli.test_cli import Done, regard

ROWS = [f"the film number {n} was {'fine' if n % 2 else 'dull'}\t{'good' if n % 2 else 'bad'}" for n in range(60)]
LABELS = "\n".join(ROWS) + "\n"
EN = "The little dog is in the garden and it was happy {}."
FR = "Le petit chien est dans le jardin et il est content {}."
PAIRS = "".join(f"{EN.format(n)}\t{FR.format(n)}\n" for n in range(30))
RUN: dict[str, Any] = {
    "task": "classification",
    "corpus": {"train": "a.tsv"},
    "tokenizer": {"vocabulary": 100},
    "model": {"kind": "bert-tiny", "width": 16, "depth": 1, "heads": 2, "context": 64},
    "train": {"steps": 2},
    "device": "cpu",
}


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    def isatty(self) -> bool:
        return True


def write(path: Path, content: str) -> str:
    path.write_text(content)
    return str(path)


def look(*words: str) -> Any:
    done = regard("data", *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_look_tells_labels_lengths_duplicates_and_examples(tmp_path: Path) -> None:
    file = write(tmp_path / "train.tsv", LABELS + ROWS[0] + "\n\tbad\n")
    other = write(tmp_path / "dev.tsv", ROWS[3] + "\nsomething else\todd\n")
    done = regard("data", file, other)
    assert done.returncode == 0, done.stderr
    told = done.stdout
    assert "labels, for the task classification" in told and "read as {kind: tsv}" in told
    assert "train: 61 samples" in told and "validation: 2 samples" in told
    assert "bad 31 (51%), good 30 (49%)" in told
    assert "1 × empty, such as train.tsv:62" in told
    assert "1 come again as they are" in told
    assert "1 of them are trained on too" in told
    assert "labels that train hasn't: odd" in told
    assert "text: the film number 0 was dull" in told
    assert "next: regard new --data" in done.stderr
    assert all(len(line) <= 80 for line in told.splitlines())


def test_a_look_as_json_is_one_object(tmp_path: Path) -> None:
    found = look(write(tmp_path / "a.tsv", LABELS))
    part = found["splits"]["train"]
    assert found["form"] == "labels" and part["samples"] == 60 and part["labels"] == {"bad": 30, "good": 30}
    assert part["lengths"]["text words"] == {"median": 6, "p95": 6, "longest": 6}
    assert len(part["examples"]) == 3 and part["exact"]


def test_suspicious_pairs_are_told_with_their_places(tmp_path: Path) -> None:
    odd = f"{FR.format('x')}\t{EN.format('x')}\nSame here, and the same there.\tSame here, and the same there.\n"
    file = write(tmp_path / "a.tsv", PAIRS + odd + f"{EN.format('y')}\tOui.\n")
    told = regard("data", file).stdout
    assert "en to fr, guessed by small words and scripts" in told
    assert "1 × sides swapped, such as a.tsv:31" in told
    assert "1 × source equal to target, such as a.tsv:32" in told
    assert "such as a.tsv:33" in told


def test_a_doubt_is_told_beside_what_was_made_of_it(tmp_path: Path) -> None:
    file = write(tmp_path / "a.tsv", "avis\tnote\n" + LABELS)
    told = regard("data", file).stdout
    assert "the label 'note' stands there and nowhere else" in told
    assert "looked at as: leave the line out (corpus.train.header=true)" in told
    assert look(file)["splits"]["train"]["samples"] == 60
    assert look(file, "header=false")["splits"]["train"]["samples"] == 61
    assert look(file, "corpus.train.header=true")["doubts"] == []


def test_numbers_of_many_kinds_are_doubted_as_labels(tmp_path: Path) -> None:
    rows = "".join(f"sentence number {n} of them\t{n % 30}.5\n" for n in range(200))
    told = regard("data", write(tmp_path / "a.tsv", rows), "text=0", "label=1").stdout
    assert "30 × labels that are numbers: a score rather than classes?" in told


def test_a_look_at_a_run_file_reads_as_the_run_would(tmp_path: Path) -> None:
    write(tmp_path / "a.tsv", LABELS)
    file = write(tmp_path / "run.yaml", json.dumps({**RUN, "out": str(tmp_path / "run")}))
    found = look(file, f"data={tmp_path}")
    assert set(found["splits"]) == {"train", "validation"}
    assert sum(part["samples"] for part in found["splits"].values()) == 60
    wrong = regard("data", file, "--task", "language")
    assert wrong.returncode == 2 and "a run file says all of it" in wrong.stderr


def test_standard_input_is_looked_at_once_so_a_doubt_about_it_is_an_error() -> None:
    for content, status in ((LABELS, 0), ("sentence\tsentiment\n" + LABELS, 3)):
        with patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode()))):
            done = regard("data", "-", "--task", "classification")
        assert done.returncode == status, done.stderr
        assert "train: 60 samples" in done.stdout or "corpus.train.header=true (leave" in done.stderr


def test_mistakes_of_a_look_are_told(tmp_path: Path) -> None:
    gone = regard("data", str(tmp_path / "gone.csv"))
    assert gone.returncode == 3 and "No such file" in gone.stderr
    unknown = regard("data", write(tmp_path / "a.tsv", LABELS), "--task", "poetry")
    assert unknown.returncode == 2 and "known: algorithm" in unknown.stderr
    tags = write(tmp_path / "a.conllu", "1\tcat\tcat\tNOUN\n\n")
    strange = regard("data", tags, "--task", "translation")
    assert strange.returncode == 2 and "it holds tags, and translation needs pairs" in strange.stderr


def test_training_tells_what_it_read(tmp_path: Path) -> None:
    done = begin(tmp_path, LABELS)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("data: ")]
    assert "2 labels: " in done.stderr and "tokens of text: median" in done.stderr
    assert "data: such as text: the film number 0 was dull, label: bad" in lines
    assert len(lines) <= 8
    assert "data:" not in done.stdout


def test_making_a_corpus_ready_tells_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = list[Work]()

    def watch(work: Work) -> nullcontext[None]:
        told.append(work)
        return nullcontext()

    monkeypatch.setattr("regard.cli.progress.print_now_and_then", watch)
    assert begin(tmp_path, LABELS).returncode == 0
    known = {work.what: (work.done, work.total) for work in told}
    assert known["reading the corpus, samples"] == (len(ROWS), None)
    assert "learning tokens" in known
    done, total = known["cutting the corpus into tokens, samples"]
    assert done == total and 0 < done <= len(ROWS)  # some are kept back


def begin(folder: Path, content: str, answers: str | None = None) -> Done:
    """Train from a small file; `answers`: what somebody at a terminal types."""
    write(folder / "a.tsv", content)
    file = write(folder / "run.yaml", json.dumps({**RUN, "data": str(folder), "out": str(folder / "run")}))
    if answers is None:
        return regard("train", file, "--json")
    with patch.object(sys, "stdin", Terminal(answers)), patch("regard.cli.prepare.is_attended", return_value=True):
        return regard("train", file, "--json")


def test_a_doubt_elsewhere_than_on_a_terminal_is_an_error_that_can_be_settled(tmp_path: Path) -> None:
    done = begin(tmp_path, "sentence\tsentiment\n" + LABELS)
    assert done.returncode == 3
    assert "corpus.train.header=true (leave the line out)" in done.stderr
    settled = regard("train", str(tmp_path / "run.yaml"), "corpus.train.header=true")
    assert settled.returncode == 0, settled.stderr


def test_a_doubt_on_a_terminal_is_a_question_and_its_answer_is_recorded(tmp_path: Path) -> None:
    done = begin(tmp_path, "sentence\tsentiment\n" + LABELS, "what?\n9\n2\n")
    assert done.returncode == 0, done.stderr
    assert "[2] leave the line out  (corpus.train.header=true)" in done.stderr
    assert done.stderr.count("which?") == 3
    kept = read(tmp_path / "run" / "run.yaml").tree["corpus"]["train"]
    assert kept["header"] is True and kept["path"] == "a.tsv"
    assert json.loads(done.stdout)["steps"] == 2


@pytest.mark.parametrize("answer", ["q\n", ""])
def test_who_does_not_answer_leaves_nothing_behind(tmp_path: Path, answer: str) -> None:
    done = begin(tmp_path, "sentence\tsentiment\n" + LABELS, answer)
    assert done.returncode == 3 and "look like the names of columns" in done.stderr
    assert not (tmp_path / "run").exists()


def test_an_answer_that_names_another_reader_keeps_the_files(tmp_path: Path) -> None:
    commas = LABELS.replace("\t", ",")
    done = begin(tmp_path, commas, "1\n")
    assert done.returncode == 0, done.stderr
    assert read(tmp_path / "run" / "run.yaml").tree["corpus"]["train"]["kind"] == "csv"


def test_a_doubt_without_a_way_out_is_an_error_on_a_terminal_too() -> None:
    def fail(document: Document) -> None:
        raise Doubt("odd", "think", {})

    with patch("regard.cli.prepare.is_attended", return_value=True), pytest.raises(Doubt, match="odd"):
        settle_doubts(fail, Document({}))


def test_a_run_file_is_written_and_says_what_to_type_next(tmp_path: Path) -> None:
    file, out = write(tmp_path / "reviews.tsv", LABELS), tmp_path / "new" / "run.yaml"
    done = regard("new", "--data", file, "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert f"next: regard train {out}" in done.stderr and str(out) in done.stdout
    tree = yaml.safe_load(out.read_text())
    assert tree["task"] == "classification" and tree["out"] == "runs/reviews"
    again = regard("new", "--data", file, "--out", str(out))
    assert again.returncode == 3 and "is there already" in again.stderr
    assert regard("new", "regression", "--out", str(out), "--force").returncode == 0
    assert yaml.safe_load(out.read_text())["corpus"]["kind"] == "adding"


def test_files_may_follow_each_other(tmp_path: Path) -> None:
    for name, text in (("a.en", EN), ("a.fr", FR)):
        write(tmp_path / name, "".join(text.format(n) + "\n" for n in range(9)))
    out = tmp_path / "run.yaml"
    done = regard("new", "translation", "--data", str(tmp_path / "a.en"), str(tmp_path / "a.fr"), "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert yaml.safe_load(out.read_text())["corpus"]["train"]["target"] == str(tmp_path / "a.fr")


def test_an_unknown_task_is_told(tmp_path: Path) -> None:
    done = regard("new", "poetry", "--out", str(tmp_path / "run.yaml"))
    assert done.returncode == 2 and "a task: algorithm" in done.stderr
    assert not (tmp_path / "run.yaml").exists()


@pytest.mark.parametrize("value", [True, None, 3, "text", "7", "no", "two words", "a: b", ["a.csv", "b.csv"], "l'été"])
def test_a_word_for_a_setting_reads_back(value: Any) -> None:
    (word,) = shlex.split(spell_word("key", value))
    assert assignments([word]) == {"key": value}


def test_lines_that_are_not_utf8_are_told_with_the_encoding_to_try(tmp_path: Path) -> None:
    (tmp_path / "some.tsv").write_bytes(LABELS.encode() + "un café\tgood\n".encode("latin-1"))
    done = regard("data", str(tmp_path / "some.tsv"))
    assert done.returncode == 0 and "encoding=latin-1" in done.stdout, done.stderr
    for side in ("a.en", "a.fr"):
        (tmp_path / side).write_bytes("un café\n".encode("latin-1") * 30)
    sides = [str(tmp_path / "a.en"), str(tmp_path / "a.fr")]
    for words in (["data", *sides], ["new", "--out", str(tmp_path / "run.yaml"), "--data", *sides]):
        done = regard(*words)
        assert done.returncode == 3 and "30 skipped (bad UTF-8 60)" in done.stderr, done.stdout
        assert "encoding=latin-1" in done.stderr


def test_swapped_columns_that_were_typed_are_doubted_and_never_swapped_in_silence(tmp_path: Path) -> None:
    rows = "".join(row.replace("\t", ",") + "\n" for row in ROWS)
    file, run = write(tmp_path / "a.csv", f"review,stars\n{rows}"), tmp_path / "run.yaml"
    typed = ["text=stars", "label=review"]
    done = regard("data", file, *typed)
    assert "are the columns swapped?" in " ".join(done.stdout.split())
    assert "a.csv text=review label=stars" in done.stderr
    done = regard("new", "--out", str(run), "--data", file, *typed)
    assert done.returncode == 3 and "are the columns swapped?" in done.stderr and not run.exists()
    assert "corpus.train.many=true" in done.stderr
    done = regard("new", "--out", str(run), "--data", file, *typed, "corpus.train.many=true")
    assert done.returncode == 0, done.stderr
    train = yaml.safe_load(run.read_text())["corpus"]["train"]
    assert train["text"] == "stars" and train["label"] == "review"


def test_a_new_run_file_tells_the_doubts_that_were_settled_for_it(tmp_path: Path) -> None:
    rows = "".join(row.replace("\t", ",") + "\n" for row in ROWS)
    files = [write(tmp_path / "train.csv", f"review,stars\n{rows}"), write(tmp_path / "dev.csv", f"body,class\n{rows}")]
    done = regard("new", "--out", str(tmp_path / "run.yaml"), "--data", *files)
    assert done.returncode == 0, done.stderr
    told = " ".join(done.stdout.split())  # lines end where the folder's name makes them
    assert "doubt: " in told and "fields here: body, class" in told
