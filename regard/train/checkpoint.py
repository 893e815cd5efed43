"""Checkpoints that a crash can't spoil: written aside, verified by digest, and put in place by one rename.

`step-N.tmp-PID/` receives a list of what will be in it, then the files, each forced to disk; then the list becomes the
manifest, with sizes and digests, the folder is renamed to `step-N`, and the name `latest` is replaced. Who goes on
with a run takes the newest folder of which every byte verifies (`verify`). Who uses a model takes one whose files are
there (`inspect`), and each is compared with its digest when it is read: never the optimizer's. An old folder is
deleted only when a newer one has verified, and two at least are kept; files that no manifest lists aren't ours and
stay. Weights and the optimizer's state are safetensors, everything else JSON: nothing that is loaded can run.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from regard.errors import CheckpointError, Damage
from regard.host.files import ASIDE, aside, explain_disk_errors, remove, sync, write
from regard.host.tensors import (
    Piece,
    consists_of,
    digest_file,
    digest_pieces,
    list_tensors,
    map_tensors,
    pack_tensors,
    read_tensors,
)

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = 1
MANIFEST, PART = "MANIFEST.json", "MANIFEST.part"
MODEL = "model.json"  # of a folder that holds a model and its checkpoint, and no run
SIGNS = (MANIFEST, "state.json", "spec.json")  # one of them at least is in every checkpoint, be it damaged
FOLDER = re.compile(r"step-(\d{1,18})(\.old-\d+)?")  # old: a step that is being saved again
PICKLES = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".npy")
RESUMING = ("optimizer.safetensors", "generators.safetensors", "memory.safetensors")  # what only going on needs
LARGE = 32 * 2**20  # bytes of a file that is worth digesting in pieces
LARGEST_JSON = 16 * 2**20
UNREADABLE = (SafetensorError, ValueError, KeyError, TypeError, RuntimeError, OSError)
Files = Mapping[str, bytes]
Pieces = tuple[bytes | memoryview, ...]  # of one file
Check = Callable[[Path], "Checkpoint"]


@dataclass
class Checkpoint:
    """One folder, `step-2000`. Each of its files is compared with its digest when it is read."""

    path: Path
    step: int

    @cached_property
    def listed(self) -> dict[str, Any]:
        """The manifest."""
        return manifest(self.path)

    @property
    def files(self) -> dict[str, list[Any]]:
        """The size and the digest of each file."""
        found: dict[str, list[Any]] = self.listed["files"]
        return found

    @property
    def pieces(self) -> dict[str, list[Piece]]:
        """The same of the pieces of large files, which can be compared side by side; earlier versions kept none."""
        cuts = self.listed.get("pieces", {}).items()
        return {name: [(size, digest) for size, digest in cut] for name, cut in cuts}

    def tensors(self, name: str) -> dict[str, Tensor]:
        """A safetensors file's tensors, to go on from: they are in memory, and the file may go."""
        return self._tensors(name, read_tensors)

    def map(self, name: str) -> dict[str, Tensor]:
        """A safetensors file's tensors, to use: as far as they can be they stay where they are, and cost no memory."""
        return self._tensors(name, map_tensors)

    def _tensors(self, name: str, load: Callable[[Path], dict[str, Tensor]]) -> dict[str, Tensor]:
        path = self.check(f"{name}.safetensors")
        try:
            return load(path)
        except UNREADABLE as error:
            self.locate(path.name)  # it may be gone by now
            raise CheckpointError(f"{path}: {error}") from None

    def names(self, name: str) -> list[str]:
        """The names of a safetensors file's tensors, as it says."""
        path = self.locate(f"{name}.safetensors")
        try:
            return list_tensors(path)
        except UNREADABLE:
            self.check(path.name)
            raise CheckpointError(f"{path}: its tensors can't be listed") from None

    def json(self, name: str) -> dict[str, Any]:
        return _parse(self.path / f"{name}.json", self.read(f"{name}.json"))

    def read(self, name: str) -> bytes:
        """A file's bytes, once they are what the manifest says."""
        content = _content(self.locate(name))
        self._insist(name, hashlib.sha256(content).hexdigest() == self.files[name][1])
        return content

    def check(self, name: str) -> Path:
        """A file whose bytes are what the manifest says."""
        path, pieces = self.locate(name), self.pieces.get(name)
        try:
            same = digest_file(path) == self.files[name][1] if pieces is None else consists_of(path, pieces)
        except OSError as error:
            raise Damage(f"{path}: {error.strerror}", self.path) from None
        self._insist(name, same)
        return path

    def locate(self, name: str) -> Path:
        """A file that the manifest lists, and that is there in its whole length."""
        path = self.path / name
        if name not in self.files:
            raise CheckpointError(f"{path}: the manifest doesn't list it")
        if path.is_symlink() or not path.is_file():
            raise Damage(f"{path}: missing", self.path)
        self._insist(name, path.stat().st_size == self.files[name][0])
        return path

    def _insist(self, name: str, same: bool) -> None:
        if not same:
            raise Damage(f"{self.path / name}: damaged, its digest isn't the one it was saved with", self.path)


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
        files: dict[str, Pieces] = {
            f"{name}.safetensors": pack_tensors(_plain(group)) for name, group in tensors.items()
        }
        files |= {f"{name}.json": (json.dumps(content, sort_keys=True).encode(),) for name, content in data.items()}
        files |= {name: (content,) for name, content in more.items()}
        with explain_disk_errors(self.folder, sum(len(piece) for pieces in files.values() for piece in pieces)):
            self.folder.mkdir(parents=True, exist_ok=True)
            written = self._write(step, files)
            for old in self.list_steps()[: -self.keep]:
                if old.step not in spare:
                    discard(old.path)
        return written

    def _write(self, step: int, files: Mapping[str, Pieces]) -> Checkpoint:
        place = self.folder / f"step-{step}"
        beside, old = aside(place), place.with_name(f"{place.name}.old-{os.getpid()}")
        discard(beside)
        beside.mkdir()
        try:
            # the list comes first, so that a killed process leaves nothing whose owner isn't known
            write(beside / PART, json.dumps(_list_files(step, files)).encode())
            for name, pieces in files.items():
                write(beside / name, *pieces)
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

    def latest(self, check: Check | None = None) -> Checkpoint | None:
        """The newest one that is whole; those that aren't are named and stepped over. None: there is none at all.

        `check` opens one and says by an error what is wrong with it; `verify`, unless given.
        """
        for found in reversed(self.list_steps()):
            try:
                return (check or verify)(found.path)
            except CheckpointError as error:
                self.warn(f"{error}; stepping back")
        return None

    def at(self, step: int, check: Check | None = None) -> Checkpoint:
        there = {found.step: found.path for found in self.list_steps()}
        if step not in there:
            raise CheckpointError(f"{self.folder}/step-{step}: there is no such checkpoint")
        return (check or verify)(there[step])

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
    return remove(path, list_own(path).__contains__)


