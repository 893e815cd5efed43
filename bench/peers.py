"""The environment of the others: `python -m bench.peers` makes `.venv-bench` and says what each installation gave.

Each system is installed by itself, from the package index that pip is set up for, and the next one is tried whatever
became of it. What failed, and why, is kept in `.venv-bench/peers.json`; tables call it missing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import venv
from collections.abc import Mapping
from dataclasses import dataclass, field

from bench.harness import PEERS, say

# with pip, this version finds a CPU build where one is on hand; a range would take gigabytes of CUDA packages with it
TORCH = "torch==2.13.0"
# later versions of sentencepiece have lost what JoeyNMT calls, and others would bring them
LIMITS = (TORCH, "sentencepiece==0.2.0")
KEPT = PEERS / "peers.json"
LONGEST = 3600  # seconds for one system; one of them is compiled here


@dataclass(frozen=True)
class Peer:
    """A system that people use, and how it is installed."""

    packages: tuple[str, ...]
    module: str  # what must be importable then
    told: Mapping[str, str] = field(default_factory=dict)  # to whatever compiles it


SYSTEMS = {
    "transformers": Peer(("transformers==5.22.2",), "transformers"),
    "CTranslate2": Peer(("ctranslate2==4.8.4",), "ctranslate2"),
    "ONNX Runtime": Peer(("onnxruntime==1.31.1",), "onnxruntime"),
    # the last package it imports and doesn't ask for
    "JoeyNMT": Peer(("joeynmt==2.3.0", "sentencepiece", "importlib_metadata"), "joeynmt.training"),
    # its command imports aiohttp, and doesn't ask for it
    "Eole": Peer(("eole==0.6.4", "aiohttp"), "eole.bin.main"),
    "llama.cpp": Peer(("llama-cpp-python==0.3.36", "gguf"), "llama_cpp", {"CMAKE_ARGS": "-DGGML_NATIVE=ON"}),
}


def install(packages: tuple[str, ...], told: Mapping[str, str]) -> str | None:
    """Install some packages beside the torch that is there; why not, where it fails."""
    pip = [str(PEERS / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    limits = PEERS / "constraints.txt"
    limits.write_text("\n".join(LIMITS) + "\n")
    command = [*pip, "--constraint", str(limits), *packages]
    try:
        done = subprocess.run(
            command, env={**os.environ, **told}, capture_output=True, text=True, timeout=LONGEST, check=False
        )
    except subprocess.TimeoutExpired:
        return f"not installed after {LONGEST} s"
    return find_reason(done.stderr) if done.returncode else None


def find_reason(errors: str) -> str:
    """The line that says what went wrong, of all that pip prints."""
    lines = [line.strip() for line in errors.split("\n") if line.strip()]
    marked = [line for line in lines if line.lower().startswith(("error:", "× ", "modulenotfounderror", "importerror"))]
    return (marked or lines or ["nothing was said"])[-1][:200]


def try_import(module: str) -> str | None:
    """Why a module can't be imported there; None where it can."""
    command = [str(PEERS / "bin" / "python"), "-c", f"import {module}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return find_reason(done.stderr) if done.returncode else None


def make_environment() -> dict[str, str | None]:
    """Make the environment, or add to it what failed before; for each system why it is missing, None where it isn't."""
    if not (PEERS / "bin" / "python").exists():
        say(f"an environment in {PEERS.name}")
        venv.create(PEERS, with_pip=True)
    reason = install((TORCH, "numpy"), {})
    if reason is not None:
        raise SystemExit(f"{TORCH} can't be installed, and the others stand on it: {reason}")
    found: dict[str, str | None] = {}
    for name, peer in SYSTEMS.items():
        began = time.monotonic()
        if try_import(peer.module) is not None:
            found[name] = install(peer.packages, peer.told)
        found[name] = found.get(name) or try_import(peer.module)
        say(f"{name}: {found[name] or 'there'} ({time.monotonic() - began:.0f} s)")
        KEPT.write_text(json.dumps(found, indent=1) + "\n")
    for name, peer in SYSTEMS.items():  # what came later may have broken what came before
        if found[name] is None and (reason := try_import(peer.module)) is not None:
            found[name] = f"a later installation broke it: {reason}"
            say(f"{name}: {found[name]}")
    KEPT.write_text(json.dumps(found, indent=1) + "\n")
    return found


def main() -> None:
    missing = {name: reason for name, reason in make_environment().items() if reason is not None}
    for name, reason in missing.items():
        print(f"{name} is missing: {reason}")
    print(f"{len(SYSTEMS) - len(missing)} of {len(SYSTEMS)} systems are there")
    sys.exit(0)  # tables say by themselves what is missing


if __name__ == "__main__":
    main()
