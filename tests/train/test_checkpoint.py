"""Checkpoints under kill, damage and full disks: what is there is whole, or is named and stepped over."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from regard.errors import CheckpointError, DiskError
from regard.train.checkpoint import MANIFEST, Store, verify
from tests.train.contents import contents, save, whole


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.latest() is None
    save(store, 10)
    assert whole(store) == 10
    assert (tmp_path / "latest").read_text() == "step-10"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest", "step-10"]


def test_old_ones_go_and_two_stay(tmp_path: Path) -> None:
    store = Store(tmp_path, keep=1)
    for step in (5, 100, 20, 3000):
        save(store, step)
    assert sorted(path.name for path in tmp_path.glob("step-*")) == ["step-100", "step-3000"]


def test_order_is_by_step_not_by_time(tmp_path: Path) -> None:
    store = Store(tmp_path, keep=9)
    for step in (9, 10, 8):
        os.utime(save(store, step), (step * -1000 + 10**6,) * 2)
    assert whole(store) == 10


def test_a_folder_that_was_moved_still_loads(tmp_path: Path) -> None:
    save(Store(tmp_path / "run"), 7)
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    assert whole(Store(tmp_path / "elsewhere")) == 7


def killed(*words: str) -> dict[str, int]:
    """Run the program that kills its children, and read its report."""
    root = Path(__file__).parent.parent.parent
    command = [sys.executable, "-m", "tests.train.killing", *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    return found


def test_killed_after_any_operation_of_a_save_leaves_a_whole_one(tmp_path: Path) -> None:
    found = killed("each", str(tmp_path), "2", "3")
    assert found["operations"] > 40  # two saves of six files, a manifest, a pointer and their folders
    assert (found["first"], found["last"]) == (1, 3)


def test_killed_while_the_only_step_is_saved_again_leaves_it_whole(tmp_path: Path) -> None:
    assert killed("each", str(tmp_path), "1")["operations"] > 20


def test_what_is_not_listed_is_never_deleted(tmp_path: Path) -> None:
    store = Store(tmp_path, keep=2)
    others = ["step-1/notes.txt", "notes.tmp-old.txt", "mine.tmp-12/x", "step-1.tmp-9/mine", "latest.tmp-x"]
    save(store, 1)
    for name in others:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
    half = tmp_path / "step-7.tmp-9"
    half.mkdir()
    (half / "MANIFEST.part").write_text('{"format_version": 1, "step": 7, "files": {"a.json": [0, ""]}}')
    (half / "a.json").write_text("{")
    assert store.clear() == 1
    (tmp_path / "step-3").mkdir()
    (tmp_path / "step-3/plan.txt").write_text("mine")  # a folder of somebody else's, where ours will be
    others.append("step-3/plan.txt")
    for step in (1, 2, 3, 3, 4):
        save(store, step)
    assert whole(store) == 4
    assert all((tmp_path / name).read_text() == "mine" for name in others)
    assert not (tmp_path / "step-1/model.safetensors").exists()
    assert not store.discard()
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert left == sorted(others)


@pytest.mark.parametrize("kills", [30, pytest.param(500, marks=pytest.mark.long)])
def test_killed_at_random_moments_loses_one_save_at_most(tmp_path: Path, kills: int) -> None:
    found = killed("random", str(tmp_path), str(kills))
    assert found["deaths"] == kills
    assert found["lost"] <= 1


def test_every_truncation_is_detected_and_stepped_over(tmp_path: Path) -> None:
    warnings: list[str] = []
    store = Store(tmp_path, warn=warnings.append)
    save(store, 1)
    newest = save(store, 2)
    for path in sorted(newest.iterdir()):
        content = path.read_bytes()
        for length in range(len(content)):
            path.write_bytes(content[:length])
            with pytest.raises(CheckpointError, match=path.name.split(".")[0]):
                verify(newest)
        path.unlink()
        assert whole(store) == 1
        assert str(path) in warnings[-1]
        path.write_bytes(content)
    assert whole(store) == 2


def test_flips_swaps_and_strays_are_detected(tmp_path: Path) -> None:
    chance, store = random.Random(1), Store(tmp_path)
    save(store, 1)
    newest = save(store, 2)
    files = sorted(newest.iterdir())
    for _ in range(2000):
        path = chance.choice(files)
        content = path.read_bytes()
        damaged = bytearray(content)
        if chance.random() < 0.7:
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        else:
            damaged[: chance.randrange(1, len(damaged))] = b""
        path.write_bytes(damaged)
        try:
            if path.name != MANIFEST or _means_another(content, bytes(damaged)):
                with pytest.raises(CheckpointError):
                    verify(newest)
        finally:
            path.write_bytes(content)
    one, other = newest / "model.safetensors", newest / "optimizer.safetensors"
    a, b = one.read_bytes(), other.read_bytes()
    one.write_bytes(b), other.write_bytes(a)
    with pytest.raises(CheckpointError, match="damaged"):
        verify(newest)
    one.write_bytes(a), other.write_bytes(b)
    (newest / "evil.json").write_text("boom")  # somebody else's: it isn't read, and spoils nothing
    with pytest.raises(CheckpointError, match=r"evil.json: the manifest doesn't list it"):
        verify(newest).read("evil.json")


def _means_another(before: bytes, after: bytes) -> bool:
    """Whether a flipped bit changed what a manifest says: a space for a tab, say, does not."""
    try:
        return bool(json.loads(before) != json.loads(after))
    except ValueError:
        return True


@pytest.mark.parametrize(
    "change",
    [
        {"format_version": 99},
        {"format_version": "1"},
        {"step": 3},
        {"step": "2"},
        {"files": []},
        {"files": {"../../etc/passwd": [1, "x"]}},
        {"files": {"model.safetensors": "x"}},
        {"files": {"model.safetensors": [1, "x", 2]}},
        {"pieces": []},
        {"pieces": {"model.safetensors": "x"}},
        {"pieces": {"model.safetensors": [1, "x"]}},
        {"pieces": {"model.safetensors": []}},
        {"pieces": {"model.safetensors": [[-1, "x"]]}},
    ],
    ids=str,
)
def test_a_manifest_that_lies_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    path = save(Store(tmp_path), 2) / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(CheckpointError):
        verify(path.parent)


def test_a_link_in_a_checkpoint_is_refused(tmp_path: Path) -> None:
    path = save(Store(tmp_path), 2) / "model.safetensors"
    path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")
    with pytest.raises(CheckpointError, match=r"model.safetensors: missing"):
        verify(path.parent)


def test_numbers_that_are_not_finite_are_never_written(tmp_path: Path) -> None:
    store = Store(tmp_path)
    save(store, 1)
    bad = contents(2)
    bad["tensors"]["model"]["a"][3, 3] = float("nan")
    with pytest.raises(CheckpointError, match=r"not saved: a holds numbers"):
        store.save(2, **bad)
    assert whole(store) == 1


def test_a_file_size_limit_is_told_and_the_last_one_is_whole(tmp_path: Path) -> None:
    store = Store(tmp_path)
    save(store, 1)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, before[1]))
    try:
        with pytest.raises(DiskError, match=r"nothing was saved, a file may not be so large: [\d,]+ bytes are needed"):
            save(store, 2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert whole(store) == 1
    assert not list(tmp_path.glob("*.tmp-*"))


@pytest.mark.parametrize("operation", range(1, 12))
def test_a_full_disk_at_any_point_is_told_and_the_last_one_is_whole(
    tmp_path: Path, operation: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    save(store, 1)
    real, count = os.fsync, 0

    def full(number: int) -> None:
        nonlocal count
        count += 1
        if count == operation:
            raise OSError(28, "No space left on device")
        real(number)

    monkeypatch.setattr(os, "fsync", full)
    try:
        save(store, 2)
    except DiskError as error:
        assert error.status == 6
        assert "the disk is full" in str(error)
        assert "are free" in str(error)
    else:
        assert count < operation
    monkeypatch.undo()
    assert whole(store) in (1, 2)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DiskError, match="nothing was saved"):
        save(Store(tmp_path / "file"), 1)


@pytest.fixture
def cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkpoint whose files are large enough to be digested in pieces."""
    monkeypatch.setattr("regard.host.tensors.PIECE", 100)
    monkeypatch.setattr("regard.train.checkpoint.LARGE", 300)
    return save(Store(tmp_path), 2)


