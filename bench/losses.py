"""What is learned from equal numbers of tokens: `python -m bench.losses CORPUS [--quick]`.

The models of `bench/training.py` on the same corpus, all with the same rate, warm-up, schedule, smoothing, dropout,
size of batches and seed; at several numbers of target tokens each tells its validation loss. Speed that was bought with
less learning would show here, and so would bf16 that loses too much. A second seed of ours says how much is chance.
"""

from __future__ import annotations

import re
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

from bench.harness import (
    Side,
    describe_instructions,
    find_corpus,
    finish,
    make_parser,
    make_ready,
    read_words,
    report,
    say,
    take_turns,
    tell_versions,
    watch_others,
)
from bench.page import Bar, Table
from bench.training import EOLE, FILES, HALF, JOEY, MODELS, OURS, PLAIN, TOKENS, begin_run, shrink, write_tokens
from regard.runs.folder import Run

CHANCE = "ours, another seed"
SEEDS = {OURS: 1, HALF: 1, CHANCE: 2}
UNIT = "validation loss in nats a target token, without smoothing"
COMMAND = "python -m bench.losses CORPUS"
NOTE = (
    "All sides have AdamW (0.9, 0.98) with a decay of 0.01, the same peak, the same warm-up and 1/√step behind it,\n"
    "label smoothing of 0.1, the same dropout, batches of about 2,000 target tokens and gradients clipped at 1. The\n"
    "plain loop begins with our weights and has our very batches; JoeyNMT and Eole draw weights and make batches as\n"
    "they do, and their trainers are asked for the loss without smoothing between two of their own steps. There is\n"
    "one run of each, so a difference such as that between two seeds of ours is chance."
)
HALVES = (
    "One run of each, with the same seed, weights, batches and settings. bf16 is what products are computed in while\n"
    "learning; the weights and all that is measured are fp32."
)
HOW: dict[str, dict[str, Any]] = {
    "Transformer-tiny": {"rate": 0.002, "warmup": 30},
    "Transformer-base": {"rate": 0.0005, "warmup": 20},
}
ALIKE = {"betas": [0.9, 0.98], "decay": 0.01, "seed": 1}
MOST = {"Transformer-tiny": 160_000, "Transformer-base": 100_000}  # target tokens; the last half is looked at too


def make_table(case: str) -> Table | None:
    """What is compared for a model; None where there is nothing to compare on this machine."""
    if case == "Transformer-tiny":
        bars: tuple[Bar, ...] = (
            Bar("ours ÷ a plain loop", (OURS,), (PLAIN,), most=1.02, digits=3),
            Bar("ours ÷ ours, another seed", (OURS,), (CHANCE,), digits=3),
            Bar("ours ÷ JoeyNMT", (OURS,), (JOEY,), digits=3),
            Bar("ours ÷ Eole", (OURS,), (EOLE,), digits=3),
        )
        sides: tuple[str, ...] = (OURS, CHANCE, PLAIN, JOEY, EOLE)
        note = NOTE
    elif "bf16" in describe_instructions():  # where it is emulated, one step of it would take minutes
        bars, sides, note = (Bar("bf16 ÷ fp32", (HALF,), (OURS,), most=1.01, digits=3),), (OURS, HALF), HALVES
    else:
        return None
    return Table(f"Loss of {case} after equal tokens", UNIT, sides, bars, "less", COMMAND, note, places=4)


def list_words(how: dict[str, Any], most: int) -> list[str]:
    """What a run of ours is told to learn from so many tokens."""
    schedule = ["train.schedule.kind=inverse-root", f"train.schedule.warmup={how['warmup']}"]
    return ["train.minutes=null", f"train.tokens={most}", f"train.optimizer.rate={how['rate']}", *schedule]


def begin(corpus: Path, folder: Path, preset: str, dropout: float, side: str, words: list[str]) -> Run:
    place, precision = folder / re.sub(r"\W+", "-", side), "bf16" if side == HALF else "fp32"
    return begin_run(corpus, place, preset, dropout, 1, precision, *words, f"seed={SEEDS[side]}")


def measure_losses(case: str, table: Table, corpus: Path, folder: Path, words: Namespace) -> bool:
    preset, shape = MODELS[case]
    shape, more = shrink(case, shape, words.quick)
    most = 6000 if words.quick else words.tokens or MOST[case]
    # ours cuts a warm-up that would take more than half of a run, and the others don't
    how = {**HOW[case], "warmup": max(1, min(HOW[case]["warmup"], most // TOKENS // 3))}
    points = [most // 2, most]
    runs = {
        side: begin(corpus, folder, preset, shape["dropout"], side, [*more, *list_words(how, most)])
        for side in table.sides
        if side in SEEDS
    }
    vocabulary = write_tokens(runs[OURS], corpus, folder / "files")
    work = {**shape, **how, **ALIKE, "points": points, "folder": str(folder / "files"), "vocabulary": vocabulary}
    work |= {"validation": [str(corpus / "val.en"), str(corpus / "val.fr")], "tokens": TOKENS}
    work |= {"updates": 10**6, "every": 100}

    def ask(name: str) -> Side:
        if name in runs:
            return Side(name, "learner", "learn", {**work, "run": str(runs[name].folder)}, "ours")
        if name == PLAIN:
            return Side(name, "plain", "learn", {**work, "run": str(runs[OURS].folder)}, "ours")
        return Side(name, {JOEY: "joey", EOLE: "opennmt"}[name], "learn", work)

    held, once = True, Namespace(**{**vars(words), "rounds": 1})
    with watch_others() as others, make_ready([ask(name) for name in table.sides], words.threads) as (workers, missing):
        told = {point: take_turns({n: w.measure for n, w in workers.items()}, 1, "less") for point in points}
        versions = tell_versions(workers.values())
    for point, found in told.items():
        held &= report(table, f"{point:,} target tokens", {**found, **missing}, once, versions, others[0])
    return held


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("corpus", type=Path, help=f"the folder with {', '.join(FILES)}")
    parser.add_argument("--tokens", type=int, help="that all learn from (160,000; 100,000 for the base model)")
    words = read_words(parser)
    corpus, held = find_corpus(words.corpus, *FILES).resolve(), True
    for case in HOW:
        table = make_table(case)
        if table is None or not re.search(words.only, case):
            continue
        say(f"{table.title}: reads the corpus")
        with tempfile.TemporaryDirectory() as folder:
            held &= measure_losses(case, table, corpus, Path(folder), words)
    finish(held, words)


if __name__ == "__main__":
    main()
