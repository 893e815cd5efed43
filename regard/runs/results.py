"""Measured results, on a page that the commands which measured them write: `--record docs/results.md`.

A section has one table. A row is known by its first cell, and measuring again puts the new row in the old one's place:
the page tells nothing that no command has found. The run that was measured keeps the same in `evaluations.jsonl`, so
that its folder tells all that is known of it.
"""

from __future__ import annotations

import json
import os
import platform
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

import regard
from regard.errors import DataError, warn
from regard.host.files import describe, replace
from regard.host.machine import describe_machine
from regard.host.output import put
from regard.runs.resolve import EVALUATIONS

PAGE = "# Results\nEach row was written by the command that measured it, with `--record docs/results.md`.\n"


def record(path: Path, title: str, row: Mapping[str, str]) -> None:
    """Put a row into the table of a section, and leave the rest of the page as it is."""
    sections = re.split(r"(?m)^(?=## )", read_page(path))
    head = f"## {title}\n"
    place = next((n for n, section in enumerate(sections) if section.startswith(head)), len(sections))
    if place == len(sections):
        sections[-1] = sections[-1].rstrip("\n") + "\n\n"
        sections.append(head)
    sections[place] = _with(sections[place], row, f"{path}, {title}")
    put(path, "".join(sections).encode())


def read_page(path: Path) -> str:
    """The page as it is, or a new one."""
    try:
        return path.read_text(encoding="utf-8") if path.exists() else PAGE
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: {error}") from None


def note(folder: Path, found: Mapping[str, Any]) -> None:
    """Add an evaluation to what a run's own folder tells, with the time, this machine and this version."""
    path = folder / EVALUATIONS
    entry = {"time": time.time(), **found, "machine": describe_machine(), "regard": regard.__version__}
    try:
        before = path.read_bytes() if path.exists() else b""
        # a line that a crash cut short isn't gone on with
        before += b"" if before.endswith(b"\n") or not before else b"\n"
        replace(path, before + json.dumps(entry, ensure_ascii=False).encode() + b"\n")
    except OSError as error:  # the page has it, and a run that may only be read is no mistake
        warn(f"{path}: not written, {describe(error)}")


def read_notes(folder: Path) -> list[dict[str, Any]]:
    """The evaluations that a run's folder tells of, oldest first; what can't be read is left out."""
    try:
        lines = (folder / EVALUATIONS).read_bytes().split(b"\n")
    except OSError:
        return []
    return [entry for entry in map(_read_note, lines) if entry is not None]


def _read_note(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    sound = isinstance(entry, dict) and isinstance(entry.get("measures"), dict) and type(entry.get("step")) is int
    return entry if sound else None


def _with(section: str, row: Mapping[str, str], where: str) -> str:
    """A section whose table has this row."""
    text = [line for line in section.rstrip("\n").split("\n") if not line.startswith("|")]
    rows = [line for line in section.split("\n") if line.startswith("|")]
    top = [_line(row), _line(["---"] * len(row))]
    if rows and rows[:2] != top:
        raise DataError(f"{where}: a table with other columns is there: {rows[0]}", "--record ANOTHER")
    body, new = rows[2:], _line(row.values())
    name = _line([next(iter(row.values()))])
    place = next((n for n, line in enumerate(body) if line.startswith(name)), len(body))
    body[place : place + 1] = [new]
    return "\n".join([*text, *top, *body]) + "\n\n"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def machine() -> str:
    """Where something was measured."""
    return f"{os.cpu_count()} cores, {platform.machine()}, torch {torch.__version__.partition('+')[0]}"
