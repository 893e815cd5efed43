"""The machine: how busy others keep it, and how they are given way."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch

from regard.host.machine import BUSY, Load, Spare, give_way

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="nobody counts there")


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """Other processes that compute."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def until(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not ready():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.1)


def spares() -> int:
    return sum(thread.name == "spare" for thread in threading.enumerate())


def test_a_busy_neighbour_is_noticed_and_given_way() -> None:
    with give_way(), neighbours(2):
        load = Load()
        until(lambda: load.look() >= BUSY)
        until(lambda: spares() == 1)
    assert not spares()  # it goes with whoever asked for it


def test_what_this_process_computes_is_not_held_against_others(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = {"monotonic": 10.0, "process_time": 3.0, "busy": 100.0}
    monkeypatch.setattr(time, "monotonic", lambda: clocks["monotonic"])
    monkeypatch.setattr(time, "process_time", lambda: clocks["process_time"])
    monkeypatch.setattr("regard.host.machine.busy_seconds", lambda: clocks["busy"])
    load = Load()
    clocks.update(monotonic=12.0, process_time=6.0, busy=104.0)  # in 2 s: 4 in all, 3 of them ours
    assert load.look() == pytest.approx(0.5)
    clocks.update(monotonic=12.1, busy=200.0)
    assert load.look() == pytest.approx(0.5)  # too soon to tell


def test_a_spare_team_changes_no_number() -> None:
    def worked() -> torch.Tensor:
        torch.manual_seed(1)
        x = torch.randn(300, 300)
        for _ in range(20):
            x = torch.tanh(x @ x.T / 300 + x.sum())
        return x

    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        alone = worked()
        spare = Spare()
        beside = worked()
        spare.dismiss()
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(alone, beside)


def test_elsewhere_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    before = threading.active_count()
    with give_way():
        assert threading.active_count() == before
        assert Load().look() == 0.0


def test_torch_may_be_imported_from_within_while_way_is_given() -> None:
    """Two threads that import it at once, one of them by a module inside, would wait for each other."""
    code = "from regard.host.machine import give_way\nwith give_way():\n    import torch.nn.functional"
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
