"""Where the bytes of a corpus come from: files, globs, folders, members of zip archives, standard input; packed or not.

`find_files` makes one list of whatever a user wrote for a path, and `open_bytes` opens each entry of that list.
"""

from __future__ import annotations

import glob
import io
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

from regard.core.spec import FileName
from regard.data.packing import (
    DAMAGE,
    LONGEST_MAGIC,
    PIECE,
    DamagedFile,
    choose_members,
    list_members,
    open_member,
    recognise,
    strip_packing,
)
from regard.errors import DataError

Paths = FileName | tuple[FileName, ...]
STANDARD_INPUT = "-"
DEEPEST = 3  # packings within each other
SHOWN = 5  # names that a message lists


class Unpacked(io.RawIOBase):
    """A packed file's bytes; whatever is wrong with them is one kind of error that says how it was packed."""

    def __init__(self, inner: io.BufferedIOBase, packing: str) -> None:
        self.inner, self.packing = inner, packing
        self.broken: DamagedFile | None = None  # a broken unpacker may go on with nonsense, so it isn't asked again

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self.inner.seekable()

    def readinto(self, buffer: Any) -> int:
        if self.broken is not None:
            raise self.broken
        try:
            piece = self.inner.read1(len(buffer))  # what is there already, so that nothing whole is lost to damage
        except DamagedFile:
            raise
        except DAMAGE as error:
            self.broken = DamagedFile(f"damaged {self.packing}: {error}")
            raise self.broken from None
        buffer[: len(piece)] = piece
        return len(piece)

    def seek(self, place: int, whence: int = 0) -> int:
        return self.inner.seek(place, whence)

    def tell(self) -> int:
        return self.inner.tell()


@contextmanager
def open_bytes(path: str) -> Iterator[io.BufferedReader]:
    """A file's bytes, unpacked as its content asks for; `-` is standard input, `a.zip:b.csv` a member of an archive."""
    with ExitStack() as stack:
        try:
            yield _unpack(_open(path, stack), path)
        except IsADirectoryError:
            raise DataError(f"{path}: it is a folder", "name its files, or a glob of them") from None


def _open(path: str, stack: ExitStack) -> io.BufferedReader:
    if path == STANDARD_INPUT:
        given = sys.stdin.buffer
        if isinstance(given, io.BufferedReader):
            return given
        wrapped: io.BufferedReader = io.BufferedReader(cast(io.RawIOBase, given))
        stack.callback(wrapped.detach)  # or it would close what isn't ours
        return wrapped
    archive, member = split_member(path)
    try:
        raw = stack.enter_context(Path(archive).open("rb"))  # noqa: SIM115  the stack closes it
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}", "check the path") from None
    if not member:
        return raw
    try:
        return io.BufferedReader(Unpacked(open_member(raw, member), "zip"), PIECE)
    except DAMAGE as error:
        raise DataError(f"{path}: damaged zip: {error}", "check that the file is whole") from None


def _unpack(stream: io.BufferedReader, path: str) -> io.BufferedReader:
    for _ in range(DEEPEST):
        try:
            packing = recognise(stream.peek(LONGEST_MAGIC)[:LONGEST_MAGIC])
        except DamagedFile:
            return stream  # whoever reads it is told, and says where
        if packing is None:
            return stream
        if packing.name == "zip" and not stream.seekable():
            raise DataError(f"{path}: a zip archive can't be read as a stream", "unpack it first")
        try:
            stream = io.BufferedReader(Unpacked(packing.open(stream), packing.name), PIECE)
        except DAMAGE as error:
            raise DataError(f"{path}: damaged {packing.name}: {error}", "check that the file is whole") from None
        except DataError as error:
            raise DataError(f"{path}: {error.message}", error.hint) from None
    return stream


def split_member(path: str) -> tuple[str, str]:
    """`a.zip:b.csv` as an archive and its member; the member is empty where a path is a file's own."""
    if not Path(path).exists():
        for colon in re.finditer(":", path):
            if Path(path[: colon.start()]).is_file():
                return path[: colon.start()], path[colon.end() :]
    return path, ""


def list_paths(paths: Paths) -> tuple[str, ...]:
    """What a user wrote for a path, as a list."""
    return (paths,) if isinstance(paths, str) else paths


def place_in(folder: Path, path: str) -> str:
    """A path that is looked for in a folder; absolute ones and standard input stay."""
    if path == STANDARD_INPUT:
        return path
    # the folder is one, whatever letters it has; only what a user wrote as a path may be a glob
    return str(Path(glob.escape(str(folder)) if _is_glob(str(folder / path)) else folder) / path)


def find_files(paths: Paths, endings: tuple[str, ...] = ("",)) -> list[str]:
    """The files that are meant: a glob's in order, a folder's and an archive's with a reader's endings."""
    return [file for path in expand_paths(paths) for file in _look_inside(path, endings)]


def expand_paths(paths: Paths) -> list[str]:
    """What a user wrote for a path as a list, with the files of globs in order."""
    return [file for path in list_paths(paths) for file in _expand(path)]


def _is_glob(path: str) -> bool:
    return glob.has_magic(path) and not Path(path).exists()


def _expand(path: str) -> list[str]:
    if path == STANDARD_INPUT or not _is_glob(path):
        return [path]
    found = sorted(glob.glob(path, recursive=True))
    if not found:
        raise DataError(f"{path}: no file matches", "check the path; * stands for letters, ** for folders")
    return found


def _look_inside(path: str, endings: tuple[str, ...]) -> list[str]:
    """A folder's files or an archive's members of a kind; a plain file is itself."""
    place = Path(path)
    if path == STANDARD_INPUT or not place.exists():
        return [path]
    if place.is_dir():
        names = list_folder(place)
        chosen = [name for name in names if strip_packing(name).endswith(endings)]
        if not chosen:
            raise DataError(f"{path}: no {' or '.join(endings)} in this folder{_describe(names)}", f"{path}/*.ENDING")
        return [str(place / name) for name in chosen]
    members = list_archive(path)
    if members is None:
        return [path]
    chosen = choose_members(members, endings)
    if not chosen:
        raise DataError(f"{path}: no {' or '.join(endings)} in it{_describe(members)}", f"{path}:MEMBER names one")
    return [f"{path}:{member}" for member in chosen]


def list_folder(folder: Path) -> list[str]:
    """The files in a folder and those below it, by name; hidden ones are a machine's business."""
    files = (file.relative_to(folder) for file in folder.rglob("*") if file.is_file())
    return sorted(file.as_posix() for file in files if not any(part.startswith((".", "__")) for part in file.parts))


def list_archive(path: str) -> list[str] | None:
    """The members of a zip archive; None for a file that isn't one."""
    try:
        with Path(path).open("rb") as raw:
            packing = recognise(raw.read(LONGEST_MAGIC))
            return list_members(raw) if packing is not None and packing.name == "zip" else None
    except DAMAGE as error:
        if isinstance(error, OSError) and error.strerror:
            raise DataError(f"{path}: {error.strerror}", "check the path") from None
        raise DataError(f"{path}: damaged zip: {error}", "check that the file is whole") from None


def _describe(names: Sequence[str]) -> str:
    if not names:
        return ": it is empty"
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return f"; there are {', '.join(names[:SHOWN])}{more}"
