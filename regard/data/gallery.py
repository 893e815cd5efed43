"""Galleries: where the files of pictures lie: a folder, a zip archive, a tar archive packed or not.

Members of an archive are read and never written anywhere, and a picture that a table names is looked for among the
names that there are, so no name leads out of its gallery. A zip or a folder is asked for one file after another; a tar
is a stream, which is read from its beginning to its end.
"""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Protocol, Self

from regard.data.log import Log, Unusable
from regard.data.packing import CLUTTER, DAMAGE, LONGEST_MAGIC, DamagedFile, recognise
from regard.data.picture import FILES, STRANGE
from regard.data.source import list_folder, open_bytes, split_member
from regard.errors import DataError

LARGEST = 2**28  # bytes of one picture's file
BREAKS = (DamagedFile, tarfile.TarError, EOFError)  # what a tar raises that can't be read on
BLOCK = 512  # bytes of a tar archive's header


@dataclass(frozen=True)
class Leaf:
    """A file in a gallery: its path there, where it stands for messages, and what gives its bytes."""

    name: str
    place: str
    read: Callable[[], bytes]


class Gallery(Protocol):
    """Files that hold pictures."""

    def walk(self, log: Log) -> Iterator[Leaf]:
        """Every file, one after the other; each may be read before the next one is asked for."""


class Shelf(Gallery, Protocol):
    """A gallery whose files are known beforehand, and may be asked for by name."""

    names: list[str]

    def pick(self, name: str) -> Leaf:
        """A file by its path."""


class FolderGallery:
    """A folder, and those below it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.names = folder, list_folder(folder)

    def pick(self, name: str) -> Leaf:
        path = self.folder / name
        return Leaf(name, str(path), lambda: _read_file(path))

    def walk(self, log: Log) -> Iterator[Leaf]:
        return map(self.pick, self.names)


class FileGallery:
    """Single files, by their paths."""

    def __init__(self, paths: list[str]) -> None:
        self.names = paths

    def pick(self, name: str) -> Leaf:
        return Leaf(name, name, lambda: _read_file(Path(name)))

    def walk(self, log: Log) -> Iterator[Leaf]:
        return map(self.pick, self.names)


class ZipGallery:
    """A zip archive, or what stands below a folder in it."""

    def __init__(self, archive: zipfile.ZipFile, path: str, below: str) -> None:
        self.archive, self.path = archive, path
        listed = (entry.filename for entry in archive.infolist() if not entry.is_dir())
        self.names = sorted(name for name in listed if _is_inside(name, below))

    def pick(self, name: str) -> Leaf:
        return Leaf(name, f"{self.path}:{name}", lambda: self._read(name))

    def walk(self, log: Log) -> Iterator[Leaf]:
        return map(self.pick, self.names)

    def _read(self, name: str) -> bytes:
        try:
            with self.archive.open(name) as member:
                return _insist_small(member.read(LARGEST + 1))
        except DAMAGE as error:
            raise Unusable(f"damaged zip: {error}") from None
        except (RuntimeError, NotImplementedError) as error:  # a password, or a method that Python doesn't know
            raise Unusable(f"unreadable zip: {error}") from None


class TarGallery:
    """A tar archive, or what stands below a folder in it; whatever it is packed with."""

    def __init__(self, path: str, below: str) -> None:
        self.path, self.below = path, below
        self.broken = False

    def walk(self, log: Log) -> Iterator[Leaf]:
        """Every file in the order of the archive; where it is damaged, the log says so, and that is the end."""
        last = self.path
        try:
            with open_bytes(self.path) as stream, tarfile.open(fileobj=stream, mode="r|", tarinfo=_Header) as archive:
                while not self.broken and (header := _next_header(archive)) is not None:
                    last = f"{self.path}:{header.name}"
                    if header.isreg() and _is_inside(header.name, self.below):
                        yield Leaf(header.name, last, partial(self._read, archive, header))
        except BREAKS as error:
            log.skip(last, _explain(error))

    def _read(self, archive: tarfile.TarFile, header: tarfile.TarInfo) -> bytes:
        if header.size > LARGEST:
            raise Unusable(f"too many bytes: {header.size:,}, and {LARGEST:,} are the most")
        member = archive.extractfile(header)
        try:
            return b"" if member is None else member.read()
        except BREAKS as error:
            self.broken = True
            raise Unusable(_explain(error)) from None


def _explain(error: Exception) -> str:
    told = str(error) if isinstance(error, DamagedFile) else f"damaged tar: {error}"
    return f"{told}; nothing behind it can be read"


class _Header(tarfile.TarInfo):
    """A member's header, of which nothing is believed that would lead astray."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        found = super().frombuf(buf, encoding, errors)
        if found.size < 0:
            raise tarfile.ReadError("a size below zero")
        return found

    @classmethod
    def fromtarfile(cls, tarfile_: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(tarfile_)
        except tarfile.HeaderError as error:
            if type(error).__name__ == "EOFHeaderError":  # a block of zeros: an archive's proper end
                raise
            # the library takes this for the end as well, so that half an archive would look like a whole one
            raise tarfile.ReadError(str(error) or "it ends before its end") from None


def _next_header(archive: tarfile.TarFile) -> tarfile.TarInfo | None:
    header = archive.next()
    archive.members.clear()  # type: ignore[attr-defined]  # which would grow with the archive
    return header


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return _insist_small(file.read(LARGEST + 1))
    except OSError as error:
        raise Unusable(f"unreadable file: {error.strerror}") from None


def _insist_small(content: bytes) -> bytes:
    if len(content) > LARGEST:
        raise Unusable(f"too many bytes: {LARGEST:,} are the most")
    return content


def _is_inside(name: str, below: str) -> bool:
    """Whether a member stands below a folder, and isn't a machine's business."""
    parts = PurePosixPath(name).parts
    hidden = any(part.startswith(CLUTTER) or part == "__MACOSX" for part in parts if part not in (".", ".."))
    return not hidden and (not below or name.removeprefix("./").startswith(f"{below.strip('/')}/"))


@contextmanager
def open_gallery(path: str) -> Iterator[Gallery]:
    """What lies at a path: a folder, an archive, `archive.zip:folder` for a part of one, or a single picture."""
    place, below = split_member(path)
    if Path(place).is_dir():
        yield FolderGallery(Path(place))
        return
    kind = tell_archive(place)
    if kind == "tar":
        yield TarGallery(place, below)
    elif kind == "zip":
        try:
            with zipfile.ZipFile(place) as archive:
                yield ZipGallery(archive, place, below)
        except zipfile.BadZipFile as error:
            raise DataError(f"{place}: damaged zip: {error}", "check that the file is whole") from None
    elif place.lower().endswith(FILES):
        yield FileGallery([place])
    else:
        hint = "kind: idx, cifar or numpy, for files that hold many pictures"
        raise DataError(f"{place}: neither a picture nor a folder, a zip or a tar of them", hint)


def tell_archive(path: str) -> str:
    """Which archive a file is, by its content: zip, tar, or none."""
    try:
        with Path(path).open("rb") as raw:
            packing = recognise(raw.read(LONGEST_MAGIC))
        if packing is not None and packing.name == "zip":
            return "zip"
        with open_bytes(path) as stream:
            return "tar" if stream.peek(BLOCK)[257:262] == b"ustar" or _is_old_tar(stream.read(BLOCK)) else ""
    except DamagedFile as error:
        raise DataError(f"{path}: {error}", "check that the file is whole") from None
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}", "check the path") from None


