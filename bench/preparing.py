"""Making a corpus of a million sentence pairs ready: `python -m bench.preparing CORPUS [--quick]`.

Ours reads, checks, cuts and writes; the `tokenizers` library alone cuts the same lines with the same vocabulary and
keeps nothing. The vocabulary was learned before, from a small part. The lines are the corpus's, over and over, each
numbered so that no pair is a copy of another. Memory is the largest size of the process, for all lines and for a
quarter of them.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from pathlib import Path

from bench.harness import Side, find_corpus, finish, make_parser, measure_table, read_words, say
from bench.page import Bar, Table
from bench.training import FILES, begin_run

OURS, ALONE, QUARTER = "ours", "tokenizers alone", "ours, a quarter of the lines"
COMMAND = "python -m bench.preparing CORPUS"
TIME = Table(
    "Preparing a corpus",
    "seconds, past the vocabulary's training",
    (OURS, ALONE),
    (Bar("ours ÷ tokenizers alone", (OURS,), (ALONE,), most=1.5),),
    better="less",
    command=COMMAND,
)
MEMORY = Table(
    "Memory of preparing a corpus",
    "megabytes at most",
    (OURS, QUARTER),
    (Bar("ours ÷ a quarter of the lines", (OURS,), (QUARTER,), most=1.1),),  # 1: it is flat
    better="less",
    command=COMMAND,
)


def write_lines(corpus: Path, folder: Path, count: int) -> Path:
    """So many pairs, none like another."""
    folder.mkdir()
    for ending in ("en", "fr"):
        lines = (corpus / f"train.{ending}").read_text(encoding="utf-8").splitlines()
        with (folder / f"train.{ending}").open("w", encoding="utf-8") as file:
            for number in range(count):
                file.write(f"{lines[number % len(lines)]} {number}\n")
    return folder


def measure_all(corpus: Path, folder: Path, pairs: int, words: Namespace) -> bool:
    say(f"writes {pairs:,} pairs, and learns a vocabulary from {pairs // 100:,}")
    whole, quarter = (write_lines(corpus, folder / name, n) for name, n in (("all", pairs), ("part", pairs // 4)))
    learned = begin_run(
        write_lines(corpus, folder / "few", pairs // 100), folder / "run", "transformer-tiny", 0, 1, "fp32"
    )
    work = {"corpus": str(whole), "like": str(learned.folder)}
    ours, alone = Side(OURS, "preparer", "prepare", work, "ours"), Side(ALONE, "preparer", "cut", work, "ours")
    held = measure_table(TIME, {f"{pairs:,} pairs": [ours, alone]}, words)
    once = Namespace(**{**vars(words), "rounds": 1})  # a process's largest size only grows
    sides = [
        Side(OURS, "preparer", "remember", work, "ours"),
        Side(QUARTER, "preparer", "remember", {**work, "corpus": str(quarter)}, "ours"),
    ]
    return measure_table(MEMORY, {f"{pairs:,} pairs": sides}, once) and held


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("corpus", type=Path, help=f"the folder with {', '.join(FILES)}")
    parser.add_argument("--pairs", type=int, default=1_000_000, help="(1,000,000)")
    words = read_words(parser)
    corpus = find_corpus(words.corpus, *FILES)
    with tempfile.TemporaryDirectory() as folder:
        finish(measure_all(corpus, Path(folder), 4000 if words.quick else words.pairs, words), words)


if __name__ == "__main__":
    main()
