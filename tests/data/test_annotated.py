"""Readers for documents, labels and tags: what they read, and what they say of bad lines."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from regard.data.corpus import CorpusSpec
from regard.data.log import Log
from regard.data.preparation import prepare
from regard.data.reader import ReaderSpec
from regard.data.sample import Sample
from regard.data.tokenizer import TokenizerSpec
from regard.errors import DataError, SpecError
from regard.tasks.task import TaskSpec

CONLLU = """# sent_id = 1
# text = Don't look.
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVB\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
3\tlook\tlook\tVERB\tVB\t_\t0\troot\t_\t_
3.1\tup\tup\tADV\tRB\t_\t_\t_\t_\t_
4\t.\t.\tPUNCT\t.\t_\t3\tpunct\t_\t_

1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_
"""


def read(spec: dict[str, Any], log: Log | None = None) -> list[Sample]:
    return list(ReaderSpec.parse(spec).samples(log or Log("stop")))


def undivided(train: dict[str, Any]) -> CorpusSpec:
    """A corpus that keeps nothing back."""
    return CorpusSpec.parse({"kind": "files", "train": train, "split": {"validation": 0}})


def test_conllu_gives_words_and_tags_and_leaves_out_what_is_no_word(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    path.write_text(CONLLU)
    found = read({"kind": "conllu", "path": str(path)})
    assert [sample["words"] for sample in found] == [["Do", "n't", "look", "."], ["Yes"]]
    assert [sample["tags"] for sample in found] == [["AUX", "PART", "VERB", "PUNCT"], ["INTJ"]]
    assert found[0]["place"] == f"{path}:4"
    fine = read({"kind": "conllu", "path": str(path), "column": "xpos"})
    assert fine[0]["tags"] == ["VB", "RB", "VB", "."]


def test_gzip_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu.gz"
    path.write_bytes(gzip.compress(CONLLU.encode()))
    assert len(read({"kind": "conllu", "path": str(path)})) == 2


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1\tYes\tINTJ", "3 columns, and there must be 10"),
        ("one\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_", "'one' is no word's number"),
        ("1\tYes\tyes\t_\tUH\t_\t0\troot\t_\t_", "'Yes' has no tag"),
        ("1\t \tyes\tINTJ\tUH\t_\t0\troot\t_\t_", "there is no word"),
        ("1 Yes yes INTJ UH _ 0 root _ _", "1 columns"),
    ],
)
def test_a_malformed_line_is_located_and_its_sentence_left_out(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "bad.conllu"
    path.write_text(CONLLU + "\n" + line + "\n1\tNo\tno\tINTJ\tUH\t_\t0\troot\t_\t_\n\n" + CONLLU)
    with pytest.raises(DataError, match=f"{path}:12: not CoNLL-U: .*{reason}"):
        read({"kind": "conllu", "path": str(path)})
    log = Log("skip", tmp_path / "report.txt")
    assert len(read({"kind": "conllu", "path": str(path)}, log)) == 4
    log.close()
    assert (log.kept, log.skipped) == (4, 1)
    assert f"{path}:12" in (tmp_path / "report.txt").read_text()


def test_two_columns_by_tabs_or_spaces(tmp_path: Path) -> None:
    path = tmp_path / "tags.txt"
    path.write_text("-DOCSTART- -X- O\n\nEU NNP I-NP B-ORG\nrejects VBZ I-VP O\n\nhe\tPRP\n")
    found = read({"kind": "columns", "path": str(path)})
    assert [sample["tags"] for sample in found] == [["B-ORG", "O"], ["PRP"]]
    assert read({"kind": "columns", "path": str(path), "tag": 1})[0]["tags"] == ["NNP", "VBZ"]
    path.write_text("EU NNP\nalone\n")
    with pytest.raises(DataError, match=f"{path}:2: not a word and a tag"):
        read({"kind": "columns", "path": str(path)})


def test_labels_from_columns_and_from_json(tmp_path: Path) -> None:
    table, lines = tmp_path / "a.tsv", tmp_path / "a.jsonl"
    table.write_text("good\tfine film\tyes\nbad\tdull film\tno\n")
    spec = {"kind": "labels", "path": str(table), "label": 0, "text": 1, "second": 2}
    assert read(spec)[1] == {"label": "bad", "text": "dull film", "second": "no", "place": f"{table}:2"}
    lines.write_text('{"text": "fine film", "label": 1}\n{"text": "dull film", "label": 0}\n')
    assert [sample["label"] for sample in read({"kind": "labels", "path": str(lines)})] == ["1", "0"]


LINES = "fine film\tgood\ndull film\tbad\n" * 30
WORDS = "".join(f"w{n} T{n % 9}\n" for n in range(99))


@pytest.mark.parametrize(
    ("kind", "header", "content", "message"),
    [
        ("labels", "sentence\tlabel\n", LINES, r"'sentence' and 'label' look like the names of columns"),
        ("labels", '"Review Text"\tSentiment\n', LINES, "look like the names of columns"),
        ("labels", "avis\tSentiment\n", LINES[:44], "the label 'Sentiment' stands there and nowhere else"),
        ("labels", "avis\tnote\n", LINES, "the label 'note' stands there and nowhere else"),
        ("labels", "avis\tnote\n", "fine\t1\ndull\t0\n", "the label 'note' stands there and nowhere else"),
        ("tsv", "en\tfr\n", "cat\tchat\n", "'en' and 'fr' look like the names of columns"),
        ("tsv", "English\tFrench\n", "cat\tchat\n", "look like the names of columns"),
        ("tsv", "source_text\ttarget_text\n", "cat\tchat\n", "look like the names of columns"),
        ("columns", "Word POS\n", WORDS, "'Word' and 'POS' look like the names of columns"),
    ],
)
def test_a_header_is_asked_about_and_never_learned(
    tmp_path: Path, kind: str, header: str, content: str, message: str
) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(header + content)

    def learned(**settings: bool) -> list[Sample]:
        corpus = undivided({"kind": kind, "path": "a.tsv", **settings})
        return list(corpus.samples(corpus.forms()[0], "train", tmp_path, Log("stop")))

    with pytest.raises(DataError, match=f"{path}:1: .*{message}") as error:
        learned()
    assert "header: true" in error.value.hint
    headless, whole = learned(header=True), learned(header=False)
    path.write_text(content)
    plain = learned()
    assert [{**sample, "place": ""} for sample in plain] == [{**sample, "place": ""} for sample in headless]
    assert str(whole) != str(headless)


@pytest.mark.parametrize("first", ["no\tit", "it\tno", "no\tis", "he\tit", "id\tno", "is it\the is", "No\tno"])
def test_short_words_that_are_codes_of_languages_too_are_no_header(tmp_path: Path, first: str) -> None:
    (tmp_path / "a.tsv").write_text(f"{first}\ncat\tchat\n")
    assert len(read({"kind": "tsv", "path": str(tmp_path / "a.tsv")})) == 2


@pytest.mark.parametrize("first", ["en\tit", "no\tde", "src_no\ttgt_it", "id\ttext", "it\tEnglish", "he\teng"])
def test_such_words_beside_another_name_are_a_header(tmp_path: Path, first: str) -> None:
    (tmp_path / "a.tsv").write_text(f"{first}\ncat\tchat\n")
    with pytest.raises(DataError, match="look like the names of columns"):
        read({"kind": "tsv", "path": str(tmp_path / "a.tsv")})


def test_a_header_over_two_aligned_files_is_asked_about(tmp_path: Path) -> None:
    for name, first in (("a.en", "English"), ("a.fr", "Français")):
        (tmp_path / name).write_text(f"{first}\nx\n")
    spec = {"kind": "text", "source": str(tmp_path / "a.en"), "target": str(tmp_path / "a.fr")}
    with pytest.raises(DataError, match=r"a.en:1: 'English' and 'Français' look like"):
        read(spec)
    assert [sample["source"] for sample in read({**spec, "header": True})] == ["x"]
    assert [sample["source"] for sample in read({**spec, "header": False})] == ["English", "x"]


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("tsv", "Hi!\tHi.\n"),
        ("tsv", "No\tno\n"),
        ("tsv", "a\tb\n"),
        ("tsv", "Title\tTitre\n"),
        ("tsv", "English\tanglais\n"),
        ("labels", "a question of taste\tpos\n" + "dull\tneg\n" * 9),
        ("labels", "fine\tgood\ndull\tbad\n"),
        ("labels", "fine\tquestion\n" + "dull\tstatement\n" * 9),
        ("labels", "fine\tLOC\n" + "dull\tPER\n" * 60 + "odd\tORG\n"),  # another is alone too
        ("labels", "".join(f"text {n}\tclass {n % 50}\n" for n in range(200))),
        ("columns", "Word NN\nof IN\n"),
    ],
)
def test_ordinary_first_lines_raise_no_alarm(tmp_path: Path, kind: str, content: str) -> None:
    (tmp_path / "a.tsv").write_text(content)
    corpus = undivided({"kind": kind, "path": "a.tsv"})
    assert list(corpus.samples(corpus.forms()[0], "train", tmp_path, Log("stop")))


@pytest.mark.parametrize("count", [25, 5000])
def test_swapped_columns_are_asked_about(tmp_path: Path, count: int) -> None:
    (tmp_path / "a.tsv").write_text("".join(f"review {n}\t{n % 2}\n" for n in range(count)))
    train: dict[str, Any] = {"kind": "labels", "path": "a.tsv", "text": 1, "label": 0}
    most = min(count, 1000)
    with pytest.raises(
        DataError, match=f"a.tsv:1: 'review 0' and {most - 1} other labels for {most} texts: are the columns swapped"
    ) as error:
        list(undivided(train).samples("labels", "train", tmp_path, Log("stop")))
    assert "text: 0, label: 1; or many: true" in error.value.hint
    for settled in ({"text": 0, "label": 1}, {"many": True}):
        corpus = undivided({**train, **settled})
        assert len(list(corpus.samples("labels", "train", tmp_path, Log("stop")))) == count


def test_words_that_stand_where_tags_belong_are_asked_about(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"T{n % 9} w{n}\n" for n in range(99)))
    train: dict[str, Any] = {"kind": "columns", "path": "a.txt"}
    with pytest.raises(
        DataError, match=r"99 tags for 9 different words, such as 'w0': are the columns swapped"
    ) as error:
        list(undivided(train).samples("tags", "train", tmp_path, Log("stop")))
    assert "word: 1, tag: 0" in error.value.hint
    for settled in ({"word": 1, "tag": 0}, {"many": True}):
        corpus = undivided({**train, **settled})
        assert len(list(corpus.samples("tags", "train", tmp_path, Log("stop")))) == 1


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.tsv", "good\tfine\nbad\n", "2: too few columns: 1 of 2"),
        ("a.tsv", "good\tfine\n\t\n", "2: empty: text"),
        ("a.jsonl", '{"text": "a", "label": "b"}\n{"text": "a"}\n', "2: no text: 'label'"),
        ("a.jsonl", '{"text": "a", "label": "b"}\n[]\n', "2: not an object"),
        ("a.jsonl", '{"text": "a", "label": "b"}\n{\n', "2: not JSON"),
    ],
)
def test_a_bad_label_line_is_located(tmp_path: Path, name: str, content: str, reason: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=f"{tmp_path / name}:{reason}"):
        read({"kind": "labels", "path": str(tmp_path / name)})


def test_a_document_is_a_file_a_paragraph_or_a_line(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("one\ntwo\n\nthree\n\n\nfour\n")
    counts = {
        unit: [sample["text"] for sample in read({"kind": "documents", "path": str(path), "unit": unit}, Log())]
        for unit in ("file", "paragraph", "line")
    }
    assert counts["file"] == ["one\ntwo\n\nthree\n\n\nfour\n"]
    assert counts["paragraph"] == ["one\ntwo\n", "three\n", "four\n"]
    assert counts["line"] == ["one", "two", "three", "four"]


@pytest.mark.parametrize(("unit", "content", "line"), [("file", " \n\n", 1), ("file", "", 1), ("line", "a\n \nb\n", 2)])
def test_an_empty_document_is_located(tmp_path: Path, unit: str, content: str, line: int) -> None:
    path = tmp_path / "text.txt"
    path.write_text(content)
    with pytest.raises(DataError, match=f"{path}:{line}: empty document"):
        read({"kind": "documents", "path": str(path), "unit": unit})


def test_a_label_that_training_never_saw_is_an_error_with_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("fine\tgood\ndull\tbad\n")
    (tmp_path / "val.tsv").write_text("fine\tgood\nodd\tugly\n")
    readers = {
        split: {"kind": "labels", "path": f"{name}.tsv"} for split, name in (("train", "train"), ("validation", "val"))
    }
    corpus = CorpusSpec.parse({"kind": "files", **readers})
    with pytest.raises(DataError, match=f"{tmp_path}/val.tsv:2: label 'ugly' never occurs in training") as error:
        prepare(corpus, TaskSpec.parse("classification"), TokenizerSpec(pieces="word"), 50, tmp_path, tmp_path / "data")
    assert "bad, good" in str(error.value)


def test_a_tag_that_training_never_saw_is_an_error_with_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "train.conllu").write_text(CONLLU)
    (tmp_path / "dev.conllu").write_text(CONLLU.replace("INTJ", "X"))
    corpus = CorpusSpec.parse(
        {
            "kind": "files",
            "train": {"kind": "conllu", "path": "train.conllu"},
            "validation": {"kind": "conllu", "path": "dev.conllu"},
        }
    )
    with pytest.raises(DataError, match=r"dev.conllu:10: label 'X' never occurs"):
        prepare(corpus, TaskSpec.parse("tagging"), TokenizerSpec(pieces="given"), 50, tmp_path, tmp_path / "data")


@pytest.mark.parametrize(
    ("task", "corpus"), [("tagging", "grammaticality"), ("language", "copy"), ("regression", "en-fr")]
)
def test_a_corpus_of_another_form_is_refused_and_another_is_offered(tmp_path: Path, task: str, corpus: str) -> None:
    with pytest.raises(SpecError, match=f"{task} needs") as error:
        prepare(CorpusSpec.parse(corpus), TaskSpec.parse(task), TokenizerSpec(), 50, tmp_path, tmp_path / "data")
    assert "come from" in str(error.value)
    assert not (tmp_path / "data").exists()


def test_splits_of_two_forms_are_refused() -> None:
    with pytest.raises(SpecError, match="documents and tags"):
        CorpusSpec.parse(
            {
                "kind": "files",
                "train": {"kind": "conllu", "path": "a"},
                "validation": {"kind": "documents", "path": "b"},
            }
        )
