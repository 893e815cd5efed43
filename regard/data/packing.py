"""Packed files, known by their first bytes whatever they are called: gzip, bzip2, xz, Zstandard and zip.

What is cut short or damaged raises where it is read, never before: the lines that came out whole are kept.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, Any, cast

from regard.errors import DataError, MissingPackage

PIECE = 2**16  # bytes that are read at once
# what the libraries raise on damage; that of zstandard is turned into one of these
DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
CLUTTER = ("__MACOSX/", ".")  # beginnings of what a machine put there, not a user


class DamagedFile(OSError):
    """A file that can't be read from here on: what it was packed or written as has been broken."""


@dataclass(frozen=True)
class Packing:
    """One way to pack a file: the bytes that it begins with, the ending that such files have, and how it is opened."""

    name: str
    magic: bytes
    ending: str
    open: Callable[[IO[bytes]], io.BufferedIOBase]


class Frames(io.RawIOBase):
    """What Zstandard has packed, frame after frame.

    The library's own reader ends quietly where a file is cut short, so each frame is asked whether it is whole.
    """

    def __init__(self, packed: IO[bytes]) -> None:
        try:
            import zstandard
        except ImportError:
            raise MissingPackage("reading .zst", "zstandard", "data") from None
        self.packed, self.library = packed, zstandard
        self.frame: Any = None
        self.ready, self.rest = b"", b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self.ready:
            piece = self.rest or self.packed.read(PIECE)
            self.rest = b""
            if not piece:
                if self.frame is not None:
                    raise EOFError("it ends before the end of a frame")
                return 0
            self.frame = self.frame or self.library.ZstdDecompressor().decompressobj()
            try:
                self.ready = self.frame.decompress(piece)
            except self.library.ZstdError as error:
                raise OSError(str(error)) from None
            if self.frame.eof:
                self.rest, self.frame = self.frame.unused_data, None
        size = min(len(buffer), len(self.ready))
        buffer[:size], self.ready = self.ready[:size], self.ready[size:]
        return size


def open_only_member(packed: IO[bytes]) -> io.BufferedIOBase:
    """The one file of a zip archive; where there are several, somebody must have chosen already."""
    names = list_members(packed)
    if len(names) != 1:
        raise DataError(f"a zip archive of {len(names)} files: {', '.join(names[:5])}", "FILE.zip:MEMBER names one")
    return open_member(packed, names[0])


PACKINGS = (
    Packing("gzip", b"\x1f\x8b", ".gz", lambda packed: gzip.GzipFile(fileobj=packed)),
    Packing("bzip2", b"BZh", ".bz2", bz2.BZ2File),
    Packing("xz", b"\xfd7zXZ\0", ".xz", lzma.LZMAFile),
    Packing("zstd", b"\x28\xb5\x2f\xfd", ".zst", lambda packed: io.BufferedReader(Frames(packed))),
    Packing("zip", b"PK\x03\x04", ".zip", open_only_member),
)
LONGEST_MAGIC = max(len(packing.magic) for packing in PACKINGS)


def recognise(beginning: bytes) -> Packing | None:
    """How a file is packed, by its first bytes."""
    return next((packing for packing in PACKINGS if beginning.startswith(packing.magic)), None)


def strip_packing(name: str) -> str:
    """A file's name in small letters, without what only says how it is packed: `a.TSV.gz` is `a.tsv`."""
    name = name.lower()
    return next((name.removesuffix(end.ending) for end in PACKINGS if name.endswith(end.ending)), name)


def list_members(packed: IO[bytes]) -> list[str]:
    """The files of a zip archive, by name."""
    with zipfile.ZipFile(packed) as archive:
        names = sorted(entry.filename for entry in archive.infolist() if not entry.is_dir())
    return [name for name in names if not name.startswith(CLUTTER) and "/." not in name]


def open_member(packed: IO[bytes], name: str) -> io.BufferedIOBase:
    """A file of a zip archive."""
    archive = zipfile.ZipFile(packed)
    try:
        return cast(io.BufferedIOBase, archive.open(name))  # a ZipExtFile
    except KeyError:
        known = ", ".join(list_members(packed)[:5])
        raise DataError(f"{name}: no such file in the archive; there are: {known}", "check the name") from None
    except (RuntimeError, NotImplementedError) as error:  # a password, or a method that Python doesn't know
        raise DataError(f"{name}: {error}", "unpack it first") from None


def choose_members(names: Sequence[str], endings: tuple[str, ...]) -> list[str]:
    """The members of a reader's kind; all where none has such an ending and there is only one."""
    fitting = [name for name in names if strip_packing(name).endswith(endings)]
    return fitting or list(names if len(names) == 1 else ())
