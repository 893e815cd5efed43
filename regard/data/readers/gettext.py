"""gettext catalogues (`.po`): `msgid` and `msgstr`, entry by entry, in the charset that their header names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from regard.core.spec import Size
from regard.data.encoding import keeps_ascii
from regard.data.lines import LONGEST, Line, clean, decode, rows
from regard.data.log import Log
from regard.data.reader import PairReader
from regard.data.source import Paths
from regard.errors import DataError

CHARSET = re.compile(rb"charset=([^\s\\\";]+)")
KEYWORD = re.compile(r'(msgctxt|msgid|msgid_plural|msgstr|msgstr\[\d+\])\s*(".*)')
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
ESCAPE = re.compile(r"\\([0-7]{1,3}|x[0-9A-Fa-f]{1,2}|.)")
LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


class PO(PairReader):
    """A gettext catalogue; a plural pairs with the last form; fuzzy and obsolete entries are left out."""

    suffixes: ClassVar[tuple[str, ...]] = (".po",)
    kind: Literal["po"] = "po"
    path: Paths
    longest: Size = LONGEST

    def raw(self, log: Log) -> Iterator[tuple[Line, Line]]:
        for path in self.find(self.path):
            for entry in catalogue(path, log, self.longest):
                if entry.damaged:
                    log.drop()
                elif "msgid" not in entry.texts:
                    log.skip(entry.place, "not gettext: a translation of nothing")
                elif not entry.texts["msgid"]:
                    continue  # the header
                elif entry.fuzzy:
                    log.skip(entry.place, "fuzzy")
                else:
                    for texts in entry.pairs():
                        source, target = (clean(text, entry.place, log) for text in texts)
                        yield source, target


@dataclass
class Message:
    """One message: its texts by keyword, and where it begins."""

    place: str = ""
    texts: dict[str, str] = field(default_factory=dict)
    fuzzy: bool = False
    damaged: bool = False

    def pairs(self) -> Iterator[tuple[str, str]]:
        """The message and its translation, and those of its plural."""
        forms = sorted((key for key in self.texts if key.startswith("msgstr[")), key=lambda key: int(key[7:-1]))
        yield self.texts["msgid"], self.texts.get("msgstr", self.texts[forms[0]] if forms else "")
        if "msgid_plural" in self.texts and forms:
            yield self.texts["msgid_plural"], self.texts[forms[-1]]

    @property
    def translated(self) -> bool:
        return any(keyword.startswith("msgstr") for keyword in self.texts)

    def ends_before(self, keyword: str) -> bool:
        """Whether a keyword begins another entry: a message comes before its translation, and each comes once."""
        return keyword in self.texts or (self.translated and not keyword.startswith("msgstr"))


def catalogue(path: str, log: Log, longest: int) -> Iterator[Message]:
    """The entries of a gettext file. What comes after a translation ends one: a comment, an empty line, the next."""
    entry, keyword, charset = Message(), "", "UTF-8"
    for place, raw in rows(path, log, longest):
        if raw is None:
            entry.damaged = True
            continue
        bare = raw.strip()
        if not bare or bare.startswith(b"#"):
            if entry.translated or entry.damaged:
                yield entry
            if entry.translated or entry.damaged or bare.startswith(b"#~"):  # obsolete: its flags aren't the next one's
                entry, keyword = Message(), ""
            # comments may be in any charset: only their flags are read
            if bare.startswith(b"#,") and b"fuzzy" in re.split(rb"[,\s]+", bare):
                entry.fuzzy = True
            continue
        # the header translates the empty message; other messages may begin with an empty string and speak of charsets
        translating = bare.startswith(b"msgstr") or (keyword == "msgstr" and bare.startswith(b'"'))
        if translating and entry.texts.get("msgid") == "" and (named := CHARSET.search(bare)):
            charset = check_charset(named[1], place)
        line = decode(raw, place, log, charset)
        if line.text is None:
            entry.damaged = True
            continue
        match = KEYWORD.fullmatch(line.text.strip())
        word, quoted = (match[1], match[2]) if match else (keyword, line.text.strip())
        piece = unquote(quoted)
        if piece is None or not word:
            log.reject(place, "not gettext")
            entry.damaged = True
            continue
        if match and entry.ends_before(word):
            yield entry
            entry = Message()
        keyword, entry.place = word, entry.place or place
        entry.texts[word] = entry.texts.get(word, "") + piece
    if entry.texts or entry.damaged:
        yield entry


def check_charset(name: bytes, place: str) -> str:
    """A charset that Python knows and in which ASCII is ASCII, as gettext wants it."""
    shown = name.decode("ascii", "replace")
    if shown == "CHARSET":  # of a template that nobody has filled in
        return "UTF-8"
    if not keeps_ascii(shown):
        raise DataError(f"{place}: the charset {shown!r} isn't one that can be read", "msgconv --to-code=UTF-8")
    return shown


def unquote(text: str) -> str | None:
    """A C string's text, or None."""
    found = STRING.fullmatch(text)
    return None if found is None else ESCAPE.sub(_letter, found[1])


def _letter(escape: re.Match[str]) -> str:
    code = escape[1]
    if code[0] in "01234567":
        return chr(int(code, 8))
    return chr(int(code[1:], 16)) if code[0] == "x" and len(code) > 1 else LETTERS.get(code, code)
