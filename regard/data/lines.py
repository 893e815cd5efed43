"""Lines of a file, as it is: packed or not, any line end, any damage, and never more than one line in memory.

A line ends at a newline byte and nowhere else: U+2028 and its kin are characters like others. A byte order mark and a
carriage return before the newline are conventions, not damage.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from regard.data.encoding import UTF8, open_text
from regard.data.log import Log
from regard.data.packing import DamagedFile
from regard.data.source import open_bytes
from regard.errors import warn

LONGEST = 1_000_000  # bytes; a longer line is reported, not cut
HALVES = re.compile("[\ud800-\udfff]")  # of surrogate pairs: not characters


@dataclass(frozen=True)
class Line:
    """A line's text, or None where it was rejected; `place` is `file:line`."""

    place: str
    text: str | None
    repaired: bool = False


def lines(path: str, log: Log, longest: int = LONGEST, encoding: str = UTF8) -> Iterator[Line]:
    """Every line of a file in order, the unusable ones too, so that two files stay side by side."""
    with open_bytes(path) as packed:
        stream, charset = open_text(packed, encoding)
        name = "UTF-8" if charset == UTF8 else charset
        for place, raw in cut_lines(stream, path, log, longest):
            yield Line(place, None) if raw is None else decode(raw, place, log, name)


def rows(path: str, log: Log, longest: int = LONGEST) -> Iterator[tuple[str, bytes | None]]:
    """The place and the bytes of every line, in whatever charset; None for one that is too long."""
    with open_bytes(path) as stream:
        yield from cut_lines(stream, path, log, longest)


def cut_lines(stream: IO[bytes], path: str, log: Log, longest: int) -> Iterator[tuple[str, bytes | None]]:
    number = 0
    while True:
        number += 1
        place = f"{path}:{number}"
        try:
            raw = stream.readline(longest + 2)
            rest = 0 if not raw or raw.endswith(b"\n") or len(raw) <= longest else _skip_line(stream)
        except DamagedFile as error:
            log.skip(place, str(error))
            return
        if not raw:
            return
        if len(raw) > longest and (size := len(raw.rstrip(b"\r\n")) + rest) > longest:
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
    if "\0" not in text and (text.isascii() or not HALVES.search(text)):  # nearly all are
        return Line(place, text)
    reasons = []
    if "\0" in text:
        reasons.append("NUL")
    if HALVES.search(text):
        reasons.append("lone surrogate")
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
