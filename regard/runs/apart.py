"""Training a run in a process of its own, so that the peak memory in its journal is its own and nobody else's.

The process is `regard resume RUN`: a run that was begun and never trained goes on from its start. How far it is stands
in its journal, and why it failed in what it says last.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote, split
from typing import IO, Any

import torch

from regard.core.plugins import spell_program
from regard.errors import Divergence, RegardError, Stopped
from regard.train.listener import read_entry

WAIT = 0.5  # seconds between two looks at a journal
TAIL = 2**16  # bytes of a journal or of what was said that are looked at
PACKAGE = Path(__file__).parent.parent.parent  # the folder that `regard` is imported from


def train_apart(folder: Path, reach: Callable[[int], None] = lambda _: None) -> None:
    """Bring a run that was begun to its end in another process; `reach` hears how many hundredths are done."""
    _, *uses = split(spell_program())
    command = [sys.executable, "-m", "regard", *uses, "resume", str(folder), "--json"]
    places = [str(PACKAGE), *filter(None, [os.environ.get("PYTHONPATH")])]
    # as many threads as here: sums of more would be others in the last digit
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(places), "OMP_NUM_THREADS": str(torch.get_num_threads())}
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
        )
        with _pass_signals_on(child) as heard:
            while child.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    child.wait(WAIT)
                reach(read_progress(folder / "metrics.jsonl"))
        if heard:
            again = "the same command again goes on from there"
            raise Stopped(f"{signal.Signals(heard[0]).name}: {folder} is saved", again, heard[0])
        if child.returncode:
            raise _explain(folder, child.returncode, said)
        reach(100)  # patience ends a run before its budget does


@contextmanager
def _pass_signals_on(child: subprocess.Popen[bytes]) -> Iterator[list[int]]:
    """Let a process hear the signals that come to this one, each once; those that came."""
    heard: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield heard
        return

    def hear(number: int, _: Any) -> None:
        heard.append(number)
        child.send_signal(number)

    before = {number: signal.signal(number, hear) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield heard
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def read_progress(journal: Path) -> int:
    """The hundredths of its budget that a run has used, by the last steps in its journal."""
    try:
        with journal.open("rb") as file:
            file.seek(max(0, journal.stat().st_size - TAIL))
            entries = [read_entry(line) for line in file.read().split(b"\n")]
    except OSError:
        return 0
    shares = [entry["progress"] for entry in entries if entry is not None and "progress" in entry]
    return min(100, int(100 * shares[-1])) if shares else 0


def _explain(folder: Path, status: int, said: IO[bytes]) -> RegardError:
    """What a process that failed had to say, as an error of its kind."""
    said.seek(0, os.SEEK_END)
    said.seek(max(0, said.tell() - TAIL))
    text = said.read().decode(errors="replace")
    _, sign, last = text.rpartition("regard: ")
    message, _, hint = last.strip().partition("\n  try: ")
    if not sign or status < 0:
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"failed with status {status}"
        lines = text.strip().splitlines()
        message = f"{folder}: the process that trained it {how}{f': {lines[-1]}' if lines else ''}"
        hint = f"regard resume {quote(str(folder))} shows more"
    error = Divergence(message, hint) if status == Divergence.status else RegardError(message, hint)
    error.status = status if status > 0 else 128 - status
    return error
