"""Lines of a file, as it is: plain or gzip, any line end, any damage, and never more than one line in memory.

A line ends at a newline byte and nowhere else: U+2028 and its kin are characters like others. A byte order mark and a
carriage return before the newline are conventions, not damage.
"""

from __future__ import annotations

import gzip
import io
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from regard.data.log import Log
from regard.errors import DataError, warn

LONGEST = 1_000_000  # bytes; a longer line is reported, not cut
HALVES = re.compile("[\ud800-\udfff]")  # of surrogate pairs: not characters


@dataclass(frozen=True)
class Line:
    """A line's text, or None where it was rejected; `place` is `file:line`."""

    place: str
    text: str | None
    repaired: bool = False


@contextmanager
def open_bytes(path: str) -> Iterator[IO[bytes]]:
    """A file's bytes, unpacked if it is gzip by content; `-` is standard input."""
    if path == "-":
        yield sys.stdin.buffer
        return
    with ExitStack() as stack:
        try:
            raw = stack.enter_context(Path(path).open("rb"))
            packed = raw.peek(2)[:2] == b"\x1f\x8b"
        except OSError as error:
            raise DataError(f"{path}: {error.strerror}", "check the path") from None
        yield io.BufferedReader(gzip.GzipFile(fileobj=raw)) if packed else raw


def lines(path: str, log: Log, longest: int = LONGEST) -> Iterator[Line]:
    """Every line of a file in order, the unusable ones too, so that two files stay side by side."""
    for place, raw in rows(path, log, longest):
        yield Line(place, None) if raw is None else decode(raw, place, log)


def rows(path: str, log: Log, longest: int = LONGEST) -> Iterator[tuple[str, bytes | None]]:
    """The place and the bytes of every line, in whatever charset; None for one that is too long."""
    with open_bytes(path) as stream:
        number = 0
        while True:
            number += 1
            place = f"{path}:{number}"
            try:
                raw = stream.readline(longest + 2)
                rest = 0 if not raw or raw.endswith(b"\n") or len(raw) <= longest else _skip_line(stream)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                log.skip(place, f"damaged gzip: {error}")
                return
            if not raw:
                return
            size = len(raw.rstrip(b"\r\n")) + rest
            if size > longest:
                log.reject(place, f"line too long: {size} bytes, and {longest} are the most")
                yield place, None
            else:
                line = raw.removesuffix(b"\n").removesuffix(b"\r")
                yield place, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line


def _skip_line(stream: IO[bytes]) -> int:
    """Read to the end of the line; how many bytes that were."""
    count = 0
    while True:
        piece = stream.readline(1 << 16)
        count += len(piece.rstrip(b"\r\n"))
        if not piece or piece.endswith(b"\n"):
            return count


def decode(raw: bytes, place: str, log: Log, charset: str = "UTF-8") -> Line:
    """A line's text."""
    try:
        return clean(raw.decode(charset), place, log)
    except UnicodeDecodeError as error:
        if not log.mend(place, f"bad {charset}: byte {raw[error.start]:#04x} at {error.start}"):
            return Line(place, None)
        mended = clean(raw.decode(charset, errors="replace"), place, log)
        return Line(place, mended.text, repaired=True)


def clean(text: str, place: str, log: Log) -> Line:
    """Text without what no tokenizer can take: NUL, and halves of surrogate pairs."""
    reasons = []
    if "\0" in text:
        reasons.append("NUL")
    if HALVES.search(text):
        reasons.append("lone surrogate")
    if not reasons:
        return Line(place, text)
    if not log.mend(place, " and ".join(reasons)):
        return Line(place, None)
    return Line(place, HALVES.sub("\ufffd", text.replace("\0", "")), repaired=True)


def texts(names: Sequence[str]) -> Iterator[str]:
    """Every line of some files, whatever state it is in: a user wants an answer for each."""
    log = Log("repair")
    for name in names or ["-"]:
        for line in lines(name, log):
            yield line.text or ""
    for reason, count in log.reasons.items():
        warn(f"{count} lines: {reason}")
