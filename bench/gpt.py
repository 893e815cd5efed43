"""Training a GPT of nanoGPT's CPU size, ours and theirs by turns: `python -m bench.gpt CORPUS [--quick]`.

4 layers, 4 heads, width 128, context 64, 12 rows a batch, no dropout, characters of tiny shakespeare: ours, a plain
fp32 loop, and the same loop around transformers' GPT-2. What is reached in equal time is `bench/language.py`'s
question; this one is about tokens a second at the same size.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.harness import Side, find_corpus, finish, make_parser, measure_table, read_words, say
from bench.material import TORCH_ALONE
from bench.page import Bar, Table
from bench.training import SMOKE
from regard.config import read
from regard.runs.folder import Run

RECIPE = Path(__file__).parents[1] / "recipes" / "shakespeare-characters.yaml"
OURS, PLAIN, HUGGING = "ours", "a plain PyTorch loop", "transformers' GPT-2"
WITHOUT = "ours without our kernels"
SHAPE = {"width": 128, "depth": 4, "heads": 4, "context": 64, "dropout": 0}
ROWS = 12
TABLE = Table(
    "Training a GPT of nanoGPT's CPU size",
    "tokens a second",
    (OURS, WITHOUT, PLAIN, HUGGING),
    (
        Bar("ours ÷ a plain loop", (OURS,), (PLAIN,), least=1.7),
        Bar("ours ÷ transformers", (OURS,), (HUGGING,)),
        Bar("our kernels ÷ torch's", (OURS,), (WITHOUT,)),
    ),
    command="python -m bench.gpt CORPUS",
)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("corpus", type=Path, help="the folder with input.txt")
    parser.add_argument("--seconds", type=float, default=20.0, help="of a round (20)")
    words = read_words(parser)
    corpus, seconds = find_corpus(words.corpus, "input.txt").resolve(), 3.0 if words.quick else words.seconds
    with tempfile.TemporaryDirectory() as folder:
        say("reads the corpus")
        told = [f"data={corpus}", f"out={folder}/run", f"train.minutes={seconds / 60}", *(SMOKE if words.quick else [])]
        # nothing to evaluate: time for that would be taken off the steps
        told += [f"batches.tokens={ROWS * SHAPE['context']}", "corpus.holdout=0", "corpus.split.validation=0"]
        shape = ["kind=gpt2", *(f"{name}={value}" for name, value in SHAPE.items())]
        tree = read(RECIPE).change(told)
        tree.tree["model"] = {}
        run = Run.begin(tree.change([f"model.{word}" for word in shape]))
        work = {"corpus": str(corpus), "seconds": seconds}
        sides = [
            Side(OURS, "learner", "train", {"run": str(run.folder)}, "ours"),
            Side(WITHOUT, "learner", "train", {"run": str(run.folder)}, "ours", TORCH_ALONE),
            Side(PLAIN, "plain", "train_language", work, "ours"),
            Side(HUGGING, "hugging", "train_language", {**work, **SHAPE, "rows": ROWS}),
        ]
        finish(measure_table(TABLE, {"tiny shakespeare": sides}, words), words)


if __name__ == "__main__":
    main()
