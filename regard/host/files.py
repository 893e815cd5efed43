"""Files of ours: forced to disk, put in place by one rename, and deleted only where we wrote them.

A folder that we write into may hold what isn't ours. So nothing is deleted by its place: whoever deletes says which
names are its own, and a folder goes only when nothing else is left in it.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.errors import DiskError

FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the quota is used up",
    errno.EFBIG: "a file may not be so large",
}
ASIDE = re.compile(r"(?P<name>.+)\.tmp-\d+")  # what a process writes before it is put in place, by its number


def aside(path: Path) -> Path:
    """Where a file or folder is written before it is put in place."""
    return path.with_name(f"{path.name}.tmp-{os.getpid()}")


def write(path: Path, *content: bytes | memoryview) -> None:
    """Write a file, of one piece or several, that is on the disk when this returns."""
    with path.open("wb") as file:
        file.writelines(content)
        file.flush()
        os.fsync(file.fileno())


def replace(path: Path, content: bytes) -> None:
    """Write a file aside and put it in place by one rename: a reader finds the old one or the new one, whole."""
    beside = aside(path)
    try:
        write(beside, content)
        os.replace(beside, path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    sync(path.parent)


def sync(folder: Path) -> None:
    """Force a folder's own entries to disk."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def remove(folder: Path, ours: Callable[[str], bool]) -> bool:
    """Delete the files of a folder whose names are ours, and the folder if that was all; whether it is gone."""
    if folder.is_symlink() or not folder.is_dir():
        return not folder.exists()
    for path in folder.iterdir():
        if (path.is_symlink() or path.is_file()) and ours(path.name):
            path.unlink()
    try:
        folder.rmdir()
    except OSError:  # somebody else's files are in it
        return False
    return True


def describe(error: OSError) -> str:
    """What a disk has against a file, in a user's words."""
    return FULL.get(error.errno or 0, error.strerror or str(error))


@contextmanager
def explain_disk_errors(folder: Path, need: int) -> Iterator[None]:
    """Say what a disk lacks, instead of a traceback."""
    try:
        yield
    except OSError as error:
        told = f"{folder}: nothing was saved, {describe(error)}"
        if error.errno not in FULL:
            raise DiskError(told, "a folder that can be written to") from None
        there = next(path for path in (folder, *folder.absolute().parents) if os.path.exists(path))
        free = shutil.disk_usage(there).free
        hint = "make room, then go on: what was saved before is whole"
        raise DiskError(f"{told}: {need:,} bytes are needed and {free:,} are free", hint) from None
