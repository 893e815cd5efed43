"""Columns of any type on disk, and arrays in lines of JSON: nothing is lost, and damage is found out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from regard.data.array import Array, Dtype, embed, extract
from regard.data.column import Column, ColumnSpec, Lengths, write_column
from regard.data.lexicon import NAME, Lexicon
from regard.data.prepared import Prepared
from regard.data.sample import FormSpec
from regard.errors import CheckpointError, SpecError

OLD = Path(__file__).parent.parent / "fixtures" / "0.1"
VALUES = np.array([0, 1, 2, 3, 100, 127])


def written(folder: Path, spec: ColumnSpec, samples: list[Any]) -> Column:
    with write_column(folder / "train.x", spec) as add:
        for sample in samples:
            add(sample)
    return Column(folder / "train.x", spec)


@pytest.mark.parametrize("dtype", get_args(Dtype))
def test_every_type_comes_back_as_it_was(tmp_path: Path, dtype: Dtype) -> None:
    samples = [VALUES.astype(dtype)[:n].reshape(-1, 1, 2) for n in (6, 0, 4)]
    column = written(tmp_path, ColumnSpec(dtype=dtype, shape=(None, 1, 2)), samples)
    assert column.is_whole() and len(column) == 3
    for n, sample in enumerate(samples):
        found = column.read(n)
        assert found.dtype == sample.dtype and found.shape == sample.shape and (found == sample).all()
        found[...] = 0  # it is the reader's own
    assert list(Lengths(column)) == [(3,), (0,), (2,)]
    packed = json.loads(json.dumps(embed(samples[0])))
    again = extract(packed)
    assert again is not None and again.dtype == dtype and (again == samples[0]).all()


def test_what_has_one_shape_counts_as_one(tmp_path: Path) -> None:
    images = [np.full((4, 3, 2), n, np.uint8) for n in range(3)]
    column = written(tmp_path, ColumnSpec(dtype="uint8", shape=(4, 3, 2), below=3), images)
    assert column.is_whole() and list(Lengths(column)) == [(1,)] * 3
    assert all((column.read(n) == image).all() for n, image in enumerate(images))
    alone = written(tmp_path, ColumnSpec(dtype="float32", shape=()), [np.float32(n).reshape(()) for n in range(3)])
    assert alone.is_whole() and alone[2] == [2.0] and alone.read(2).shape == ()


def test_floats_keep_every_bit(tmp_path: Path) -> None:
    strange = np.array([-0.0, 5e-324, 1 / 3, np.nan, np.inf, -np.inf])
    again = extract(json.loads(json.dumps(embed(strange))))
    assert again is not None and again.tobytes() == strange.tobytes()
    turned = np.arange(6, dtype=np.float32).reshape(2, 3).T  # not in the order in which it is written
    column = written(tmp_path, ColumnSpec(dtype="float32", shape=(3, 2)), [turned])
    assert (column.read(0) == turned).all()
    packed = extract(embed(turned))
    assert packed is not None and (packed == turned).all()


@pytest.mark.parametrize(
    ("spec", "sample", "reason"),
    [
        ({"dtype": "uint8"}, np.zeros(3, np.int64), r"int64 \(3,\), and uint8 \(None,\) is wanted"),
        ({"dtype": "uint8", "shape": [2]}, np.zeros(3, np.uint8), r"uint8 \(3,\), and uint8 \(2,\) is wanted"),
        ({"dtype": "uint8", "shape": [None, 2]}, np.zeros(3, np.uint8), r"uint8 \(3,\), and"),
        ({"dtype": "uint8", "shape": [None, 2]}, np.zeros((3, 1), np.uint8), r"uint8 \(3, 1\), and"),
        ({"dtype": "float32"}, np.array([np.nan], np.float32), "aren't finite"),
        ({"dtype": "float32", "least": 0}, np.array([-0.5], np.float32), "below 0"),
        ({"dtype": "float32", "below": 1}, np.array([1.0], np.float32), "not below 1"),
    ],
)
def test_another_thing_than_was_declared_is_refused(spec: dict[str, Any], sample: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        ColumnSpec.parse(spec).pack(sample)


@pytest.mark.parametrize(
    ("spec", "name", "content"),
    [
        ({"shape": [2]}, "train.x", np.array([0, 1, 2], "<f4")),  # half a sample
        ({"shape": [2]}, "train.x", np.array([0, 1, 2, 9], "<f4")),  # out of bounds
        ({"shape": [2]}, "train.x", np.array([0, 1, 2, -9], "<f4")),
        ({"shape": [2]}, "train.x", np.array([0, 1, 2, np.nan], "<f4")),
        ({"shape": [2]}, "train.x.ends", np.array([0, 2], "<i8")),  # all there, and not one each
        ({"shape": [None, 1]}, "train.x.ends", np.array([3, 2], "<i8")),
        ({"shape": [None, 1]}, "train.x.ends", np.array([2**63 - 1, -(2**63)], "<i8")),
        ({"shape": [None, 1]}, "train.x.ends", np.array([1, 3], "<i8")),
    ],
)
def test_damage_is_found_out(tmp_path: Path, spec: dict[str, Any], name: str, content: Any) -> None:
    column = ColumnSpec.parse(spec | {"dtype": "float32", "least": -5, "below": 5})
    samples = [np.array(pair, np.float32).reshape(-1, *column.shape[1:]) for pair in ([0, 1], [2, 3])]
    assert written(tmp_path, column, samples).is_whole()
    (tmp_path / name).write_bytes(content.tobytes())
    assert not Column(tmp_path / "train.x", column).is_whole()


def test_tokens_are_told_by_their_bound_alone_as_ever() -> None:
    assert ColumnSpec(below=400).to_fact() == 400
    assert ColumnSpec.of_fact(400) == ColumnSpec(below=400)
    for spec in (
        ColumnSpec(),
        ColumnSpec(below=0.5),
        ColumnSpec(below=400, least=1),
        ColumnSpec(dtype="uint8", below=4),
        ColumnSpec(dtype="float32", shape=(None, 2), least=-1.5),
    ):
        assert ColumnSpec.of_fact(json.loads(json.dumps(spec.to_fact()))) == spec
    with pytest.raises(SpecError, match="only the first axis may differ"):
        ColumnSpec(shape=(2, None))


@pytest.mark.parametrize("name", ["translation", "language", "classification", "tagging"])
def test_a_corpus_made_ready_by_an_earlier_version_is_read_as_it_was(name: str) -> None:
    prepared = Prepared.load(OLD / name / "data")
    facts = json.loads((OLD / name / "data" / "data.json").read_text())
    assert {key: column.spec.to_fact() for key, column in prepared.columns.items()} == facts["columns"]
    assert prepared.digest == facts["digest"] and prepared.lexicon.words is not None
    assert all(type(number) is int for column in prepared.columns.values() for number in column[0])
    assert len(prepared.samples("validation")) == facts["samples"]["validation"]


@pytest.mark.parametrize(
    "fact",
    [True, "400", None, {}, {"dtype": "object"}, {"dtype": "uint8", "shape": [None, None]}, {"shape": [0]}, {"x": 1}],
)
def test_a_column_that_says_nonsense_of_itself_is_damaged(tmp_path: Path, fact: Any) -> None:
    for path in (OLD / "language" / "data").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    facts = json.loads((tmp_path / "data.json").read_text())
    (tmp_path / "data.json").write_text(json.dumps(facts | {"columns": {"text": fact}}))
    if fact == {}:  # no bound is a bound that all numbers keep
        assert Prepared.load(tmp_path).columns["text"].spec == ColumnSpec()
        return
    with pytest.raises(CheckpointError, match="damaged"):
        Prepared.load(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"dtype": "uint16"},
        {"dtype": ["uint8"]},
        {"shape": [2]},
        {"shape": [2, 3, 1]},
        {"shape": [2, -3]},
        {"shape": [2, True]},
        {"shape": "23"},
        {"shape": [2**40, 2**40]},
        {"base64": "AAA"},
        {"base64": "AAAAAAA!"},
        {"base64": 5},
        {"base64": None},
    ],
)
def test_a_line_that_was_changed_has_no_array(changes: dict[str, Any]) -> None:
    field = Array("uint8", 2)
    packed = embed(np.arange(6, dtype=np.uint8).reshape(2, 3))
    assert field.fits(extract(packed)) and not field.fits(extract(packed | changes))
    others: list[Any] = [None, [], "AAAA", 3, {}]
    assert [extract(other) for other in others] == [None] * len(others)


@pytest.mark.parametrize(
    ("form", "sample", "fault"),
    [
        ("pairs", {"source": "a"}, "it has no target"),
        ("pairs", {"source": "a", "target": 1}, "target is int, and must be str"),
        ("pairs", ["a"], "it is list, not a table of fields"),
        ("labels", {"text": "a", "label": "b", "second": 1}, "second is int"),
        ("labels", {"text": "a", "label": "b", "size": True}, "size isn't a whole number"),
        ("tags", {"words": ["a"], "tags": ["b", "c"]}, "words and tags aren't equally long"),
        ("tags", {"words": ["a"], "tags": [1]}, "tags is list, and must be a list of str"),
        ("series", {"values": [1, 0.5], "marks": [0, 1], "target": "1"}, "target is str, and must be int or float"),
        ("series", {"values": [1, 0.5], "marks": [0, 1], "target": 1}, ""),
        ("labels", {"text": "a", "label": "b", "second": "c", "place": "x:1", "size": 3}, ""),
    ],
)
def test_a_form_says_what_is_wrong_with_a_sample(form: str, sample: Any, fault: str) -> None:
    found = FormSpec.parse(form).find_fault(sample)
    assert found.startswith(fault) if fault else not found


def test_a_lexicon_without_words_has_one_file() -> None:
    lexicon = Lexicon(None, ["one", "two"])
    files = lexicon.files()
    assert set(files) == {NAME}
    assert Lexicon.read(files.get, "here") == lexicon
