"""The lock of a run: one process trains in a folder at a time, and whoever looks can tell whether one does.

It is the kernel's, so it goes with the process that held it, however that ended.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.errors import Busy

LOCK = "lock"
TRIES, PAUSE = 5, 0.05  # who only looks holds the lock for some microseconds, which must not stop a trainer


@contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Keep other trainers out, for as long as this process lives."""
    with (folder / LOCK).open("a+") as file:
        for left in reversed(range(TRIES)):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if left:
                    time.sleep(PAUSE)
                    continue
                file.seek(0)
                owner = file.read().strip() or "another process"
                raise Busy(f"{folder}: {owner} is training in it", "wait for it, or out=ANOTHER") from None
        file.truncate(0)
        file.write(f"process {os.getpid()}")
        file.flush()
        yield


def is_held(folder: Path) -> bool:
    """Whether somebody trains in a folder now."""
    try:
        with (folder / LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # there is no lock, or it may not be looked at
        return False
    return False