def _is_old_tar(block: bytes) -> bool:
    """Whether a block is a header whose checksum holds; the oldest archives say no more."""
    try:
        tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


class PictureIndex:
    """Finds files by the names that tables have for them.

    A table may leave folders out or name more of them, have another ending or none, or a number behind it as Flickr8k's
    own file has (`1.jpg#0`). A file that is called just so is meant before one with another ending.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names: dict[str, list[str]] = {}  # by what is left without folders and ending
        for name in names:
            self.names.setdefault(_strip(name), []).append(name)
        self.told: dict[str, PurePosixPath] = {}  # the longest name that each file was found by

    def find(self, told: str) -> str:
        """The path of the file that a table means; `Unusable` where there is none, or more than one."""
        for name in map(PurePosixPath, (told, told.rpartition("#")[0])):
            found = [one for one in self.names.get(_strip(name), ()) if _agree(PurePosixPath(one), name)]
            whole = [one for one in found if PurePosixPath(one) == name]
            found = whole[:1] or [one for one in found if PurePosixPath(one).name == name.name] or found
            if len(found) == 1:
                self._insist_on_one(found[0], name)
                return found[0]
            if found:
                raise Unusable(f"several pictures: {told} may be {found[0]} or {found[1]}")
        raise Unusable(f"no picture: {told}")

    def _insist_on_one(self, found: str, name: PurePosixPath) -> None:
        """Refuse a table of which two names lead to one file: `train/1.jpg` and `test/1.jpg`, where only 1.jpg is."""
        first = self.told.setdefault(found, name)
        if not _agree(first, name):
            # the one that is wrong may have been read already, so leaving this one out wouldn't do
            told = f"{first} and {name} in the table would both be {found}"
            raise DataError(told, "pictures: a folder further up, whose names tell them apart")
        if len(name.parts) > len(first.parts):
            self.told[found] = name


def _strip(name: str | PurePosixPath) -> str:
    """A file's name without folders and without the ending of a picture, if it has one; `a.1` has none."""
    path = PurePosixPath(name)
    return path.stem if path.suffix.lower() in (*FILES, *STRANGE) else path.name


def _agree(one: PurePosixPath, other: PurePosixPath) -> bool:
    """Whether the folders of two paths end alike, as far as the shorter one goes."""
    return all(a == b for a, b in zip(reversed(one.parts[:-1]), reversed(other.parts[:-1]), strict=False))
