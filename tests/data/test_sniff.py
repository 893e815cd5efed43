"""A look at files: reader, form, fields and doubts as values, so that somebody can be asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from regard.data.sniff import sniff, take_way
from regard.errors import DataError

NAMED = [{"id": n, "review": f"text {n}", "stars": n % 2} for n in range(40)]
PAIRED = [{"translation": {"en": f"cat {n}", "fr": f"chat {n}"}} for n in range(40)]
CASES: list[tuple[str, str, str, str, dict[str, Any], int]] = [
    # name, content, kind, form, settings that were found, doubts
    ("a.csv", "id,review,stars\n" + "".join(f"{n},text {n},{n % 2}\n" for n in range(40)), "csv", "labels",
     {"text": "review", "label": "stars"}, 1),
    ("a.csv", "".join(f"text {n};{n % 2}\n" for n in range(40)), "csv", "labels", {}, 0),
    ("a.tsv", "en\tfr\n" + "".join(f"cat {n}\tchat {n}\n" for n in range(40)), "tsv", "pairs",
     {"source": "en", "target": "fr"}, 1),
    ("a.tsv", "".join(f"cat {n}\tchat {n}\n" for n in range(40)), "tsv", "pairs", {}, 0),
    ("a.tsv", "".join(f"cat {n},chat {n}\n" for n in range(40)), "csv", "pairs", {"delimiter": ","}, 1),
    ("a.tsv", "".join(f"{n % 2}\ttext {n}\n" for n in range(40)), "labels", "labels",
     {"text": 1, "label": 0}, 1),
    ("a.tsv", "EU\tORG\nrejects\tO\n\nyes\tO\n", "columns", "tags", {}, 0),
    ("a.jsonl", "".join(json.dumps(row) + "\n" for row in NAMED), "jsonl", "labels",
     {"text": "review", "label": "stars"}, 1),
    ("a.json", json.dumps(PAIRED), "json", "pairs", {"source": "translation.en", "target": "translation.fr"}, 1),
    ("a.txt", "It was a dark night.\nIt rained.\n", "documents", "documents", {}, 0),
    ("a.conllu", "1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_\n", "conllu", "tags", {}, 0),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "kind", "form", "settings", "doubts"), CASES)
def test_a_look_finds_the_reader_its_form_and_its_columns(
    tmp_path: Path, name: str, content: str, kind: str, form: str, settings: dict[str, Any], doubts: int
) -> None:
    (tmp_path / name).write_text(content)
    found = sniff(name, folder=tmp_path)
    assert (found.reader.kind, found.form, len(found.doubts)) == (kind, form, doubts)
    assert {key: found.reader.fields()[key] for key in settings} == settings
    assert found.samples and not found.log.skipped
    assert found.reader.fields()["path"] == name  # it stands in a run file as it was written


def test_each_doubt_has_the_ways_that_settle_it(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("en\tfr\n" + "".join(f"cat {n}\tchat {n}\n" for n in range(40)))
    found = sniff("a.tsv", "pairs", tmp_path)
    (doubt,) = found.doubts
    counts = {}
    for meaning, way in doubt.ways.items():
        reader = take_way(
            sniff("a.tsv", "pairs", tmp_path, {"kind": "tsv", "header": False}).reader.replace(header=None), way
        )
        counts[meaning] = len(list(reader.under(tmp_path).read("pairs", found.log)))
    assert counts == {
        "columns by name: source: en, target: fr": 40,
        "leave the line out": 40,
        "it is a sample like others": 41,
    }


def test_columns_that_are_swapped_are_in_doubt(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("".join(f"{n % 2},text {n}\n" for n in range(40)))
    found = sniff("a.csv", "labels", tmp_path)
    assert [one["text"] for one in found.samples[:2]] == ["text 0", "text 1"]
    assert found.doubts[0].ways["swap them"] == {"text": 1, "label": 0}


def test_a_file_that_isnt_there_is_an_error_and_one_that_says_nothing_has_no_samples(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        sniff("nowhere", folder=tmp_path)
    (tmp_path / "a.txt").write_bytes("été\n".encode("latin-1"))
    found = sniff("a.txt", folder=tmp_path)
    assert not found.samples and found.log.reasons["bad UTF-8"] == 1
    assert "encoding: latin-1" in found.log.advise()
