"""The machine: what it holds, and what it needs to be told to run well."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import TYPE_CHECKING, Literal

from regard.errors import SpecError

if TYPE_CHECKING:
    import torch

Device = Literal["auto", "cpu", "cuda", "mps"]
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


def total_memory() -> int:
    """The bytes that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def keep_memory() -> bool:
    """Tell glibc to keep large blocks that are freed, instead of giving them back and paying for each page again.

    Training allocates the same large tensors every step; with the defaults each step takes fresh pages from the
    kernel, which zeroes them. For programs that own their process: the command line, a benchmark, a notebook that asks
    for it. Returns whether it could be done; elsewhere than on glibc nothing happens.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    largest = 2**31 - 1
    return bool(mallopt(M_MMAP_THRESHOLD, largest)) and bool(mallopt(M_TRIM_THRESHOLD, largest))
