"""What came in with a model stays with it, to the byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard.data.origin import Origin
from regard.errors import CheckpointError
from regard.hub.load import import_folder
from regard.runs.convert import keep
from regard.runs.load import load_bundle
from tests.parity.test_hub import made

BESIDE = {
    "generation_config.json": b'{"eos_token_id": [1, 2]}\n',
    "chat_template.jinja": b"{{ messages }}",
    "LICENSE": b"free\r\n",
    "README.md": "# Modèle\n".encode(),
    "1_Pooling/config.json": b'{"pooling_mode_cls_token": true}',
}
STRANGE = ("model_code.py", "pytorch_model.bin", "notes of mine.txt", "deep/er/config.json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "came"
    made("gpt2", place)
    for name, content in {**BESIDE, **dict.fromkeys(STRANGE, b"no")}.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
    return place


def test_what_came_with_a_model_is_kept_with_it_to_the_byte(folder: Path, tmp_path: Path) -> None:
    (folder / "pytorch_model.bin").unlink()
    keep(import_folder(folder), tmp_path / "kept")
    found = load_bundle(str(tmp_path / "kept"), "cpu").origin
    assert found is not None
    assert found.files.items() >= BESIDE.items()
    assert found.files["config.json"] == (folder / "config.json").read_bytes()
    assert not set(STRANGE) & set(found.files)
    assert found.json("generation_config.json") == json.loads(BESIDE["generation_config.json"])
    assert found.json("nothing.json") == {}


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff"])
def test_a_damaged_file_of_an_origin_is_named(content: bytes) -> None:
    with pytest.raises(CheckpointError, match=r"generation_config\.json"):
        Origin({"generation_config.json": content}).json("generation_config.json")
