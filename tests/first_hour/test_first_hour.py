"""The first hour: what newcomers type, as they type it, and what must come back.

A script (`*.txt` beside this file) is typed from top to bottom in one empty folder. Its lines:

    # why somebody types this                           the name of the test
    + reviews.csv                                       a file; its lines follow, each after two spaces
    $ regard train mine.yaml < in.txt                   a command, with or without a file at its standard input
    >>> regard.load("runs/mine").translate("hello")     or a statement in Python
    = 2                                                 the exit status, if it isn't 0; in Python, 2 for an error
    : text, label                                       words that must come back, on either stream
    ! Traceback                                         and such as must not
"""

from __future__ import annotations

import io
import re
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from regard.errors import RegardError
from tests.cli.test_cli import Done, regard

HERE = Path(__file__).parent


@dataclass
class Try:
    """One thing that somebody types."""

    why: str
    typed: str = ""
    files: dict[str, str] = field(default_factory=dict)
    status: int = 0
    wanted: list[str] = field(default_factory=list)
    unwanted: list[str] = field(default_factory=list)


def read_script(path: Path) -> list[Try]:
    """The tries of a script, in their order."""
    found: list[Try] = []
    file = ""
    for line in path.read_text().splitlines():
        sign, _, rest = line.partition(" ")
        if line.startswith("  ") and file:
            found[-1].files[file] += f"{line[2:]}\n"
        elif sign == "#":
            found.append(Try(rest))
        elif sign == "+":
            file = rest
            found[-1].files[file] = ""
        elif sign in ("$", ">>>"):
            found[-1].typed = line
        elif sign == "=":
            found[-1].status = int(rest)
        elif sign == ":":
            found[-1].wanted.append(rest)
        elif sign == "!":
            found[-1].unwanted.append(rest)
        elif line.strip():
            raise ValueError(f"{path.name}: {line!r} begins with no sign that is known")
        file = file if line.startswith(("+", "  ")) else ""
    return found


SCRIPTS = {path.stem: read_script(path) for path in sorted(HERE.glob("*.txt"))}


def type_command(words: list[str]) -> Done:
    """A command as a shell would start it: with a file at its standard input, or with nothing there."""
    given = b""
    if "<" in words:
        at = words.index("<")
        given, words = Path(words[at + 1]).read_bytes(), words[:at]
    assert words[0] == "regard"
    with patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(given))):
        return regard(*words[1:])


def type_python(statement: str, names: dict[str, Any]) -> Done:
    """A statement; what it comes to is printed as an interpreter would."""
    out = io.StringIO()
    with patch.object(sys, "stdout", out), patch.object(sys, "stderr", out):
        try:
            exec(compile(statement, "typed", "single"), names)
        except (RegardError, TypeError, AttributeError) as error:
            return Done(2, out.getvalue(), f"{type(error).__name__}: {error}")
    return Done(0, out.getvalue(), "")


@pytest.mark.parametrize("name", SCRIPTS)
def test_it_does_the_job_or_says_what_settles_it(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tries of a script stand on those before them, so they are one test; it tells of every one that failed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    names: dict[str, Any] = {}
    faults = [fault for each in SCRIPTS[name] for fault in try_out(each, names)]
    assert not faults, "\n\n".join(faults)


def try_out(each: Try, names: dict[str, Any]) -> list[str]:
    """Type it here, and say what isn't as it must be."""
    for name, text in each.files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    if each.typed.startswith("$"):
        done = type_command(shlex.split(each.typed.removeprefix("$ ")))
    else:
        done = type_python(each.typed.removeprefix(">>> "), names)
    told = f"{done.stdout}\n{done.stderr}"
    flat = re.sub(r"\s+", " ", told)  # where a line is broken doesn't matter
    faults = [] if done.returncode == each.status else [f"exit status {done.returncode}, not {each.status}"]
    faults += [f"{words!r} isn't there" for words in each.wanted if words not in told and words not in flat]
    faults += [f"{words!r} is there" for words in [*each.unwanted, "Traceback"] if words in told]
    return [f"{each.why}\n{each.typed}\n{'; '.join(faults)}\n{told}"] if faults else []


def test_there_are_enough_of_them() -> None:
    assert sum(len(script) for script in SCRIPTS.values()) >= 60


def test_every_try_asks_for_something() -> None:
    """A try that nothing could fail proves nothing."""
    for script in SCRIPTS.values():
        for each in script:
            assert each.typed and (each.wanted or each.status == 0), each.why
