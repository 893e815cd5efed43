"""Where texts come from, and how they are answered: one manner for every verb that answers texts, or pictures.

Texts are typed (`regard translate RUN "I like the green cat."`), or they are the lines of files (`--file`), or of
standard input. They are read and answered a window at a time, so a file of any length will do; answers come in the
order of the texts, an empty text has an empty answer, and one that can't be answered doesn't lose the others.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Protocol, TypeVar

import typer

from regard.cli.progress import ProgressMeter
from regard.errors import InputError, RegardError, SpecError, warn
from regard.host.meter import SILENT

T = TypeVar("T")
G = TypeVar("G", bound="GivenText")
G_co = TypeVar("G_co", bound="GivenText", covariant=True)
Item = TypeVar("Item")

WINDOW = 512  # texts that are read, sorted and answered together
TOLD = 20  # texts without an answer that are told one by one

TEXTS = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TEXT", help="A text, or several: one answer each. Without any, the lines of standard input."
    ),
]
FILE = Annotated[
    list[Path] | None,
    typer.Option("--file", metavar="FILE", help="Answer each line of this file; for several files, say it again."),
]


@dataclass(frozen=True)
class GivenText:
    """One text, and where it stands: `text 2`, `line 7`, `in.txt:7`."""

    place: str
    text: str
    fault: str = ""  # why it can't be read, if it can't


class Source(Protocol[G_co]):
    """What is to be answered, one after the other."""

    noun: str  # what they are called together

    def __iter__(self) -> Iterator[G_co]: ...

    @property
    def live(self) -> bool:
        """Whether a person types them, and waits for each answer."""

    @property
    def alone(self) -> bool:
        """Whether there is one only, so that what is wrong with it is all there is to say."""

    def count(self) -> int | None:
        """How many there are, where one can look without using them up."""


@dataclass
class TextSource:
    """Texts that were typed, then the lines of files; `-` is standard input."""

    typed: Sequence[str]
    files: Sequence[str]
    noun: str = "texts"

    def __iter__(self) -> Iterator[GivenText]:
        for number, text in enumerate(self.typed, 1):
            yield GivenText(f"text {number}", text)
        yield from self._read_lines()

    def _read_lines(self) -> Iterator[GivenText]:
        from regard.data.lines import LONGEST, lines
        from regard.data.log import Log

        log = Log("repair")
        for name in self.files:
            for line in lines(name, log):
                place = line.place.replace("-:", "line ", 1) if name == "-" else line.place
                fault = f"longer than {LONGEST:,} bytes" if line.text is None else ""
                yield GivenText(place, line.text or "", fault)
        for reason, count in log.reasons.items():
            if reason != "line too long":  # each of those is told by itself
                warn(f"{count} lines: {reason}")

    @property
    def live(self) -> bool:
        return "-" in self.files and sys.stdin.isatty()

    @property
    def alone(self) -> bool:
        return len(self.typed) == 1 and not self.files

    def count(self) -> int | None:
        if not all(os.path.isfile(name) for name in self.files):  # a pipe can be read once
            return None
        from regard.data.lines import rows
        from regard.data.log import Log

        return len(self.typed) + sum(1 for name in self.files for _ in rows(name, Log("repair")))


def choose_source(
    texts: Sequence[str] | None, files: Sequence[Path] | None, typed: Sequence[str] | None = None
) -> TextSource:
    """What a user means by the words of the command line; a file's name is never taken for a text.

    `typed`: all that was, where other options than the words hold texts too.
    """
    for text in texts or []:
        if os.path.isfile(text):
            told = f"{text}: is a file, and texts are expected here"
            raise SpecError(told, f"--file {quote(text)} for its lines")
    # a dash is standard input, as everywhere; nobody wants the answer to one
    given = [text for text in typed or texts or [] if text != "-"]
    named = [*(["-"] if "-" in (texts or []) else []), *map(str, files or [])]
    source = TextSource(given, named if given or named else ["-"])
    if source.live:
        print("regard: one text a line; Ctrl-D ends", file=sys.stderr)
    return source


@dataclass
class Manner:
    """How answers are written: as JSON or plain; `field` holds the text in JSON, `blank` is an empty answer."""

    json: bool
    field: str
    blank: Mapping[str, Any]

    def leave_blank(self, text: GivenText, error: str = "") -> None:
        """Write an empty answer; with what was wrong, if something was."""
        if self.json:
            told = {self.field: text.text, **self.blank} | ({"error": error} if error else {})
            print(json.dumps(told, ensure_ascii=False))
        else:
            print()


def answer_texts(
    source: TextSource,
    what: str,
    ask: Callable[[list[str]], Sequence[T]],
    show: Callable[[GivenText, T], None],
    manner: Manner,
    window: int = WINDOW,
    quiet: bool = False,
) -> int:
    """Ask for the answer of each text and show it, in order; how many there were, or an error if some have none.

    `what`: what progress calls it. `quiet`: answers aren't written to standard output, so progress is always shown.
    """
    return answer_each(source, what, lambda group: ask([each.text for each in group]), show, manner, window, quiet)


def answer_each(
    source: Source[G],
    what: str,
    ask: Callable[[list[G]], Sequence[T]],
    show: Callable[[G, T], None],
    manner: Manner,
    window: int = WINDOW,
    quiet: bool = False,
) -> int:
    """The same for whatever has a place and may have a fault."""
    faults: list[tuple[GivenText, RegardError]] = []
    seen = not quiet and sys.stdout.isatty()  # then the answers themselves are the progress
    alone = source.alone and not manner.json
    given, count = iter(source), 0
    with (SILENT if seen else ProgressMeter()).watch(what, None if seen else source.count()) as advance:
        while group := list(islice(given, 1 if source.live else window)):
            count += len(group)
            answers = iter(ask_each(ask, [each for each in group if each.text.strip() and not each.fault]))
            for each in group:
                found = None if each.fault or not each.text.strip() else next(answers)
                found = InputError(each.fault) if each.fault else found
                if isinstance(found, RegardError):
                    if alone:
                        raise found
                    faults.append((each, found))
                    tell_fault(each, found, len(faults))
                    manner.leave_blank(each, found.message)
                elif found is not None:
                    show(each, found)
                else:
                    manner.leave_blank(each)
                advance()
            sys.stdout.flush()
    if faults:
        raise summarise(faults, source.noun)
    return count


def ask_each(ask: Callable[[list[Item]], Sequence[T]], given: list[Item]) -> list[T | InputError]:
    """The answer of each, or what is wrong with it: what fails together is asked again in halves."""
    if not given:
        return []
    try:
        return list(ask(given))
    except InputError as error:
        if len(given) == 1:
            return [error]
    middle = len(given) // 2
    return [*ask_each(ask, given[:middle]), *ask_each(ask, given[middle:])]


def tell_fault(given: GivenText, error: RegardError, number: int) -> None:
    """Say which has no answer, as it comes; of very many only the first."""
    if number <= TOLD:
        print(f"regard: {given.place}: {error.message}", file=sys.stderr)


def summarise(faults: Sequence[tuple[GivenText, RegardError]], noun: str = "texts") -> InputError:
    """What there is to say at the end."""
    places = ", ".join(given.place for given, _ in faults[:10]) + (", …" if len(faults) > 10 else "")
    return InputError(f"no answer for {len(faults)} of the {noun}: {places}", faults[0][1].hint)
