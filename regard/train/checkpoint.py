"""Checkpoints that a crash can't spoil: written aside, verified by digest, and put in place by one rename.

`step-N.tmp-PID/` receives the files, each forced to disk; then a manifest with their sizes and digests; then the folder
is renamed to `step-N`, and the name `latest` is replaced. A reader takes the newest folder whose manifest verifies. An
old one is deleted only when a newer one has verified, and two at least are kept. Weights and the optimizer's state are
safetensors, everything else JSON: nothing that is loaded can run.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as parse_tensors
from safetensors.torch import save as pack_tensors
from torch import Tensor

from regard.errors import CheckpointError, DiskError

FORMAT = 1
MANIFEST = "MANIFEST.json"
LARGEST_JSON = 16 * 2**20
Files = Mapping[str, bytes]


@dataclass
class Checkpoint:
    """One verified folder: `step-2000`."""

    path: Path
    step: int

    def tensors(self, name: str) -> dict[str, Tensor]:
        """A safetensors file's tensors."""
        try:
            return parse_tensors(self.read(f"{name}.safetensors"))
        except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
            raise CheckpointError(f"{self.path / name}.safetensors: {error}") from None

    def json(self, name: str) -> dict[str, Any]:
        found = _parsed(self.path / f"{name}.json", self.read(f"{name}.json"))
        return found

    def read(self, name: str) -> bytes:
        """A file's bytes, once they are what the manifest says."""
        wanted = manifest(self.path)["files"].get(name)
        if wanted is None:
            raise CheckpointError(f"{self.path / name}: the manifest doesn't list it")
        content = _content(self.path / name)
        if [len(content), hashlib.sha256(content).hexdigest()] != wanted:
            raise CheckpointError(f"{self.path / name}: damaged, its digest isn't the one it was saved with")
        return content


class Store:
    """The checkpoints of one run."""

    def __init__(self, folder: Path, keep: int = 2, warn: Callable[[str], None] = lambda _: None) -> None:
        self.folder, self.keep, self.warn = folder, max(2, keep), warn

    def save(
        self,
        step: int,
        tensors: Mapping[str, Mapping[str, Tensor]],
        data: Mapping[str, Any],
        more: Files,
        spare: Collection[int] = (),
    ) -> Checkpoint:
        """Write a checkpoint: safetensors and JSON files by name, and other files as they are.

        Then the oldest go, except the steps to spare.
        """
        files = {f"{name}.safetensors": pack_tensors(_plain(group)) for name, group in tensors.items()}
        files |= {f"{name}.json": json.dumps(content, sort_keys=True).encode() for name, content in data.items()}
        files |= more
        with reported(self.folder, sum(map(len, files.values()))):
            self.folder.mkdir(parents=True, exist_ok=True)
            written = self._write(step, files)
            for old in self.numbered()[: -self.keep]:
                if old.step not in spare:
                    shutil.rmtree(old.path)
        return written

    def _write(self, step: int, files: Files) -> Checkpoint:
        aside = self.folder / f"step-{step}.tmp-{os.getpid()}"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        try:
            for name, content in files.items():
                write(aside / name, content)
            listed = {name: [len(content), hashlib.sha256(content).hexdigest()] for name, content in files.items()}
            write(aside / MANIFEST, json.dumps({"format_version": FORMAT, "step": step, "files": listed}).encode())
            sync(aside)
            place = self.folder / f"step-{step}"
            if place.exists():  # a run that went back and came here again
                shutil.rmtree(place)
            os.rename(aside, place)
            sync(self.folder)
            pointer = self.folder / f"latest.tmp-{os.getpid()}"
            write(pointer, place.name.encode())
            os.replace(pointer, self.folder / "latest")
            sync(self.folder)
        except OSError:
            shutil.rmtree(aside, ignore_errors=True)
            raise
        return verified(place)

    def latest(self) -> Checkpoint | None:
        """The newest one that is whole; those that aren't are named and stepped over. None: there is none at all."""
        for found in reversed(self.numbered()):
            try:
                return verified(found.path)
            except CheckpointError as error:
                self.warn(f"{error}; stepping back")
        return None

    def at(self, step: int) -> Checkpoint:
        return verified(self.folder / f"step-{step}")

    def clear(self) -> int:
        """Delete what a killed process left half-written; how many there were."""
        strays = list(self.folder.glob("*.tmp-*")) if self.folder.exists() else []
        for stray in strays:
            shutil.rmtree(stray) if stray.is_dir() else stray.unlink()
        return len(strays)

    def numbered(self) -> list[Checkpoint]:
        """Every finished folder in the order of its step, whatever the clock says; unverified."""
        if not self.folder.exists():
            return []
        matches = ((path, re.fullmatch(r"step-(\d{1,18})", path.name)) for path in self.folder.iterdir())
        return sorted((Checkpoint(path, int(m[1])) for path, m in matches if m), key=lambda found: found.step)


