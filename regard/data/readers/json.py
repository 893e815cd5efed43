"""JSON, a list of objects in one file; read piece by piece, so it may be larger than memory."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterator
from typing import ClassVar, Literal

from regard.core.spec import Size
from regard.data.encoding import UTF8, Encoding, open_text
from regard.data.lines import LONGEST
from regard.data.log import Log
from regard.data.packing import PIECE, DamagedFile
from regard.data.readers.jsonl import read_objects
from regard.data.sample import Form
from regard.data.sheet import Sheet, SheetRow
from regard.data.source import STANDARD_INPUT, open_bytes
from regard.data.table import TableReader

SPACES = " \t\r\n"


class JSON(TableReader):
    """A list of JSON objects; a file that begins with an object has one a line."""

    suffixes: ClassVar[tuple[str, ...]] = (".json",)
    kind: Literal["json"] = "json"
    longest: Size = LONGEST
    """An object with more letters than this can't be used."""
    encoding: Encoding = UTF8

    def open(self, path: str, form: Form, log: Log) -> Sheet:
        return open_json(path, log, self.longest, self.encoding)


def open_json(path: str, log: Log, longest: int, encoding: str) -> Sheet:
    """A file of objects as a table, whether they stand in a list or one a line."""
    read = read_list if path == STANDARD_INPUT or begins_list(path, encoding) else read_objects
    return Sheet.of_objects(path, read(path, log, longest, encoding))


def begins_list(path: str, encoding: str) -> bool:
    with open_bytes(path) as packed:
        try:
            beginning = open_text(packed, encoding)[0].peek(PIECE)
        except DamagedFile:
            return False
    return beginning.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"[")


def read_list(path: str, log: Log, longest: int, encoding: str) -> Iterator[SheetRow]:
    """The objects of a list, each at the line on which it begins; what comes after damage is lost, and told."""
    with open_bytes(path) as packed:
        stream, charset = open_text(packed, encoding)
        # a bad byte becomes half a pair, which is found in its text and told there
        decoder = codecs.getincrementaldecoder("utf-8-sig" if charset == UTF8 else charset)("surrogateescape")
        text = Reel(lambda: decoder.decode(piece) if (piece := stream.read1(PIECE)) else None)
        try:
            yield from cut_list(text, path, log, longest)
        except DamagedFile as error:
            log.skip(f"{path}:{text.line}", str(error))


class Reel:
    """Text of which a little is in memory: what has been read and not yet used."""

    def __init__(self, read: Callable[[], str | None]) -> None:
        self.read, self.text, self.at, self.line = read, "", 0, 1

    def more(self) -> bool:
        """Read a piece more; whether there was one."""
        piece = self.read()
        if piece is None:
            return False
        self.line += self.text.count("\n", 0, self.at)
        self.text, self.at = self.text[self.at :] + piece, 0
        return True

    def read_on(self, pieces: int) -> bool:
        """Read several pieces more; whether there was any."""
        return sum(self.more() for _ in range(pieces)) > 0

    def next_sign(self) -> str:
        """The next letter that isn't a space, without taking it; nothing at the end."""
        while True:
            while self.at < len(self.text) and self.text[self.at] in SPACES:
                self.at += 1
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.more():
                return ""

    @property
    def here(self) -> int:
        """The line that it stands on."""
        return self.line + self.text.count("\n", 0, self.at)


def cut_list(text: Reel, path: str, log: Log, longest: int) -> Iterator[SheetRow]:
    if text.next_sign() != "[":
        log.skip(f"{path}:{text.here}", "not a list of objects")
        return
    text.at += 1
    while (sign := text.next_sign()) != "]":
        place = f"{path}:{text.here}"
        found = read_value(text, longest) if sign else None
        if found is None:
            log.skip(place, f"damaged JSON: no whole object within {longest} letters")
            return
        if not isinstance(found[0], dict):
            log.reject(place, "not an object")
        yield SheetRow(place, found[0] if isinstance(found[0], dict) else None)
        if (sign := text.next_sign()) not in (",", "]"):
            log.skip(f"{path}:{text.here}", "damaged JSON: what follows can't be read")
            return
        text.at += sign == ","


def read_value(text: Reel, longest: int) -> tuple[object] | None:
    """The next value; None where there is no whole one within so many letters."""
    decoder, size = json.JSONDecoder(), 0
    while True:
        try:
            value, end = decoder.raw_decode(text.text, text.at)
            if end < len(text.text):  # a number at the end of the text may go on
                text.at = end
                return (value,)
        except (ValueError, RecursionError):
            pass
        # twice as much each time, so that a long object isn't parsed again for each piece of it
        size = max(PIECE, 2 * size)
        if size > 2 * longest + PIECE or not text.read_on(size // PIECE):
            return None
