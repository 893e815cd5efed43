"""Every public name shows an example in its docstring, and the examples run."""

from __future__ import annotations

import doctest
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.core.plugins import LOADED

SMALL = {"width": 16, "depth": 1, "heads": 2}
FIRST = {"kind": "en-fr", "train": 60, "validation": 8, "test": 8, "level": "first"}
HALVES = Path(__file__).parent / "fixtures/pictures/halves.npz"
RUNS: dict[str, dict[str, Any]] = {
    "en-fr": {"task": "translation", "corpus": FIRST, "model": {"kind": "transformer-tiny", **SMALL}},
    "en-fr-2": {"task": "translation", "corpus": FIRST, "model": {"kind": "transformer-tiny", **SMALL}, "seed": 2},
    "text": {"task": {"kind": "language", "context": 32}, "corpus": FIRST, "model": {"kind": "decoder-tiny", **SMALL}},
    "masked": {"task": {"kind": "masking", "context": 32}, "corpus": FIRST, "model": {"kind": "bert-tiny", **SMALL}},
    "labels": {
        "task": "classification",
        "corpus": {**FIRST, "kind": "grammaticality"},
        "model": {"kind": "bert-tiny", **SMALL},
    },
    "tags": {"task": "tagging", "corpus": FIRST, "model": {"kind": "bert-tiny", **SMALL}},
    "scenes": {
        "task": "captioning",
        "corpus": {"kind": "scenes", "train": 20, "validation": 4, "test": 4, "combinations": 4},
        "model": {"kind": "show-attend-tell", "width": 16},
    },
    "halves": {
        "task": "images",
        "corpus": {"kind": "files", "train": str(HALVES), "split": {"validation": 0.1}},
        "model": {"kind": "vit-tiny", **SMALL},
        "batches": {"rows": 16},
    },
    "pixels": {
        "task": {"kind": "pixels", "binarise": "threshold"},
        "corpus": {"kind": "files", "train": str(HALVES), "split": {"validation": 0.1}},
        "model": {"kind": "pixelcnn", "width": 8, "depth": 1},
        "batches": {"rows": 16},
    },
    "vectors": {"task": "embedding", "corpus": FIRST, "model": {"kind": "bert-tiny", **SMALL}},
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder as the examples expect it: small runs in runs/, and their run files."""
    folder = tmp_path_factory.mktemp("examples")
    for name, tree in RUNS.items():
        usual = {"tokenizer": {"vocabulary": 200}, "batches": {"tokens": 256}, "train": {"steps": 1}, "device": "cpu"}
        file = folder / f"{name}.yaml"
        file.write_text(json.dumps({**usual, **tree, "out": str(folder / "runs" / name)}))
        regard.fit(file)
    yield folder


@pytest.mark.parametrize("name", regard.__all__)
def test_its_example_runs(name: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setattr(LOADED, "plugins", {})  # what an example loads is forgotten
    module = importlib.import_module(regard.SURFACE[name])
    found = doctest.DocTestFinder(recurse=False).find(getattr(regard, name), name, module)
    assert any(test.examples for test in found), f"{name} shows no example"
    for test in found:
        told: list[str] = []
        assert doctest.DocTestRunner().run(test, out=told.append).failed == 0, "".join(told)


def test_the_surface_is_shown_before_anything_is_loaded() -> None:
    assert set(regard.__all__) <= set(dir(regard))
    assert not any(name in dir(regard) for name in ("importlib", "SURFACE", "TYPE_CHECKING"))