def list_own(path: Path) -> set[str]:
    """The names of a checkpoint's files, by its manifest or the list that precedes it."""
    listed: set[str] = set()
    for name in (MANIFEST, PART):
        try:
            listed |= {name, *manifest(path, name)["files"]}
        except CheckpointError:  # it isn't there, or was cut short
            listed |= {PART}
    return listed


def verify(path: Path) -> Checkpoint:
    """A checkpoint to go on from, after reading every byte of it; an error names the file that is wrong."""
    found = identify(path)
    for name in found.files:
        found.check(name)
    return found


def inspect(path: Path) -> Checkpoint:
    """A checkpoint to use: all that its model needs is there in full length. What is in it is compared when read."""
    found = identify(path)
    for name in found.files:
        if name not in RESUMING:
            found.locate(name)
    return found


def identify(path: Path) -> Checkpoint:
    """A checkpoint whose manifest can be read, and is its own."""
    listed = manifest(path)
    match = FOLDER.fullmatch(path.name)
    if match is None or int(match[1]) != listed["step"]:
        raise Damage(f"{path}: the manifest is of step {listed['step']}", path)
    # what the manifest doesn't list isn't ours and is never read; weights that may be a pickle have no business here
    strange = sorted(
        item.name for item in path.iterdir() if item.suffix in PICKLES and item.name not in listed["files"]
    )
    if strange:
        raise CheckpointError(f"{path / strange[0]}: the manifest doesn't list it, and a pickle is never read")
    return Checkpoint(path, listed["step"])


def manifest(path: Path, name: str = MANIFEST) -> dict[str, Any]:
    """What a checkpoint should hold."""
    listed = _parse(path / name, _content(path / name, LARGEST_JSON))
    version, step, files = listed.get("format_version"), listed.get("step"), listed.get("files")
    if type(version) is not int or version < 1:
        raise CheckpointError(f"{path / MANIFEST}: damaged")
    if version > FORMAT:
        raise CheckpointError(f"{path / MANIFEST}: format {version} is newer than this program", "upgrade regard")
    named = isinstance(files, dict) and all(re.fullmatch(r"[\w-]+(\.[\w-]+)*", name) for name in files)
    if type(step) is not int or not named or not all(map(_is_entry, files.values())):  # type: ignore[union-attr]
        raise CheckpointError(f"{path / MANIFEST}: damaged")
    pieces = listed.get("pieces", {})
    cuts = list(pieces.values()) if isinstance(pieces, dict) else [None]
    if not all(isinstance(cut, list) and all(map(_is_entry, cut)) for cut in cuts):
        raise CheckpointError(f"{path / MANIFEST}: damaged")
    return listed


def _list_files(step: int, files: Mapping[str, Pieces]) -> dict[str, Any]:
    """A manifest: the size and digest of each file, and of the pieces of the large ones."""
    listed, cut = {}, {}
    for name, pieces in files.items():
        size, digest = sum(map(len, pieces)), hashlib.sha256()
        for piece in pieces:
            digest.update(piece)
        listed[name] = [size, digest.hexdigest()]
        if size >= LARGE:
            cut[name] = digest_pieces(pieces)
    return {"format_version": FORMAT, "step": step, "files": listed} | ({"pieces": cut} if cut else {})


def _is_entry(entry: Any) -> bool:
    """Whether it is a size and a digest."""
    return isinstance(entry, list) and [type(part) for part in entry] == [int, str]


def _content(path: Path, most: int | None = None) -> bytes:
    try:
        if path.is_symlink() or not path.is_file():
            raise Damage(f"{path}: missing", path.parent)
        if most is not None and path.stat().st_size > most:
            raise CheckpointError(f"{path}: larger than {most} bytes")
        return path.read_bytes()
    except OSError as error:
        raise Damage(f"{path}: {error.strerror}", path.parent) from None


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
