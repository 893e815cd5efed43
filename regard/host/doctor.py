"""A look at the machine: what is installed, how fast it computes, and what to do about what is missing."""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import torch

from regard.host.machine import BUSY, SECONDS, Load, keep_memory, total_memory, versions

EXTRAS = {
    "matplotlib": ("plot", "regard plot and the demo's pictures"),
    "tensorboard": ("board", "curves in TensorBoard"),
    "transformers": ("hub", "comparing imported checkpoints"),
}


@dataclass
class Health:
    """What was found."""

    versions: dict[str, str]
    system: str
    cores: int
    threads: int  # that torch uses
    memory: int  # bytes
    disk_free: int  # bytes, here
    devices: list[str]
    fp32_gflops: float
    bf16_gflops: float
    others: float  # cores that other processes keep busy
    keeps_memory: bool  # whether freed blocks can be kept between steps
    extras: dict[str, bool]
    advice: list[str] = field(default_factory=list)


def examine() -> Health:
    """Measure and look around; takes a few seconds."""
    load = Load()
    time.sleep(SECONDS)
    others = load.look()  # before anything is measured here
    devices = ["cpu"]
    devices += ["cuda"] if torch.cuda.is_available() else []
    devices += ["mps"] if torch.backends.mps.is_available() else []
    health = Health(
        versions(),
        platform.platform(),
        os.cpu_count() or 1,
        torch.get_num_threads(),
        total_memory(),
        shutil.disk_usage(Path.cwd()).free,
        devices,
        gflops(torch.float32, 1024),
        gflops(torch.bfloat16, 256),
        others,
        keep_memory(),
        {name: find_spec(name) is not None for name in EXTRAS},
    )
    health.advice = list(advice(health))
    return health


def gflops(kind: torch.dtype, size: int) -> float:
    """The speed of a square matrix product, the best of a few."""
    a, b = torch.randn(size, size).to(kind), torch.randn(size, size).to(kind)
    return 2 * size**3 / best(lambda: a @ b) / 1e9


def best(work: Callable[[], object], seconds: float = 0.5) -> float:
    """The shortest time of some work, tried for a while."""
    shortest, began = float("inf"), time.perf_counter()
    while time.perf_counter() - began < seconds or shortest == float("inf"):
        before = time.perf_counter()
        work()
        shortest = min(shortest, time.perf_counter() - before)
    return shortest


def advice(health: Health) -> list[str]:
    """What a user could do."""
    found = []
    if health.threads > health.cores:
        found.append(f"torch uses {health.threads} threads on {health.cores} cores: set OMP_NUM_THREADS={health.cores}")
    if health.others >= BUSY:
        found.append(
            f"the machine is busy: others use {health.others:.1f} of {health.cores} cores; times will be longer"
        )
    if health.bf16_gflops < health.fp32_gflops:
        found.append("bf16 is slower than fp32 here: keep train.precision=fp32")
    if not health.keeps_memory:
        found.append("freed memory can't be kept between steps here; training is somewhat slower for it")
    if health.disk_free < 2 * 2**30:
        found.append(f"only {health.disk_free / 2**30:.1f} GB are free on this disk: checkpoints may not fit")
    for name, there in health.extras.items():
        extra, use = EXTRAS[name]
        if not there:
            found.append(f"{name} isn't installed ({use}): pip install 'regard[{extra}]'")
    return found
