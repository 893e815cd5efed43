"""Making a corpus ready: ours, and the `tokenizers` library alone."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from bench.harness import ROOT, serve

RECIPE = ROOT / "recipes" / "multi30k-en-fr-30min.yaml"
LINES = 10_000  # that are cut at a time


def begin(settings: Mapping[str, Any]) -> None:
    """What `regard train` does before its first step."""
    from regard.config import read
    from regard.runs.folder import Run

    with tempfile.TemporaryDirectory() as folder:
        words = [f"data={settings['corpus']}", f"out={folder}/run", f"tokenizer.like={settings['like']}"]
        # all lines are for training: who keeps some back for validation reads them all once more, and cuts fewer
        none = ["corpus.validation=null", "corpus.split.validation=0", "corpus.test=null"]
        Run.begin(read(RECIPE).change([*words, *none]))


def prepare(settings: Mapping[str, Any]) -> Callable[[], float]:
    """Seconds to a run that could train."""
    import regard.runs.folder  # noqa: F401  loading the code isn't measured

    def measure() -> float:
        began = time.perf_counter()
        begin(settings)
        return time.perf_counter() - began

    return measure


def cut(settings: Mapping[str, Any]) -> Callable[[], float]:
    """Seconds that the library needs for the same lines."""
    from tokenizers import Tokenizer

    from regard.runs.folder import Run

    lexicon = Run.open(Path(settings["like"])).prepared().lexicon
    engine = Tokenizer.from_str(lexicon.tokenizers[0].engine.to_str())

    def measure() -> float:
        began = time.perf_counter()
        for ending in ("en", "fr"):
            with (Path(settings["corpus"]) / f"train.{ending}").open(encoding="utf-8") as file:
                while lines := list(islice(file, LINES)):
                    engine.encode_batch_fast(lines)
        return time.perf_counter() - began

    return measure


def remember(settings: Mapping[str, Any]) -> Callable[[], float]:
    """Megabytes that the process holds at most."""
    from regard.host.machine import peak_memory

    def measure() -> float:
        begin(settings)
        return peak_memory() / 2**20

    return measure


if __name__ == "__main__":
    serve({"prepare": prepare, "cut": cut, "remember": remember}, "tokenizers", "torch")
