"""Loading a run of 124 million weights for use, against reading its weights file: time, and what is read.

Each measure is taken in a process of its own that has imported all it needs, so that both sides fill memory that the
process didn't have before; they take turns, the files are in the system's cache, and the best of several counts.
Reading is `Path.read_bytes` of model.safetensors: every byte, once, into memory. (Mapping the file isn't reading it.)
Loading is `load_bundle`: choosing the checkpoint, reading and comparing what the model needs, and a model that is
ready. The run has an optimizer's state beside its weights, twice as large, as training leaves it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from regard.data.lexicon import Lexicon
from regard.data.tokenizer import TokenizerSpec
from regard.models import preset
from regard.runs.load import load_bundle
from regard.train.checkpoint import Store

MOST = 1.3
PRESET = "gpt2"


def make(folder: Path) -> None:
    """A run as training leaves it, as far as loading looks at it."""
    words = [f"w{number}" for number in range(50_000)]
    tokenizer = TokenizerSpec(pieces="given", vocabulary=len(words)).train([" ".join(words)])
    spec = preset(PRESET, vocabulary=len(tokenizer))
    weights = spec.build().state_dict()
    moments = {
        f"{name}/{kind}": torch.zeros_like(w) for name, w in weights.items() for kind in ("exp_avg", "exp_avg_sq")
    }
    data = {"spec": spec.model_dump(), "state": {"task": {"kind": "language"}, "moment": {"ranking": [[1.0, 1]]}}}
    files = Lexicon((tokenizer, tokenizer), [], []).files()
    Store(folder / "checkpoints").save(1, {"model": weights, "optimizer": moments}, data, files)
    (folder / "run.yaml").write_text("model: gpt2\n")


def weights_of(folder: Path) -> Path:
    return folder / "checkpoints" / "step-1" / "model.safetensors"


def measure(what: str, folder: Path) -> float:
    """Seconds that one side takes, here and now."""
    began = time.perf_counter()
    if what == "read":
        held: object = weights_of(folder).read_bytes()
    else:
        held = load_bundle(str(folder), "cpu")
    took = time.perf_counter() - began
    del held
    return took


def alone(what: str, folder: Path) -> float:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "--measure", what, str(folder)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def compare(folder: Path, rounds: int) -> dict[str, float]:
    times: dict[str, list[float]] = {"read": [], "load": []}
    for _ in range(rounds):
        for what, found in times.items():
            found.append(alone(what, folder))
    read, load = min(times["read"]), min(times["load"])
    return {"megabytes": weights_of(folder).stat().st_size / 1e6, "read": read, "load": load, "ratio": load / read}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure", nargs=2, metavar=("SIDE", "RUN"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        print(measure(asked.measure[0], Path(asked.measure[1])))
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        make(folder)
        found = compare(folder, asked.rounds)
    if asked.json:
        print(json.dumps(found))
    else:
        print(f"{PRESET}: weights of {found['megabytes']:.0f} MB, the best of {asked.rounds}")
        print(f"reading them {found['read']:.3f} s, loading the run {found['load']:.3f} s")
        print(f"loading / reading {found['ratio']:.2f}, at most {MOST} wanted")
    sys.exit(found["ratio"] > MOST)


if __name__ == "__main__":
    main()
