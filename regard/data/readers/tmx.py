"""Translation memories (TMX): units with a text for each language, read piece by piece and never held as a tree."""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Self
from xml.etree import ElementTree

from pydantic import model_validator

from regard.core.spec import Size
from regard.data.lines import LONGEST, Line, clean
from regard.data.log import Log
from regard.data.reader import PairReader
from regard.data.sample import Form
from regard.data.source import Paths, open_bytes
from regard.errors import DataError

CODES = frozenset({"bpt", "ept", "ph", "it", "ut"})  # hold another program's markup, not text; `hi` holds text
LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
PIECE = 2**16  # bytes that are parsed at once


class TMX(PairReader):
    """A translation memory; `en` finds `en-GB` and `en_US` too, and `en-GB` finds `en` if nothing is nearer."""

    suffixes: ClassVar[tuple[str, ...]] = (".tmx",)
    kind: Literal["tmx"] = "tmx"
    path: Paths
    source: str | None = None
    """The language of the source; unless given, what the file's header and its first unit say, if that is clear."""
    target: str | None = None
    """The language of the target; unless given, as for the source."""
    longest: Size = LONGEST
    """A text with more characters than this can't be used."""

    @model_validator(mode="after")
    def check(self) -> Self:
        if (self.source is None) != (self.target is None):
            raise ValueError("source, target: give both languages or neither")
        return self

    @classmethod
    def take(cls, names: Sequence[str], form: Form) -> Self | None:
        """A file, which may be followed by its two languages."""
        if len(names) == 3 and super().take(names[:1], form) is not None:
            return cls(path=names[0], source=names[1], target=names[2])
        return super().take(names, form)

    def raw(self, log: Log) -> Iterator[tuple[Line, Line]]:
        for path in self.find(self.path):
            wanted = (self.source, self.target) if self.source and self.target else None
            for unit in units(path, log, self.longest):
                wanted = wanted or unit.direction(path)
                found = [nearest(unit.texts, language) for language in wanted]
                missing = next((language for language, key in zip(wanted, found, strict=True) if key is None), None)
                if unit.damaged:
                    log.skip(unit.place, f"text too long: {self.longest} characters are the most")
                elif missing is not None:
                    log.skip(unit.place, f"no text: {missing!r}")
                elif found[0] == found[1]:
                    log.skip(unit.place, f"no text: only {found[0]!r} for both languages")
                else:
                    source, target = (clean(unit.texts[key or ""], unit.place, log) for key in found)
                    yield source, target


@dataclass
class Unit:
    """One unit: its texts by language, the first where a language has several."""

    place: str
    header: str  # the language that the file's header calls the source; "" where it doesn't say
    texts: dict[str, str] = field(default_factory=dict)
    damaged: bool = False

    def direction(self, path: str) -> tuple[str, str]:
        """Source and target, where it is clear which is which."""
        if len(self.texts) == 2:
            first, second = self.texts
            source = nearest(self.texts, self.header) if self.header not in ("", "*all*") else first
            if source is not None:
                return source, second if source == first else first
        told = f", and its header says {self.header!r}" if self.header else ""
        raise DataError(
            f"{self.place}: which language is the source? There are {', '.join(self.texts) or 'none'}{told}",
            f"source: en, target: fr; or --data {path} --data en --data fr",
        )


def normal(language: str | None) -> str:
    """One spelling of a language's name: `en_US` is `en-us`."""
    return (language or "").strip().lower().replace("_", "-")


def nearest(texts: Mapping[str, str], wanted: str) -> str | None:
    """The language among these that is meant: the same, a variety of it, or what it is a variety of."""
    wanted = normal(wanted)
    for near in (
        lambda language: language == wanted,
        lambda language: language.startswith(f"{wanted}-"),
        lambda language: wanted.startswith(f"{language}-"),
    ):
        if found := next((language for language in texts if language and near(language)), None):
            return found
    return None


def units(path: str, log: Log, longest: int) -> Iterator[Unit]:
    """The units of a file one after the other; what comes after damage is lost, and the log says so."""
    builder = Builder(path, longest)
    parser = ElementTree.XMLParser(target=builder)
    with open_bytes(path) as stream:
        try:
            while piece := stream.read(PIECE):
                parser.feed(piece)
                while builder.done:
                    yield builder.done.popleft()
            parser.close()
        # the last two: a charset that the parser doesn't know
        except (ElementTree.ParseError, OSError, LookupError, ValueError) as error:
            yield from builder.done
            log.skip(path, f"damaged XML: {error}")


class Builder:
    """What the parser tells of its way through the file, and the units that have ended."""

    def __init__(self, path: str, longest: int) -> None:
        self.path, self.longest = path, longest
        self.done: deque[Unit] = deque()
        self.number, self.header = 0, ""
        self.languages = [""]  # of the elements that are open: what one doesn't say, the one around it does
        self.unit: Unit | None = None
        self.text: io.StringIO | None = None  # of the segment that is open
        self.hidden = 0  # codes that are open, within each other

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        name = tag.rpartition("}")[2]
        own = attributes.get(LANGUAGE) or (attributes.get("lang") if name == "tuv" else None)
        self.languages.append(normal(own) or self.languages[-1])
        if name == "header":
            self.header = normal(attributes.get("srclang"))
        elif name == "tu":
            self.number += 1
            self.unit = Unit(f"{self.path}:tu {self.number}", self.header)
        elif name == "seg":
            self.text, self.hidden = io.StringIO(), 0
        elif name in CODES:
            self.hidden += 1

    def data(self, text: str) -> None:
        if self.text is None or self.hidden:
            return
        if self.text.tell() + len(text) <= self.longest:
            self.text.write(text)
        elif self.unit is not None:
            self.unit.damaged = True

    def end(self, tag: str) -> None:
        name, language = tag.rpartition("}")[2], self.languages.pop()
        if name == "tu" and self.unit is not None:
            self.done.append(self.unit)
            self.unit = None
        elif name == "seg":
            if self.unit is not None and self.text is not None:
                self.unit.texts.setdefault(language, self.text.getvalue())
            self.text = None
        elif name in CODES:
            self.hidden -= 1

    def close(self) -> None:
        """Nothing is left to do."""
