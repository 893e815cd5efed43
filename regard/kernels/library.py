"""The library of kernels: built once, kept among the user's own files, loaded by whoever asks first.

The compiler is GCC's: its threads are then those of the OpenMP library that torch has loaded. Nothing here raises: what
can't be built isn't used, and `describe` says why.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
from ctypes import CDLL, c_double, c_float, c_int, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode

SOURCE = Path(__file__).with_name("kernels.cpp")
COMPILER = "g++"
# -fno-trapping-math, -fno-math-errno: or GCC leaves loops with a comparison of floats, or with a root, as they are
FLAGS = (
    *("-O3", "-std=c++17", "-shared", "-fPIC", "-fopenmp"),
    *("-ffp-contract=off", "-fno-trapping-math", "-fno-math-errno", "-w"),
)
SWITCH = "REGARD_KERNELS"  # off: torch's alone; avx2: ours without AVX-512, as on a machine that has none
LONGEST = 120  # seconds for the compiler
REGISTER = {1: 8, 2: 16}  # numbers that an instruction takes at once
LEVELS = {1: "AVX2", 2: "AVX-512 with VNNI"}
# what each function takes, in order
TAKES: dict[str, tuple[type, ...]] = {
    "regard_level": (),
    "regard_crowd": (c_int,),
    "regard_packed_bytes": (c_int64, c_int64),
    "regard_pack": (c_void_p, c_int64, c_int64, c_void_p, c_void_p),
    "regard_multiply": (
        *(c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_void_p, c_void_p, c_int64, c_int, c_void_p, c_int),
    ),
    "regard_rounds_brains": (c_int,),
    "regard_packed_brains": (c_int64, c_int64),
    "regard_pack_brains": (c_void_p, c_int64, c_int64, c_void_p, c_int),
    "regard_multiply_brains": (c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_int64, c_void_p, c_int),
    "regard_pack_halves": (c_void_p, c_int64, c_int64, c_void_p, c_int),
    "regard_multiply_halves": (c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_int64, c_void_p, c_int),
    "regard_multiply_few": (c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_int64, c_void_p, c_int),
    "regard_multiply_many": (*(c_void_p, c_void_p, c_void_p, c_int, c_int64, c_int64, c_int64, c_void_p, c_void_p),),
    "regard_multiply_back": (*(c_void_p,) * 3, *(c_int64,) * 3, *(c_void_p,) * 4, c_int),
    "regard_totals": (c_void_p, c_int64, c_int64, c_int64, c_void_p, c_int),
    "regard_look": (*(c_void_p,) * 8, c_float, c_int),
    "regard_attend": (*(c_void_p,) * 8, c_float, c_int),
    "regard_attend_back": (*(c_void_p,) * 12, c_float, c_int),
    "regard_bend": (c_void_p, c_void_p, c_int64, c_int64, c_void_p, c_int),
    "regard_replace": (c_void_p, c_int64, c_int64, c_void_p, c_int),
    "regard_play": (c_void_p, c_int64, c_void_p, c_void_p, c_int64, *(c_void_p,) * 3, c_int64, c_int),
    "regard_scan": (*(c_void_p,) * 9, c_int),
    "regard_scan_back": (*(c_void_p,) * 14, c_int),
    "regard_convolve": (*(c_void_p,) * 6, c_int),
    "regard_convolve_back": (*(c_void_p,) * 9, c_int),
    "regard_gate": (*(c_void_p,) * 4, *(c_int64,) * 3, c_void_p, c_int),
    "regard_gate_back": (*(c_void_p,) * 4, c_int64, c_void_p, *(c_int64,) * 3, *(c_void_p,) * 4, c_int),
    "regard_norm": (*(c_void_p,) * 3, c_int64, c_int64, c_float, c_int, c_void_p, c_void_p, c_int),
    "regard_norm_back": (*(c_void_p,) * 4, *(c_int64,) * 2, c_int, c_void_p, c_void_p, c_int),
    "regard_norm_maps": (*(c_void_p,) * 4, c_float, c_void_p, c_void_p, c_int),
    "regard_norm_maps_back": (*(c_void_p,) * 8, c_int),
    "regard_score": (*(c_void_p,) * 5, c_int),
    "regard_score_back": (*(c_void_p,) * 8, c_int),
    "regard_gates": (c_void_p, c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_int),
    "regard_gates_back": (*(c_void_p,) * 5, c_int64, c_int64, c_void_p, c_void_p, c_int),
    "regard_hear": (*(c_void_p,) * 9, c_int),
    "regard_hear_back": (*(c_void_p,) * 11, c_int),
    "regard_best": (*(c_void_p,) * 6, c_int),
    "regard_lose": (c_void_p, c_void_p, c_int64, c_int64, c_float, c_float, c_void_p, c_int),
    "regard_move": (c_int64, *(c_void_p,) * 6, *(c_double,) * 5, c_int, c_int),
    "regard_clip": (c_int64, c_void_p, c_void_p, c_double, c_int),
}
GIVES: dict[str, type] = {
    "regard_level": c_int,
    "regard_packed_bytes": c_int64,
    "regard_packed_brains": c_int64,
    "regard_rounds_brains": c_int,
    "regard_play": c_int,
    "regard_clip": c_double,
}


class Library:
    """The loaded kernels, and what they run on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.functions = CDLL(str(path))
        for name, takes in TAKES.items():
            function = getattr(self.functions, name)
            function.argtypes, function.restype = takes, GIVES.get(name)
        self.level: int = self.functions.regard_level()


