"""What a window saves in training: `python -m bench.windows [--quick]`.

One mixer of width 256 with 8 heads and a window of 256, forward and backward, at 1,024, 4,096 and 16,384 positions:
ours, and the same kernel over all pairs with a table of those that the window hides. Each side has a process of its
own, whose largest size above what it was given counts as its memory.
"""

from __future__ import annotations

from bench.harness import Side, finish, make_parser, measure_table, read_words
from bench.page import Bar, Table

OURS, PAIRS = "ours", "all pairs, some hidden"
UNITS = {"time": "milliseconds, forward and backward", "memory": "megabytes at most, forward and backward"}
TABLES = {
    what: Table(
        f"{what.capitalize()} of a window in training",
        unit,
        (OURS, PAIRS),
        (Bar("ours ÷ all pairs", (OURS,), (PAIRS,), most=1.0),),
        better="less",
        command="python -m bench.windows",
    )
    for what, unit in UNITS.items()
}


def main() -> None:
    words = read_words(make_parser(__doc__))
    lengths, window = ((256,), 16) if words.quick else ((1024, 4096, 16384), 256)
    held = True
    for what, table in TABLES.items():
        cases = {}
        for length in lengths:
            shape = {"time": length, "width": 256, "heads": 8, "window": window, "what": what}
            sides = [
                Side(name, system, "slide", shape, "ours") for name, system in ((OURS, "learner"), (PAIRS, "plain"))
            ]
            cases[f"length {length:,}, window {window}"] = sides
        held = measure_table(table, cases, words) and held
    finish(held, words)


if __name__ == "__main__":
    main()
