"""The command line: each verb parses its words and calls one function. Results go to stdout and nothing else does."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, TextIO

from regard.errors import DiskError, RegardError
from regard.host.files import FULL, describe

if TYPE_CHECKING:
    from regard.cli.arguments import app as app

__all__ = ["app", "run"]

# the files of this folder that hold verbs, in the order in which help lists these
VERBS = {
    "demo": ("demo",),
    "prepare": ("data", "new"),
    "train": ("train", "resume", "plan", "verify", "average"),
    "sweep": ("sweep",),
    "folds": ("folds",),
    "prefer": ("prefer",),
    "runs": ("runs", "rm", "log"),
    "translate": ("translate",),
    "generate": ("generate",),
    "chat": ("chat",),
    "answer": ("fill", "classify", "tag"),
    "inspect": ("inspect",),
    "ask": ("ask",),
    "score": ("score",),
    "caption": ("caption",),
    "paint": ("sample", "complete"),
    "retrieve": ("embed", "search"),
    "evaluate": ("eval",),
    "report": ("report",),
    "compare": ("compare",),
    "frontier": ("frontier",),
    "align": ("align",),
    "look": ("show", "tokens", "plot", "doctor"),
    "laws": ("laws",),
    "lab": ("lab",),
    "settings": ("settings",),
    "exchange": ("import", "export"),
}
PIPE = 141  # the status of a program whose reader went away: 128 + SIGPIPE


def run() -> None:
    """The program: a user's mistake is told in one message and an exit status, without a traceback."""
    # a stream that was closed before the start isn't there at all
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    if sys.stdout is None:
        error = DiskError("standard output is closed, and the results go there", "regard … > FILE")
        sys.exit(tell(error))
    status = attempt(lambda: enter_verbs(sys.argv[1:])(prog_name="regard"))
    sys.exit(attempt(sys.stdout.flush) or status)  # what nobody takes is found out here, not at exit


def enter_verbs(words: Sequence[str] = ()) -> Any:
    """The program with the verb that is typed; for help, for completion and for words that nobody knows, with all.

    To describe forty verbs to the parser takes longer than to answer a line with one of them.
    """
    from regard.cli.arguments import app

    typed = None if "_REGARD_COMPLETE" in os.environ else find_verb(words)
    for file in [file for file, verbs in VERBS.items() if typed in verbs] or VERBS:
        import_module(f"regard.cli.{file}")
    order = [verb for verbs in VERBS.values() for verb in verbs]
    app.registered_commands.sort(
        key=lambda command: order.index(command.name or str(command.callback and command.callback.__name__))
    )
    return app


def find_verb(words: Sequence[str]) -> str | None:
    """The first word that isn't an option of the program itself; None where such an option may be all that is asked."""
    rest = iter(words)
    for word in rest:
        if word == "--uses":
            next(rest, None)
        elif not word.startswith("--uses="):
            return None if word.startswith("-") else word
    return None


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module 'regard.cli' has no attribute {name!r}")
    return enter_verbs()


def attempt(work: Callable[[], object]) -> int:
    """Do something, and give the exit status that it comes to."""
    try:
        work()
        return 0
    except RegardError as error:
        return tell(error)
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        return give_up(error)
    except SystemExit as stop:
        # the parser and the terminal's library turn a closed pipe into an end of their own
        closed = stop.__context__
        return give_up(closed) if isinstance(closed, BrokenPipeError) else int(stop.code or 0)


def tell(error: RegardError) -> int:
    """Say what was wrong; its status."""
    with suppress(OSError):
        print(wrap(f"regard: {error}") if sys.stderr.isatty() else f"regard: {error}", file=sys.stderr)
    return error.status


def wrap(text: str) -> str:
    """A message as wide as the terminal; words stay whole, so that what is to be typed can be copied."""
    width = shutil.get_terminal_size().columns
    lines: list[str] = []
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        whole = textwrap.wrap(
            line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, tabsize=1
        )
        lines += whole or [""]
    return "\n".join(lines)


def give_up(error: OSError) -> int:
    """The status of a program whose results nobody takes: quiet where the reader has seen enough."""
    if isinstance(error, BrokenPipeError):
        discard(sys.stdout)
        discard(sys.stderr)
        return PIPE
    if error.errno not in FULL:
        raise error
    discard(sys.stdout)
    return tell(DiskError(f"{error.filename or 'standard output'}: {describe(error)}", "make room"))


def discard(stream: TextIO) -> None:
    """Send what is left of a stream nowhere, so that nothing fails again when the interpreter flushes it at exit."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