Missing = Literal["switched off", "not for this machine", "no compiler", "not built"]


@cache
def find_library() -> Library | Missing:
    """The kernels, built if need be; or why there are none."""
    told = os.environ.get(SWITCH, "").lower()
    if told in ("off", "0", "no"):
        return "switched off"
    # torch with another OpenMP than GCC's would have a second pool of threads beside it
    if (
        not sys.platform.startswith("linux")
        or platform.machine() != "x86_64"
        or not torch.backends.openmp.is_available()
    ):
        return "not for this machine"
    try:
        path = build()
        if path is None:
            return "no compiler"
        library = Library(path)
    except (OSError, RuntimeError, subprocess.SubprocessError, AttributeError):  # no home, no room, no right, no luck
        return "not built"
    if told == "avx2":
        library.level = min(library.level, 1)
    return library if library.level else "not for this machine"


@cache
def load() -> Library | None:
    """The kernels, where they can be had."""
    found = find_library()
    return found if isinstance(found, Library) else None


def demand() -> Library:
    """The kernels, for who has asked before and knows that they are there."""
    library = load()
    assert library is not None
    return library


def crowd(alone: bool) -> None:
    """Let one thread do all that our kernels do, or several again; the numbers stay the same."""
    library = load() if load.cache_info().currsize else None  # nothing is built for the sake of this
    if library is not None:
        library.functions.regard_crowd(alone)


def ready() -> Library | None:
    """The kernels, unless gradients are kept, or somebody follows what torch computes, who would miss what we do."""
    return None if torch.is_grad_enabled() else load_unfollowed()


def load_unfollowed() -> Library | None:
    """The kernels, unless somebody follows what torch computes; for who has kernels for the gradients too."""
    if torch.compiler.is_compiling() or _get_current_dispatch_mode() is not None:
        return None
    return None if torch._C._functorch.maybe_current_level() is not None else load()


def serves(*tensors: Tensor) -> bool:
    """Whether the kernels, those for gradients too, can be had and read these: numbers in single precision."""
    if any(tensor.dtype != torch.float32 or tensor.device.type != "cpu" or not tensor.numel() for tensor in tensors):
        return False
    return load_unfollowed() is not None


def describe() -> str:
    """What became of the kernels, for people."""
    found = find_library()
    return LEVELS[found.level] if isinstance(found, Library) else found


def build() -> Path | None:
    """The library's file: the one that was built before from the same source, or a new one; None without a compiler."""
    compiler = shutil.which(COMPILER)
    name = hashlib.sha256(SOURCE.read_bytes() + repr(FLAGS).encode()).hexdigest()[:16]
    folder = find_folder()
    path = folder / f"kernels-{name}.so"
    if is_ours(path):
        return path
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory(dir=folder) as place:  # beside it, so that it can be renamed
        made = Path(place) / path.name
        subprocess.run(
            [compiler, *FLAGS, "-o", str(made), str(SOURCE)], check=True, capture_output=True, timeout=LONGEST
        )
        os.replace(made, path)
    return path


def find_folder() -> Path:
    """Where this user's libraries are kept: nobody else may write there, since what stands there is run."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "regard" / "kernels"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not is_ours(folder):
        raise PermissionError(f"{folder} belongs to somebody else, or others may write there")
    return folder


def is_ours(path: Path) -> bool:
    """Whether a file or folder is there, belongs to this user, and can be written by no other."""
    try:
        found = path.stat()
    except OSError:
        return False
    return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
