"""Checkpoints that a crash can't spoil: written aside, verified by digest, and put in place by one rename.

`step-N.tmp-PID/` receives a list of what will be in it, then the files, each forced to disk; then the list becomes the
manifest, with sizes and digests, the folder is renamed to `step-N`, and the name `latest` is replaced. A reader takes
the newest folder whose manifest verifies. An old one is deleted only when a newer one has verified, and two at least
are kept; files that no manifest lists aren't ours and stay. Weights and the optimizer's state are safetensors,
everything else JSON: nothing that is loaded can run.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as parse_tensors
from safetensors.torch import save as pack_tensors
from torch import Tensor

from regard.errors import CheckpointError
from regard.host.files import ASIDE, aside, explain_disk_errors, remove, sync, write

FORMAT = 1
MANIFEST, PART = "MANIFEST.json", "MANIFEST.part"
SIGNS = (MANIFEST, "state.json", "spec.json")  # one of them at least is in every checkpoint, be it damaged
FOLDER = re.compile(r"step-(\d{1,18})(\.old-\d+)?")  # old: a step that is being saved again
PICKLES = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".npy")
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
        found = _parse(self.path / f"{name}.json", self.read(f"{name}.json"))
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
        with explain_disk_errors(self.folder, sum(map(len, files.values()))):
            self.folder.mkdir(parents=True, exist_ok=True)
            written = self._write(step, files)
            for old in self.list_steps()[: -self.keep]:
                if old.step not in spare:
                    discard(old.path)
        return written

    def _write(self, step: int, files: Files) -> Checkpoint:
        place = self.folder / f"step-{step}"
        beside, old = aside(place), place.with_name(f"{place.name}.old-{os.getpid()}")
        discard(beside)
        beside.mkdir()
        try:
            listed = {name: [len(content), hashlib.sha256(content).hexdigest()] for name, content in files.items()}
            # the list comes first, so that a killed process leaves nothing whose owner isn't known
            write(beside / PART, json.dumps({"format_version": FORMAT, "step": step, "files": listed}).encode())
            for name, content in files.items():
                write(beside / name, content)
            os.rename(beside / PART, beside / MANIFEST)
            sync(beside)
            if place.exists():  # the same step again: the old one is there until the new one is
                os.rename(place, old)
            os.rename(beside, place)
            sync(self.folder)
            pointer = aside(self.folder / "latest")
            write(pointer, place.name.encode())
            os.replace(pointer, self.folder / "latest")
            sync(self.folder)
        except OSError:
            discard(beside)
            self._put_back(old)
            raise
        found = verify(place)
        self._put_back(old)
        return found

    def _put_back(self, old: Path) -> None:
        """Give a step that should have been saved again its name back; if the new one is there, others' files alone."""
        place = old.with_name(old.name.partition(".")[0])
        if not old.is_dir():
            return
        if not place.exists():
            os.rename(old, place)
        elif not discard(old):
            for path in old.iterdir():
                if not (place / path.name).exists():
                    os.rename(path, place / path.name)
            remove(old, lambda _: False)

    def latest(self) -> Checkpoint | None:
        """The newest one that is whole; those that aren't are named and stepped over. None: there is none at all."""
        for found in reversed(self.list_steps()):
            try:
                return verify(found.path)
            except CheckpointError as error:
                self.warn(f"{error}; stepping back")
        return None

    def at(self, step: int) -> Checkpoint:
        there = {found.step: found.path for found in self.list_steps()}
        if step not in there:
            raise CheckpointError(f"{self.folder}/step-{step}: there is no such checkpoint")
        return verify(there[step])

    def clear(self) -> int:
        """Delete what a killed process left half-written, and finish what it left half-done; how many there were."""
        strays = 0
        for path in sorted(self.folder.iterdir()) if self.folder.exists() else ():
            named = ASIDE.fullmatch(path.name)
            if named and named["name"] == "latest" and path.is_file():
                path.unlink()
                strays += 1
            elif named and FOLDER.fullmatch(named["name"]) and path.is_dir():
                strays += discard(path)
            elif ".old-" in path.name and FOLDER.fullmatch(path.name):
                self._put_back(path)
                strays += 1
        return strays

    def discard(self) -> bool:
        """Delete every checkpoint, and the folder if nothing else is in it; whether it is gone."""
        self.clear()
        for found in self.list_steps():
            discard(found.path)
        return remove(self.folder, lambda name: name == "latest")

    def list_steps(self) -> list[Checkpoint]:
        """Every finished folder in the order of its step, whatever the clock says; unverified."""
        if not self.folder.exists():
            return []
        found: dict[int, Checkpoint] = {}
        for path in sorted(self.folder.iterdir(), reverse=True):  # step-7 comes after step-7.old-1, and wins
            match = FOLDER.fullmatch(path.name)
            if match and any((path / name).exists() for name in SIGNS):
                found[int(match[1])] = Checkpoint(path, int(match[1]))
        return sorted(found.values(), key=lambda item: item.step)


def discard(path: Path) -> bool:
    """Delete what a manifest, or the list that precedes it, says to be ours; whether the folder is gone."""
    listed: set[str] = set()
    for name in (MANIFEST, PART):
        try:
            listed |= {name, *manifest(path, name)["files"]}
        except CheckpointError:  # it isn't there, or was cut short
            listed |= {PART}
    return remove(path, listed.__contains__)


def verify(path: Path) -> Checkpoint:
    """A checkpoint, after reading every byte of it; an error names the file that is wrong."""
    listed = manifest(path)
    match = FOLDER.fullmatch(path.name)
    if match is None or int(match[1]) != listed["step"]:
        raise CheckpointError(f"{path}: the manifest is of step {listed['step']}")
    found = Checkpoint(path, listed["step"])
    for name in listed["files"]:
        found.read(name)
    # what the manifest doesn't list isn't ours and is never read; weights that may be a pickle have no business here
    strange = sorted(
        item.name for item in path.iterdir() if item.suffix in PICKLES and item.name not in listed["files"]
    )
    if strange:
        raise CheckpointError(f"{path / strange[0]}: the manifest doesn't list it, and a pickle is never read")
    return found


def manifest(path: Path, name: str = MANIFEST) -> dict[str, Any]:
    """What a checkpoint should hold."""
    listed = _parse(path / name, _content(path / name, LARGEST_JSON))
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


def _parse(path: Path, content: bytes) -> dict[str, Any]:
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
