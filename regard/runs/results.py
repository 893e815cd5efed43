"""Measured results, on a page that the commands which measured them write: `--record docs/results.md`.

A section has one table. A row is known by its first cell, and measuring again puts the new row in the old one's place:
the page tells nothing that no command has found.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch

from regard.errors import DataError
from regard.host.output import put

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
