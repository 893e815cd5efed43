"""Training translators, ours and theirs by turns: `python -m bench.training CORPUS [--quick]`.

Transformer-tiny, Transformer-base and attentive LSTMs on Multi30k, English to French, about 2,000 target tokens a
batch, one vocabulary of 8,000 pieces. The plain loop has the very batches that ours has; JoeyNMT and Eole get the same
sentences, cut into the same tokens, and batch them as they do. What each has learned after equal numbers of tokens is
`bench/losses.py`'s question.
"""

from __future__ import annotations

import re
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

from bench.harness import Side, describe_instructions, find_corpus, finish, make_parser, measure_table, read_words, say
from bench.material import TORCH_ALONE
from bench.page import Bar, Table
from regard.config import read
from regard.runs.folder import Run

RECIPE = Path(__file__).parents[1] / "recipes" / "multi30k-en-fr-30min.yaml"
FILES = ("train.en", "train.fr", "val.en", "val.fr")
TOKENS = 2048
OURS, PLAIN, JOEY, EOLE = "ours", "a plain PyTorch loop", "JoeyNMT", "Eole"
HALF, WITHOUT = "ours bf16", "ours without our kernels"
KEEPING = "a plain loop that keeps memory"  # as ours does, by the one call to glibc that makes most of the difference
TINY = {"kind": "transformer", "width": 128, "depth": 4, "heads": 4, "hidden": 256, "dropout": 0.15}
BASE = {"kind": "transformer", "width": 512, "depth": 6, "heads": 8, "hidden": 2048, "dropout": 0.1}
LSTM = {"kind": "recurrent", "width": 512, "dropout": 0.2}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "Transformer-tiny": ("transformer-tiny", TINY),
    "Transformer-base": ("transformer-base", BASE),
    "attentive LSTM": ("luong", {**LSTM, "feed": False}),
    "attentive LSTM with feeding": ("luong-feed", {**LSTM, "feed": True}),
}
SMALL = {"width": 64, "depth": 1, "heads": 4, "hidden": 64}  # of a smoke run, where a base model would take minutes
SMOKE = ["train.minutes=null", "train.steps=12"]  # a busy machine comes to an end of these too
UNIT = "target tokens a second"
NOTE = (
    "The plain loop has the very batches of ours, fused attention, `F.cross_entropy` and `AdamW` as torch has them;\n"
    "its tiny model is the same function as ours, its base model has its norms first, and ours behind. JoeyNMT and\n"
    "Eole are told the same sizes, and their figures are those of their own logs."
)
COMMAND = "python -m bench.training CORPUS"


def make_table(case: str) -> Table:
    """Each model has promises of its own."""
    if case == "Transformer-tiny":
        bars: tuple[Bar, ...] = (
            Bar("ours ÷ JoeyNMT", (OURS,), (JOEY,), least=6.0),
            Bar("ours ÷ Eole", (OURS,), (EOLE,), least=2.0),
            Bar("ours ÷ a plain loop", (OURS,), (PLAIN,), least=2.0),
            Bar("ours ÷ a plain loop that keeps memory", (OURS,), (KEEPING,)),
            Bar("our kernels ÷ torch's", (OURS,), (WITHOUT,)),
        )
        sides = (OURS, WITHOUT, PLAIN, KEEPING, JOEY, EOLE)
        return Table("Training Transformer-tiny", UNIT, sides, bars, command=COMMAND, note=NOTE)
    if case == "Transformer-base":
        bars = (
            Bar("ours ÷ Eole", (OURS, HALF), (EOLE,), least=2.0),
            Bar("ours ÷ a plain loop", (OURS, HALF), (PLAIN,)),
        )
        # where bf16 is emulated, one step of it would take minutes
        halves = (HALF,) if "bf16" in describe_instructions() else ()
        return Table("Training Transformer-base", UNIT, (OURS, *halves, PLAIN, EOLE), bars, command=COMMAND, note=NOTE)
    bars = (Bar("ours ÷ JoeyNMT", (OURS,), (JOEY,), least=2.0),)
    return Table("Training attentive LSTMs", UNIT, (OURS, JOEY), bars, command=COMMAND)


