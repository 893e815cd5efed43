"""Decoding, ours and theirs by turns: `python -m bench.decoding [--quick]`.

Transformer-tiny and -base, greedy and with a beam of 5, in batches of 64 and one sentence at a time. All sides have the
same random weights, which ours sends out by `regard export`, and take the same number of steps, so the weights' sense
doesn't matter.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from bench.harness import Side, finish, make_parser, measure_table, read_words, say
from bench.material import TORCH_ALONE, make_run, send_out
from bench.page import Bar, Table

OURS = ("fp32", "int8", "auto")
PEERS = ("CTranslate2 fp32", "CTranslate2 int8", "transformers fp32")
STEPS = 20
SECONDS = 2.0  # of each turn, at least: a tiny model is done too soon to be measured
VOCABULARY = 8000
TINY: dict[str, Any] = {"vocabulary": VOCABULARY}  # norms first: transformers calls such a model Pegasus
BASE: dict[str, Any] = {"vocabulary": VOCABULARY, "activation": "relu"}  # 6 + 6 layers, width 512: Marian
MODELS = {"tiny": ("transformer-tiny", TINY), "base": ("marian-base", BASE)}
WITHOUT = "ours int8 without our kernels"
MINE = tuple(f"ours {name}" for name in OURS)
SIDES = (*MINE, WITHOUT, *PEERS)
BETTER = Bar("ours ÷ the better CTranslate2", MINE, PEERS[:2], least=1.2)
KERNELS = Bar("our kernels ÷ torch's, int8", ("ours int8",), (WITHOUT,))
NOTE = (
    "The best of ours (fp32, int8, and what `auto` chose) stands against the best of CTranslate2's two; fp32 is also\n"
    "compared with fp32. All take the same number of steps for the same sentences, which come sorted by length."
)
TOGETHER = Table(
    "Decoding in batches of 64",
    f"target tokens a second, {STEPS} steps a sentence, random weights, vocabulary of {VOCABULARY:,}",
    SIDES,
    (
        BETTER,
        Bar("ours fp32 ÷ CTranslate2 fp32", ("ours fp32",), ("CTranslate2 fp32",), least=1.0),
        Bar("ours ÷ transformers", MINE, ("transformers fp32",), least=2.5),
        KERNELS,
    ),
    command="python -m bench.decoding",
    note=NOTE,
)
ALONE = Table(
    "Decoding one sentence at a time",
    TOGETHER.unit,
    SIDES,
    (
        Bar(BETTER.title, BETTER.ours, BETTER.theirs, least=1.0),
        Bar("ours ÷ transformers", MINE, ("transformers fp32",)),
        KERNELS,
    ),
    command="python -m bench.decoding",
    note=NOTE,
)


def list_sides(run: Path, places: dict[str, str], work: dict[str, Any]) -> list[Side]:
    """All systems at one piece of work."""
    ours = [
        Side(f"ours {name}", "ours", "translate", {**work, "run": str(run), "precision": name}, "ours") for name in OURS
    ]
    int8 = {**work, "run": str(run), "precision": "int8"}
    ours.append(Side(WITHOUT, "ours", "translate", int8, "ours", TORCH_ALONE))
    theirs = [
        Side(
            f"CTranslate2 {name}",
            "ctranslate",
            "translate",
            {**work, "folder": places["ctranslate2"], "precision": kind},
        )
        for name, kind in (("fp32", "float32"), ("int8", "int8_float32"))
    ]
    hugging = Side("transformers fp32", "hugging", "translate", {**work, "folder": places["hf"]})
    return [*ours, *theirs, hugging]


def main() -> None:
    words = read_words(make_parser(__doc__))
    held = True
    with tempfile.TemporaryDirectory() as folder:
        for size, (preset, changes) in MODELS.items():
            if words.quick and size == "base":
                changes |= {"width": 64, "depth": 2, "hidden": 128}
            say(f"{size}: random weights, for everybody")
            run = make_run(Path(folder) / size, "translation", preset, **changes)
            places = send_out(run, "ctranslate2", "hf")
            for table, batch, count in ((TOGETHER, 64, 256), (ALONE, 1, 24)):
                cases = {}
                for beam in (1, 5):
                    rows = min(count, batch * 2) if words.quick else count
                    work: dict[str, Any] = {"shortest": 8, "longest": 24, "rows": rows, "vocabulary": VOCABULARY}
                    work |= {"batch": batch, "beam": beam, "steps": 6 if words.quick else STEPS}
                    work["seconds"] = 0.0 if words.quick else SECONDS
                    name = f"{size}, {'greedy' if beam == 1 else f'beam {beam}'}"
                    cases[name] = list_sides(run, places, work)
                held &= measure_table(table, cases, words)
    finish(held, words)


if __name__ == "__main__":
    main()
