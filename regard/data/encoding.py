"""How text is written in bytes, where it isn't UTF-8: by a name that Python knows.

Lines are cut at newline bytes, so an encoding must have ASCII's letters where ASCII has them. UTF-16 and UTF-32 don't,
and are turned into UTF-8 on the way.
"""

from __future__ import annotations

import codecs
import io
from typing import IO, Annotated, Any

from pydantic import AfterValidator

from regard.core.hint import suggest
from regard.data.packing import DamagedFile

UTF8 = "utf-8"
# in shift_jis and its kin the backslash is a yen sign on paper, and nothing depends on it
PRINTABLE = bytes(byte for byte in range(32, 127) if byte != ord("\\"))
WIDE = ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be")
KNOWN = (
    UTF8,
    "latin-1",
    "cp1252",
    "cp1251",
    "iso8859-2",
    "iso8859-15",
    "utf-16",
    "gb18030",
    "big5",
    "shift_jis",
    "euc_kr",
)
# UTF-32's mark begins with UTF-16's, so it is looked for first
MARKS = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


def keeps_ascii(name: str) -> bool:
    """Whether Python knows an encoding by this name, and ASCII is ASCII in it."""
    try:
        return PRINTABLE.decode(name) == PRINTABLE.decode("ascii")
    except (LookupError, ValueError):
        return False


def check_encoding(name: str) -> str:
    """Refuse an encoding that text can't be read in."""
    try:
        normal = codecs.lookup(name).name
    except (LookupError, ValueError):
        normal = ""
    if normal not in WIDE and not (normal and keeps_ascii(normal)):
        raise ValueError(f"no encoding that text can be read in{suggest(name, KNOWN)}")
    return name


Encoding = Annotated[str, AfterValidator(check_encoding)]


def find_mark(beginning: bytes) -> str | None:
    """The encoding that a byte order mark tells, other than UTF-8's."""
    return next((name for mark, name in MARKS.items() if beginning.startswith(mark)), None)


class Recoded(io.RawIOBase):
    """Bytes of a wide encoding as UTF-8.

    Halves of pairs pass as they are, so that the line which they stand in is found to be bad, and no other.
    """

    def __init__(self, stream: IO[bytes], encoding: str) -> None:
        self.stream, self.encoding = stream, encoding
        self.decoder, self.ready = codecs.getincrementaldecoder(encoding)("surrogatepass"), b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self.ready:
            piece = self.stream.read(len(buffer))
            try:
                self.ready = self.decoder.decode(piece, final=not piece).encode(UTF8, "surrogatepass")
            except UnicodeDecodeError as error:
                raise DamagedFile(f"damaged {self.encoding}: {error.reason}") from None
            if not piece:
                break
        size = min(len(buffer), len(self.ready))
        buffer[:size], self.ready = self.ready[:size], self.ready[size:]
        return size


def open_text(stream: io.BufferedReader, encoding: str) -> tuple[io.BufferedReader, str]:
    """A stream whose lines end at newline bytes, and what those lines are written in."""
    normal = codecs.lookup(encoding).name
    try:
        told = find_mark(stream.peek(4)[:4]) if normal == UTF8 else None
    except DamagedFile:  # whoever reads it is told, and says where
        told = None
    if told is None and normal not in WIDE:
        return stream, encoding
    return io.BufferedReader(Recoded(stream, told or encoding)), UTF8
