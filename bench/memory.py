"""Memory that attention takes in training: `python -m bench.memory [--quick]`.

One mixer of width 256 with 8 heads, forward and backward, at length 4,096, at half of it, and with a softmax that is
written out. Each side has a process of its own, whose largest size above what it was given counts.
"""

from __future__ import annotations

from bench.harness import Side, finish, make_parser, measure_table, read_words
from bench.page import Bar, Table

OURS, HALF, EXPLICIT = "ours", "ours at half the length", "explicit softmax"
TABLE = Table(
    "Memory of attention in training",
    "megabytes at most, forward and backward",
    (OURS, HALF, EXPLICIT),
    (
        Bar("ours ÷ explicit softmax", (OURS,), (EXPLICIT,), most=0.6),
        Bar("ours ÷ ours at half the length", (OURS,), (HALF,), most=2.2),  # 2: it grows linearly
    ),
    better="less",
    command="python -m bench.memory",
)


def main() -> None:
    words = read_words(make_parser(__doc__))
    length = 512 if words.quick else 4096
    shape = {"time": length, "width": 256, "heads": 8}
    sides = [
        Side(OURS, "learner", "remember", shape, "ours"),
        Side(HALF, "learner", "remember", {**shape, "time": length // 2}, "ours"),
        Side(EXPLICIT, "plain", "remember", shape, "ours"),
    ]
    finish(measure_table(TABLE, {f"length {length:,}": sides}, words), words)


if __name__ == "__main__":
    main()
