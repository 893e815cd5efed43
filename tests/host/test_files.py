"""Files of ours are put in place whole; what isn't ours is never deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.errors import DiskError
from regard.host.files import aside, explain_disk_errors, remove, replace


def test_only_our_own_names_are_deleted(tmp_path: Path) -> None:
    for name in ("ours.json", "theirs.json"):
        (tmp_path / "folder" / "deep").mkdir(parents=True, exist_ok=True)
        (tmp_path / "folder" / name).write_text(name)
    assert not remove(tmp_path / "folder", {"ours.json", "deep"}.__contains__)
    assert sorted(path.name for path in (tmp_path / "folder").iterdir()) == ["deep", "theirs.json"]
    (tmp_path / "folder/deep").rmdir()
    assert remove(tmp_path / "folder", {"theirs.json"}.__contains__)
    assert not (tmp_path / "folder").exists()
    assert remove(tmp_path / "folder", lambda _: True)  # what isn't there is gone


def test_a_link_is_deleted_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/kept").write_text("kept")
    (tmp_path / "folder").symlink_to(tmp_path / "theirs")
    assert not remove(tmp_path / "folder", lambda _: True)
    assert (tmp_path / "theirs/kept").read_text() == "kept"


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    replace(path, b"one")
    with (
        monkeypatch.context() as patch,
        pytest.raises(DiskError, match="the disk is full"),
        explain_disk_errors(tmp_path, 3),
    ):

        def full(number: int) -> None:
            raise OSError(28, "No space left on device")

        patch.setattr("os.fsync", full)
        replace(path, b"two")
    assert path.read_bytes() == b"one"
    assert not aside(path).exists()
