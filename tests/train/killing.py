"""A program that kills its own children while they save, and reports what they left: run by the checkpoint tests.

`python -m tests.train.killing each FOLDER` kills after every operation of a save in turn, `again` after every one of
a save of a step that is there already; `random FOLDER COUNT` at random moments. Children
are forked, so that each costs milliseconds.
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


def each(folder: Path) -> dict[str, int]:
    """Die after each operation of two saves, until a child survives them all."""
    at, died, steps = 0, True, set()
    while died:
        at += 1
        place = folder / str(at)
        save(Store(place), 1)

        def work(place: Path = place, at: int = at) -> None:
            deadly(at)
            for step in (2, 3):
                save(Store(place), step)

        _, status = os.waitpid(forked(work), 0)
        died = os.WIFSIGNALED(status)
        steps.add(whole(Store(place)))
        Store(place).clear()
        assert not list(place.glob("*.tmp-*"))
    return {"operations": at - 1, "first": min(steps), "last": max(steps)}


def again(folder: Path) -> dict[str, int]:
    """Die after each operation of saving the only checkpoint once more: the old one or the new one is there."""
    at, died = 0, True
    while died:
        at += 1
        place = folder / str(at)
        save(Store(place), 1)

        def work(place: Path = place, at: int = at) -> None:
            deadly(at)
            save(Store(place), 1)

        _, status = os.waitpid(forked(work), 0)
        died = os.WIFSIGNALED(status)
        assert whole(Store(place)) == 1
        assert Store(place).at(1).step == 1
        Store(place).clear()
        assert whole(Store(place)) == 1
        assert sorted(path.name for path in place.iterdir()) in (["latest", "step-1"], ["step-1"])
    return {"operations": at - 1}


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
    programs = {"each": each, "again": again, "random": lambda folder: at_random(folder, int(sys.argv[3]))}
    print(json.dumps(programs[sys.argv[1]](place)))
