"""Files that a verb writes for its user: whether they can be written is found out before the work, not after it.

A file is written aside and renamed, so who looks finds the old one or the new one; folders on the way are made.
"""

from __future__ import annotations

import os
from pathlib import Path

from regard.errors import DiskError, InputError
from regard.host.files import describe, replace


def check_place(path: Path) -> None:
    """Insist that a file or a folder can be written at a path; nothing is made yet."""
    there = next(place for place in (path.absolute(), *path.absolute().parents) if place.exists())
    if there != path.absolute() and not there.is_dir():
        raise InputError(f"{path}: {there} is a file, not a folder", "another path")
    if not os.access(there, os.W_OK):
        raise DiskError(f"{path}: {there} may not be written to", "another path")


def check_file(path: Path) -> None:
    """The same for a file."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder, and a file is to be written", f"a name in it: {path / 'NAME'}")
    check_place(path)
    if path.is_file() and not os.access(path.parent, os.W_OK):
        raise DiskError(f"{path}: nothing may be written beside it", "another path")


def make_place(path: Path) -> None:
    """The folders on the way to a file that is about to be written."""
    check_file(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DiskError(f"{path}: not written, {describe(error)}", "another path") from None


def put(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all."""
    make_place(path)
    try:
        # a pipe or a device has no file to rename, and /dev/stdout may be a file that others write to as well
        if path.exists() and (not path.is_file() or path.absolute().is_relative_to("/dev")):
            path.write_bytes(content)
            return
        replace(path.resolve(), content)  # a link stays one, and what it leads to is written
    except OSError as error:
        raise DiskError(f"{path}: not written, {describe(error)}", "make room, or another path") from None


def append_line(path: Path, line: str) -> None:
    """Add a line to a text file, which is made if there is none."""
    before = path.read_bytes() if path.is_file() else b""
    put(path, before + (b"\n" if before and not before.endswith(b"\n") else b"") + line.encode() + b"\n")
