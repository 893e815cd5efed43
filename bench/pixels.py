"""Mixers of planes, a whole picture and one pixel after the other, by turns: `python -m bench.pixels [--quick]`.

Forward, 16 pictures of 28×28 pixels. What a mixer gains by seeing a picture at once is what training has of it.
"""

from __future__ import annotations

from dataclasses import replace

from bench.harness import Side, finish, make_parser, measure_table, read_words
from bench.page import Bar, Table

WHOLE, PIXELS = "whole", "pixel by pixel"
GAIN = Bar("whole ÷ pixel by pixel", (WHOLE,), (PIXELS,))
TABLE = Table("Pictures", "pictures a second, forward", (WHOLE, PIXELS), (GAIN,), command="python -m bench.pixels")
LEAST = {"diagonal": 10.0}  # what is promised


def main() -> None:
    words = read_words(make_parser(__doc__))
    held = True
    for kind in ("diagonal", "row", "masked"):
        table = replace(TABLE, bars=(replace(GAIN, least=LEAST.get(kind)),))
        for width in (32, 64):
            shape = {
                "kind": kind,
                "width": width,
                "batch": 16,
                "side": 8 if words.quick else 28,
                "seconds": 0.0 if words.quick else 2.0,
            }
            sides = [Side(name, "learner", "paint", {**shape, "whole": name == WHOLE}, "ours") for name in TABLE.sides]
            held &= measure_table(table, {f"{kind}, width {width}": sides}, words)
    finish(held, words)


if __name__ == "__main__":
    main()