def verified(path: Path) -> Checkpoint:
    """A checkpoint, after reading every byte of it; an error names the file that is wrong."""
    listed = manifest(path)
    match = re.fullmatch(r"step-(\d+)", path.name)
    if match is None or int(match[1]) != listed["step"]:
        raise CheckpointError(f"{path}: the manifest is of step {listed['step']}")
    found = Checkpoint(path, listed["step"])
    for name in listed["files"]:
        found.read(name)
    strange = {item.name for item in path.iterdir()} - set(listed["files"]) - {MANIFEST}
    if strange:
        raise CheckpointError(f"{path / min(strange)}: the manifest doesn't list it")
    return found


def manifest(path: Path) -> dict[str, Any]:
    """What a checkpoint should hold."""
    listed = _parsed(path / MANIFEST, _content(path / MANIFEST, LARGEST_JSON))
    version, step, files = listed.get("format_version"), listed.get("step"), listed.get("files")
    if type(version) is not int or version < 1:
        raise CheckpointError(f"{path / MANIFEST}: damaged")
    if version > FORMAT:
        raise CheckpointError(f"{path / MANIFEST}: format {version} is newer than this program", "upgrade regard")
    named = isinstance(files, dict) and all(re.fullmatch(r"[\w-]+(\.[\w-]+)*", name) for name in files)
    if type(step) is not int or not named:
        raise CheckpointError(f"{path / MANIFEST}: damaged")
    return listed


def _content(path: Path, most: int | None = None) -> bytes:
    try:
        if path.is_symlink() or not path.is_file():
            raise CheckpointError(f"{path}: missing")
        if most is not None and path.stat().st_size > most:
            raise CheckpointError(f"{path}: larger than {most} bytes")
        return path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from None


def _parsed(path: Path, content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path}: not JSON") from None
    if not isinstance(found, dict):
        raise CheckpointError(f"{path}: not an object")
    return found


def _plain(group: Mapping[str, Tensor]) -> dict[str, Tensor]:
    bad = [name for name, tensor in group.items() if tensor.is_floating_point() and not tensor.isfinite().all()]
    if bad:
        raise CheckpointError(f"not saved: {', '.join(bad[:5])} holds numbers that aren't finite")
    return {name: tensor.detach().cpu().contiguous() for name, tensor in group.items()}


def write(path: Path, content: bytes) -> None:
    """A file that is on the disk when this returns."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync(folder: Path) -> None:
    """Force a folder's own entries to disk."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


@contextmanager
def reported(folder: Path, need: int) -> Iterator[None]:
    """Say what a disk lacks, instead of a traceback."""
    try:
        yield
    except OSError as error:
        there = next(path for path in (folder, *folder.absolute().parents) if os.path.exists(path))
        free = shutil.disk_usage(there).free
        reasons = {
            errno.ENOSPC: "the disk is full",
            errno.EDQUOT: "the quota is used up",
            errno.EFBIG: "a file may not be so large",
        }
        reason = reasons.get(error.errno or 0, error.strerror or str(error))
        raise DiskError(
            f"{folder}: nothing was saved, {reason}: {need:,} bytes are needed and {free:,} are free",
            "make room, then resume: the checkpoint before this one is whole",
        ) from None
