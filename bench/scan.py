"""Training Mamba's mixer, ours and theirs by turns: `python -m bench.scan [--quick]`.

Forward and backward at (batch 8, time 1024, width 256): the whole sequence with our compiled scan and with
torch's operations alone, the same position by position, and transformers by the path that it takes without CUDA: it
reads one of the eight rows, since all of them take it minutes, and are no quicker a token.
"""

from __future__ import annotations

from bench.harness import Side, finish, make_parser, measure_table, read_words
from bench.material import TORCH_ALONE
from bench.page import Bar, Table

WHOLE, STEPS, HUGGING = "ours, whole", "ours, position by position", "transformers, slow path"
WITHOUT = "ours, whole, without our kernels"
TABLE = Table(
    "Training Mamba",
    "tokens a second, forward and backward",
    (WHOLE, WITHOUT, STEPS, HUGGING),
    (
        Bar("whole ÷ position by position", (WHOLE,), (STEPS,), least=10.0),
        Bar("ours ÷ transformers", (WHOLE,), (HUGGING,), least=3.0),
        Bar("our kernels ÷ torch's", (WHOLE,), (WITHOUT,)),
    ),
    command="python -m bench.scan",
)


def main() -> None:
    words = read_words(make_parser(__doc__))
    batch, time, width = (2, 64, 32) if words.quick else (8, 1024, 256)
    shape = {"batch": batch, "time": time, "width": width}
    sides = [
        Side(WHOLE, "learner", "scan", {**shape, "whole": True}, "ours"),
        Side(WITHOUT, "learner", "scan", {**shape, "whole": True}, "ours", TORCH_ALONE),
        Side(STEPS, "learner", "scan", {**shape, "whole": False}, "ours"),
        Side(HUGGING, "hugging", "scan", {**shape, "batch": 1}),
    ]
    case = f"a mixer, batch {batch}, time {time:,}, width {width}"
    finish(measure_table(TABLE, {case: sides}, words), words)


if __name__ == "__main__":
    main()
