"""The standard library as documents: what belongs to it, and who sees what."""

from __future__ import annotations

import ast
import json.decoder
from pathlib import Path

import pytest

from regard.data.corpora.python_stdlib import Split, documents, names
from regard.data.split import split_by_text
from regard.errors import DataError

SPLITS: tuple[Split, ...] = ("train", "validation", "test")


def written(folder: Path, files: dict[str, bytes]) -> Path:
    """A library of these files."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def everything(folder: Path | None = None) -> dict[str, str]:
    return dict(document for split in SPLITS for document in documents(split, folder))


def test_documents_are_the_library_of_the_running_python() -> None:
    found = everything()
    assert len(found) > 400
    assert found["json/decoder.py"] == Path(json.decoder.__file__).read_text(encoding="utf-8")
    assert sum(map(len, found.values())) > 5_000_000
    ast.parse(found["dataclasses.py"])


def test_the_order_is_by_name_and_always_the_same() -> None:
    first = [name for name, _ in documents("train")]
    assert first == sorted(first) == [name for name, _ in documents("train")]


def test_splits_share_nothing_and_have_their_shares() -> None:
    found = [{name for name, _ in documents(split)} for split in SPLITS]
    whole = len(set().union(*found))
    assert sum(map(len, found)) == whole
    assert 0.85 < len(found[0]) / whole < 0.95
    assert all(0.02 < len(names) / whole < 0.09 for names in found[1:])


@pytest.mark.parametrize(
    ("name", "split"),
    [("json/decoder.py", "train"), ("ast.py", "train"), ("pathlib.py", "validation"), ("enum.py", "test")],
)
def test_the_split_of_a_file_is_the_same_on_every_machine(name: str, split: Split) -> None:
    assert split_by_text(name) == split


def test_tests_and_what_the_machine_adds_are_left_out(tmp_path: Path) -> None:
    strays = [
        "site-packages/torch/nn.py", "test/test_json.py", "idlelib/idle_test/test_run.py", "lib2to3/tests/data/a.py",
        "unittest/test/support.py", "json/__pycache__/decoder.py", "ensurepip/_bundled/pip.py", "sitecustomize.py",
        "_sysconfigdata__linux.py", "config-3.11/python-config.py", "dist-packages/apt.py", "mine.py",
    ]  # fmt: skip
    own = ["abc.py", "ensurepip/__main__.py", "idlelib/run.py", "json/decoder.py", "unittest/case.py"]
    library = written(tmp_path, dict.fromkeys(strays + own, b"value = 1\n"))
    assert names(library) == own == sorted(everything(library))


def test_a_file_that_is_empty_or_not_utf8_is_left_out(tmp_path: Path) -> None:
    library = written(
        tmp_path, {"abc.py": "é = 1\n".encode(), "json/__init__.py": b"\n", "ast.py": "é = 1\n".encode("latin-1")}
    )
    assert everything(library) == {"abc.py": "é = 1\n"}


def test_lines_end_alike_on_every_system(tmp_path: Path) -> None:
    assert everything(written(tmp_path, {"abc.py": b"a = 1\r\nb = 2\r\n"})) == {"abc.py": "a = 1\nb = 2\n"}


@pytest.mark.parametrize("files", [{}, {"json/decoder.pyc": b"\0"}, {"mine.py": b"value = 1\n"}])
def test_a_library_without_sources_is_told(tmp_path: Path, files: dict[str, bytes]) -> None:
    with pytest.raises(DataError, match="no source of Python's standard library, though the folder is there"):
        documents("train", written(tmp_path, files))


def test_a_library_that_is_no_folder_is_told(tmp_path: Path) -> None:
    library = tmp_path / "python311.zip"
    library.write_bytes(b"PK")
    with pytest.raises(DataError, match=r"python311\.zip: no source .* which isn't a folder"):
        documents("train", library)


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(ValueError, match="combinations is none of train, validation, test"):
        documents("combinations")  # type: ignore[arg-type]
