"""The machine: what it holds, and what it needs to be told to run well."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import re
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from regard.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

Device = Literal["auto", "cpu", "cuda", "mps"]
BUSY, QUIET = 0.3, 0.15  # cores that others use: from the first on they are given way, below the second no more
LEAST = 1.5  # cores that must be left for a second thread of our kernels to be worth its while
SECONDS = 1.0  # between two looks at the others
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # from glibc's malloc.h


def device(name: Device) -> torch.device:
    """Where to compute; `auto` takes a GPU if there is one."""
    import torch

    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        name = "cuda" if there["cuda"] else "mps" if there["mps"] else "cpu"
    if not there[name]:
        raise SpecError(f"device: {name} isn't available on this machine", "device=auto")
    return torch.device(name)


def peak_memory() -> int:
    """The most bytes that this process has held at once."""
    try:
        with open("/proc/self/status") as status:
            # not getrusage: a child's figure there begins with its parent's
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def forget_peak() -> bool:
    """Begin to count the most that this process holds anew, from what it holds now; whether that can be had here."""
    try:
        with open("/proc/self/clear_refs", "w") as counts:
            counts.write("5")
    except OSError:
        return False
    return True


def total_memory() -> int:
    """The bytes that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def keep_memory() -> bool:
    """Tell glibc to keep large blocks that are freed, instead of giving them back and paying for each page again.

    Training allocates the same large tensors every step; with the defaults each step takes fresh pages from the
    kernel, which zeroes them. For programs that own their process: the command line, a benchmark, a notebook that asks
    for it. Returns whether it could be done; elsewhere than on glibc nothing happens.

    What Python holds already, most of it torch's own functions and classes, stays until the end. So the garbage
    collector needn't go through it again and again, nor at exit: that was a tenth of the time of one line's answer.
    """
    gc.freeze()
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    largest = 2**31 - 1
    return bool(mallopt(M_MMAP_THRESHOLD, largest)) and bool(mallopt(M_TRIM_THRESHOLD, largest))


class Load:
    """How many of this process's cores other processes keep busy."""

    def __init__(self) -> None:
        self.cores = 0.0
        self._at, self._all, self._own = time.monotonic(), busy_seconds(), time.process_time()

    def look(self) -> float:
        """The mean since the last look that was long enough ago to tell."""
        now = time.monotonic()
        if now - self._at >= SECONDS / 2:  # the kernel counts in hundredths of a second
            busy, own = busy_seconds(), time.process_time()
            others = (busy - self._all) - (own - self._own)
            self.cores = max(0.0, others / (now - self._at))
            self._at, self._all, self._own = now, busy, own
        return self.cores


def busy_seconds() -> float:
    """What all processes have computed so far on the cores that this one may use; 0 where nobody counts it."""
    if not sys.platform.startswith("linux"):
        return 0.0
    usable, total = os.sched_getaffinity(0), 0
    with open("/proc/stat") as file:
        for line in file:
            match = re.match(r"cpu(\d+) (.*)", line)
            if match and int(match[1]) in usable:
                user, nice, system, _, _, *interrupts = map(int, match[2].split()[:8])  # idle and waiting left out
                total += user + nice + system + sum(interrupts)
    return total / os.sysconf("SC_CLK_TCK")


@contextmanager
def give_way() -> Iterator[None]:
    """Share the cores well with other processes, for as long as this takes; the numbers stay the same.

    OpenMP's waiting threads spin. Alone that is fastest; beside a busy process they burn the time that the thread which
    they wait for would need. GNU's OpenMP stops spinning at once where it has more threads than there are cores
    (GOMP_SPINCOUNT in its manual). So while others compute, a second team of threads is kept that does nothing. Where
    they leave about one core, our own kernels take one thread: to wait for a second one costs more than it brings. With
    fewer threads torch's operations add up in another order, and a run that goes on would not be the same to the bit.
    """
    if not sys.platform.startswith("linux"):  # nobody counts there, and OpenMP is another
        yield
        return
    # here, before there is a second thread: two that import torch at once, one of them from within, wait for each other
    import torch  # noqa: F401

    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(ended,), name="give way", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _watch(ended: threading.Event) -> None:
    import torch

    from regard.kernels.library import crowd

    load, spare = Load(), None
    while not ended.wait(SECONDS):
        cores = load.look()
        # what is missing: on many cores, there is room for others beside this process's threads
        cores += torch.get_num_threads() - len(os.sched_getaffinity(0))
        if spare is None and cores >= BUSY:
            spare = Spare()
        elif spare is not None and cores < QUIET:
            spare.dismiss()
            spare = None
        crowd(spare is not None and torch.get_num_threads() - cores < LEAST)
    if spare is not None:
        spare.dismiss()
        crowd(False)


class Spare:
    """A team of OpenMP threads that does nothing: it belongs to a thread, and goes with it."""

    def __init__(self) -> None:
        self._dismissed, ready = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._idle, args=(ready,), name="spare", daemon=True)
        self._thread.start()
        ready.wait()

    def _idle(self, ready: threading.Event) -> None:
        import torch

        try:
            torch.zeros(2**18).add_(1)  # large enough to be shared among threads, so the team is made
        finally:
            ready.set()
        self._dismissed.wait()

    def dismiss(self) -> None:
        self._dismissed.set()
        self._thread.join()


def describe_machine() -> str:
    """What this machine is, for those who compare times: `2 × AMD EPYC 9B14, 7.8 GB, Linux x86_64`."""
    name = platform.processor() or "cores"
    try:
        with open("/proc/cpuinfo") as file:
            name = next(line.partition(":")[2].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        pass  # elsewhere than on Linux, and on some of its architectures
    system = f"{platform.system()} {platform.machine()}"
    return f"{os.cpu_count()} × {name}, {total_memory() / 2**30:.1f} GB, {system}"


def versions() -> dict[str, str]:
    """What a run or a report was made with."""
    import numpy
    import tokenizers
    import torch

    import regard

    return {
        "regard": regard.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "tokenizers": tokenizers.__version__,
    }