def test_a_large_file_is_compared_piece_by_piece(cut: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = json.loads((cut / MANIFEST).read_text())
    assert set(listed["pieces"]) == {"model.safetensors", "optimizer.safetensors"}
    for name, pieces in listed["pieces"].items():
        assert sum(size for size, _ in pieces) == listed["files"][name][0]
    monkeypatch.setattr("regard.host.tensors.PIECE", 64)  # another version may cut otherwise
    verify(cut)
    for path in (cut / name for name in listed["pieces"]):
        content = path.read_bytes()
        for at in range(len(content)):
            path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
            with pytest.raises(CheckpointError, match=f"{path.name}: damaged"):
                verify(cut)
        path.write_bytes(content[100:200] + content[:100] + content[200:])
        with pytest.raises(CheckpointError, match=f"{path.name}: damaged"):
            verify(cut).tensors(path.stem)
        path.write_bytes(content)
    assert verify(cut).tensors("model").keys() == {"a", "b"}


def test_a_manifest_without_pieces_is_compared_by_whole_files(cut: Path) -> None:
    """As earlier versions wrote them; and what they compare is there still."""
    listed = json.loads((cut / MANIFEST).read_text())
    del listed["pieces"]
    (cut / MANIFEST).write_text(json.dumps(listed))
    assert verify(cut).tensors("model").keys() == {"a", "b"}
    path = cut / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(CheckpointError, match="damaged"):
        verify(cut)
