"""Files of torch's old format: read as torch itself reads them, and never run."""

from __future__ import annotations

import io
import os
import struct
from contextlib import suppress
from pathlib import Path
from pickle import dumps
from typing import Any

import numpy as np
import pytest
import torch

from regard.errors import CheckpointError
from regard.host.torchfile import read_torch_file


def save(path: Path, content: Any) -> Path:
    torch.save(content, path, _use_new_zipfile_serialization=False)
    return path


def test_tensors_are_those_that_torch_saved(tmp_path: Path) -> None:
    matrix = torch.arange(24, dtype=torch.float32).view(2, 3, 4)
    tensors = {
        "plain": matrix,
        "turned": matrix.transpose(0, 2),  # the same storage, other strides
        "part": matrix[1, :, 1:],
        "count": torch.tensor(7),
        "half": torch.ones(3, dtype=torch.float16),
        "none": torch.zeros(0, 3),
    }
    found = read_torch_file(save(tmp_path / "file.pth", tensors))
    assert set(found) == set(tensors)
    for name, tensor in tensors.items():
        assert np.array_equal(found[name], tensor.numpy()) and found[name].dtype == tensor.numpy().dtype


def test_the_state_of_a_module_is_read(tmp_path: Path) -> None:
    module = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3))
    found = read_torch_file(save(tmp_path / "file.pth", module.state_dict()))
    assert all(np.array_equal(found[name], tensor.numpy()) for name, tensor in module.state_dict().items())


class Command:
    """What a hostile file is made of: to load it is to run it."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("was-run",)


def test_what_would_be_run_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match=r"it asks for posix\.mkdir"):
        read_torch_file(save(tmp_path / "file.pth", {"weights": Command()}))
    assert not (tmp_path / "was-run").exists()


@pytest.mark.parametrize("content", [b"", b"text", dumps(5), dumps({"a": 1}, 4)])
def test_what_is_no_such_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file.pth"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="old format"):
        read_torch_file(path)
    with pytest.raises(CheckpointError, match="No such file"):
        read_torch_file(tmp_path / "missing.pth")


def test_the_new_format_is_refused(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(1)}, tmp_path / "file.pth")
    with pytest.raises(CheckpointError, match="old format"):
        read_torch_file(tmp_path / "file.pth")


def test_damage_ends_in_an_error_of_ours(tmp_path: Path) -> None:
    """Cut short anywhere, or with any byte changed, it is refused or read; nothing else happens."""
    file = io.BytesIO()
    torch.save({"a": torch.ones(4), "b": torch.zeros(2, 2)}, file, _use_new_zipfile_serialization=False)
    whole, path = file.getvalue(), tmp_path / "file.pth"
    damaged = [whole[:n] for n in range(0, len(whole), 7)]
    damaged += [whole[:n] + struct.pack("B", whole[n] ^ 0x55) + whole[n + 1 :] for n in range(0, len(whole), 3)]
    for content in damaged:
        path.write_bytes(content)
        with suppress(CheckpointError):
            read_torch_file(path)
