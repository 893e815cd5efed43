"""Following a run that another process trains, by its journal: what is there, and then what comes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.runs.lock import is_held
from regard.runs.resolve import PREPARING, is_run, no_run
from regard.train.listener import read_entry

PAUSE = 0.5  # seconds between two looks
Entry = dict[str, Any]


class Tail:
    """The lines of a journal as they are added; one that was put in its place is read on from where it differs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.inode, self.offset = 0, 0  # which file was read last, and how far
        self.seen = set[int]()  # lines that were told, by their hash: a run that goes on keeps most of them

    def read(self) -> list[Entry]:
        """What was added since the last time; a line counts once it has its end."""
        try:
            with self.path.open("rb") as file:
                there = os.fstat(file.fileno())
                if there.st_ino != self.inode or there.st_size < self.offset:
                    self.inode, self.offset = there.st_ino, 0
                file.seek(self.offset)
                *lines, rest = file.read().split(b"\n")
                self.offset = file.tell() - len(rest)
        except OSError:
            return []
        fresh = [line for line in lines if hash(line) not in self.seen]
        self.seen |= {hash(line) for line in fresh}
        entries = (read_entry(line) for line in fresh)
        return [entry for entry in entries if entry is not None]


def follow(folder: Path, wait: bool = True) -> Iterator[list[Entry]]:
    """The entries of a run's journal: first all that are there, then those that come, until nobody trains it.

    `wait`: whether to wait for those that come. An empty list comes while nothing happens.
    """
    if not is_run(folder) and not (folder / PREPARING).is_file():
        raise no_run(folder)
    tail = Tail(folder / "metrics.jsonl")
    while True:
        held = is_held(folder)  # asked first, so that what a trainer writes before it goes isn't missed
        yield tail.read()
        if not wait or not held:
            return
        time.sleep(PAUSE)