def begin_run(
    corpus: Path, folder: Path, preset: str, dropout: float, seconds: float, precision: str, *more: str
) -> Run:
    """A run that stops by the clock and keeps nothing; `more`: further settings, which outdo these."""
    words = [f"data={corpus.resolve()}", f"out={folder}", f"train.minutes={seconds / 60}", "train.evaluate=0"]
    words += [
        "train.save=1000000",
        "train.ema=0",
        # nothing to evaluate: time for that would be taken off the steps, and an end would search for minutes
        "corpus.validation=null",
        "corpus.split.validation=0",
        "corpus.test=null",
        f"batches.tokens={TOKENS}",
    ]
    words += [f"model={preset}", f"model.dropout={dropout}", f"train.precision={precision}"]
    return Run.begin(read(RECIPE).change([*words, *more]))


def shrink(case: str, shape: dict[str, Any], quick: bool) -> tuple[dict[str, Any], list[str]]:
    """A model's sizes, and what ours must be told where they aren't its preset's."""
    if not quick or case != "Transformer-base":
        return shape, []
    return {**shape, **SMALL}, [f"model.{name}={value}" for name, value in SMALL.items()]


def write_tokens(run: Run, corpus: Path, folder: Path) -> int:
    """The corpus for those who read files: tokens as words, and their vocabulary; how many there are."""
    folder.mkdir()
    tokenizers = run.prepared().lexicon.tokenizers
    for split, stem in (("train", "train"), ("valid", "val")):
        for side, ending, tokenizer in zip(("source", "target"), ("en", "fr"), tokenizers, strict=True):
            lines = (corpus / f"{stem}.{ending}").read_text(encoding="utf-8").splitlines()
            rows = (" ".join(f"t{token}" for token in row) or "t4" for row in tokenizer.encode(lines))
            (folder / f"{split}.{side}").write_text("\n".join(rows) + "\n", encoding="utf-8")
    words = [f"t{number}" for number in range(4, len(tokenizers[1]))]
    (folder / "vocabulary.txt").write_text("\n".join(words) + "\n")
    (folder / "counts.txt").write_text("\n".join(f"{word}\t{len(words) - n}" for n, word in enumerate(words)) + "\n")
    return len(tokenizers[1])


def list_sides(table: Table, runs: dict[str, Run], shape: dict[str, Any], work: dict[str, Any]) -> list[Side]:
    def ask(name: str) -> Side:
        if name in runs:
            return Side(name, "learner", "train", {**work, "run": str(runs[name].folder)}, "ours")
        if name == WITHOUT:
            return Side(name, "learner", "train", {**work, "run": str(runs[OURS].folder)}, "ours", TORCH_ALONE)
        if name in (PLAIN, KEEPING):
            told = {**work, **shape, "run": str(runs[OURS].folder), "keeps": name == KEEPING}
            return Side(name, "plain", "train", told, "ours")
        return Side(name, {JOEY: "joey", EOLE: "opennmt"}[name], "train", {**work, **shape})

    return [ask(name) for name in table.sides]


def measure_models(corpus: Path, folder: Path, words: Namespace) -> bool:
    held = True
    for case, (preset, sizes) in MODELS.items():
        if not re.search(words.only, case):
            continue
        # a step of the base model takes seconds, and five of them don't count
        seconds = 3.0 if words.quick else words.seconds * (4 if case == "Transformer-base" else 1)
        table = make_table(case)
        shape, more = shrink(case, sizes, words.quick)
        more += SMOKE if words.quick else []
        say(f"{case}: reads the corpus")
        runs = {}
        for name in (side for side in table.sides if side in (OURS, HALF)):
            place = folder / f"{preset}-{name.replace(' ', '-')}"
            precision = "bf16" if name == HALF else "fp32"
            runs[name] = begin_run(corpus, place, preset, shape["dropout"], seconds, precision, *more)
        files = folder / f"{preset}-files"
        vocabulary = write_tokens(runs[OURS], corpus, files)
        updates = 6 if words.quick else words.updates
        work = {"folder": str(files), "tokens": TOKENS, "vocabulary": vocabulary, "seconds": seconds}
        work |= {"updates": updates, "every": 2 if words.quick else max(2, updates // 6)}
        held &= measure_table(table, {case: list_sides(table, runs, shape, work)}, words)
    return held


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("corpus", type=Path, help=f"the folder with {', '.join(FILES)}")
    parser.add_argument("--seconds", type=float, default=20.0, help="of a round of ours and of the plain loop (20)")
    parser.add_argument("--updates", type=int, default=60, help="of a round of JoeyNMT and Eole (60)")
    words = read_words(parser)
    corpus = find_corpus(words.corpus, *FILES)
    with tempfile.TemporaryDirectory() as folder:
        finish(measure_models(corpus, Path(folder), words), words)


if __name__ == "__main__":
    main()
