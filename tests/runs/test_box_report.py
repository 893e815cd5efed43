"""Boxes are those of the corpus's pictures, so they say nothing of what a model sees a part of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from regard.config import Document
from regard.errors import InputError
from regard.runs.boxes import compare_boxes, record_boxes
from regard.runs.train import train


def learn(folder: Path, width: int = 8, **task: Any) -> str:
    scenes = {"kind": "scenes", "train": 8, "validation": 2, "test": 2, "combinations": 0}
    tree = {
        "task": {"kind": "captioning", "search": {"max_tokens": 2}, **task},
        "corpus": scenes,
        "tokenizer": {"pieces": "word"},
        "batches": {"rows": 4},
        "model": {"kind": "show-attend-tell", "map": "patches", "width": width, "patch": 12},
        "train": {"steps": 1},
        "device": "cpu",
        "out": str(folder / "run"),
    }
    train(Document(tree))
    return str(folder / "run")


@pytest.mark.parametrize("fit", ["crop", "pad"])
def test_pictures_that_are_cut_or_padded_are_refused(fit: str, tmp_path: Path) -> None:
    noun = learn(tmp_path, size=[24, 48], fit=fit)
    with pytest.raises(InputError, match=f"task.fit: {fit}: pictures of 48 × 48 are fitted to 24 × 48") as error:
        compare_boxes(noun)
    assert "task.fit=resize" in error.value.hint


def test_attention_is_measured_in_a_precision_which_is_recorded(tmp_path: Path) -> None:
    noun, page = learn(tmp_path, width=128), tmp_path / "results.md"
    found = compare_boxes(noun, precision="int8")
    assert found.precision == found.as_json()["precision"] == "int8"
    assert compare_boxes(noun).precision == "fp32"
    record_boxes(page, noun, None, found)
    assert "run, int8: " in page.read_text() and "`regard align RUN --precision int8`" in page.read_text()


@pytest.mark.parametrize("task", [{"size": [24, 48], "fit": "resize"}, {"size": 24, "fit": "crop"}])
def test_pictures_that_are_only_scaled_are_measured(task: dict[str, Any], tmp_path: Path) -> None:
    assert compare_boxes(learn(tmp_path, **task)).captions == 2
