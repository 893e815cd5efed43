"""Signals that ask a run to stop: the step is finished and saved at the first, and the second ends it at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from regard.train.world import World


class Interrupted(Exception):
    """A signal came in the middle of long work."""


class Signals:
    """SIGTERM and SIGINT, as all processes of a run have heard them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.number = 0  # of the one that came; 0: none

    @contextmanager
    def listen(self) -> Iterator[None]:
        """Take the signals for as long as it takes, where they can be taken: in the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def heard(number: int, _: Any) -> None:
            if self.number:
                os._exit(128 + number)  # a save in progress is still aside, so nothing is spoiled
            self.number = number

        before = {number: signal.signal(number, heard) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def agree(self) -> int:
        """The signal that any process has heard; 0: none. All stop at the same step."""
        return int(self.world.agree(self.number))

    def pulse(self) -> None:
        """Leave long work where a signal came."""
        if self.agree():
            raise Interrupted
