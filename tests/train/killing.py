"""A program that kills its own children while they save, and reports what they left: run by the checkpoint tests.

`python -m tests.train.killing each FOLDER STEP …` kills after every operation of these saves in turn; `random FOLDER
COUNT` at random moments. Children are forked, so that each costs milliseconds.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from regard.train.checkpoint import Store
from tests.train.contents import contents, save, whole


def deadly(at: int) -> None:
    """From here on, the process dies right after its n-th open, write, sync, rename or new folder."""
    count = 0

    def dying(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            nonlocal count
            done = real(*args, **more)
            count += 1
            if count == at:
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        return call

    for name in ("fsync", "rename", "replace", "mkdir"):
        setattr(os, name, dying(getattr(os, name)))
    Path.open = dying(Path.open)  # type: ignore[method-assign]


def forked(work: Callable[[], None]) -> int:
    """A child that does some work and ends; its process number."""
    child = os.fork()
    if child:
        return child
    work()
    os._exit(0)


def each(folder: Path, steps: tuple[int, ...]) -> dict[str, int]:
    """Die after each operation of saving some steps, where step 1 is there already, until a child survives them all."""
    at, died, found = 0, True, set()
    while died:
        at += 1
        place = folder / str(at)
        save(Store(place), 1)

        def work(place: Path = place, at: int = at) -> None:
            deadly(at)
            for step in steps:
                save(Store(place), step)

        _, status = os.waitpid(forked(work), 0)
        died = os.WIFSIGNALED(status)
        newest = whole(Store(place))
        assert Store(place).at(newest).step == newest
        Store(place).clear()
        assert whole(Store(place)) == newest
        assert not [*place.glob("*.tmp-*"), *place.glob("*.old-*")]
        found.add(newest)
    return {"operations": at - 1, "first": min(found), "last": max(found)}


def at_random(folder: Path, count: int) -> dict[str, int]:
    """Die at random moments of a long run of saves; the newest that was finished must be there."""
    chance, store, lost = random.Random(0), Store(folder), 0
    for _ in range(count):
        found = store.latest()
        first = 1 if found is None else found.step + 1
        reader, writer = os.pipe()

        def work(first: int = first, writer: int = writer) -> None:
            for step in range(first, first + 1000):
                store.save(step, **contents(step))
                os.write(writer, b".")

        child = forked(work)
        os.close(writer)
        os.read(reader, 1)  # one save at least, then a moment more
        time.sleep(chance.random() * 0.02)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        done = first + len(os.read(reader, 10_000))
        os.close(reader)
        lost = max(lost, done - whole(store))
        if chance.random() < 0.2:
            store.clear()
    return {"deaths": count, "lost": lost}


if __name__ == "__main__":
    torch.set_num_threads(1)
    place = Path(sys.argv[2])
    numbers = [int(word) for word in sys.argv[3:]]
    print(json.dumps(each(place, tuple(numbers)) if sys.argv[1] == "each" else at_random(place, *numbers)))
