"""Reading with an encoder, ours and theirs by turns: `python -m bench.encoding [--quick]`.

One forward pass of BERT-base, 8 rows of 128 tokens and one row of them. Weights are random and the same for all:
transformers has them by `regard export --to hf`, ONNX Runtime by `--to onnx`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from bench.harness import Side, finish, make_parser, measure_table, read_words, say
from bench.material import TORCH_ALONE, make_run, send_out
from bench.page import Bar, Table

PRECISIONS = ("fp32", "int8", "auto")
OURS = tuple(f"ours {precision}" for precision in PRECISIONS)
WITHOUT = "ours fp32 without our kernels"
HUGGING, RUNTIME = "transformers fp32", "ONNX Runtime fp32"
TABLE = Table(
    "Reading with an encoder",
    "tokens a second, BERT-base",
    (*OURS, WITHOUT, HUGGING, RUNTIME),
    (
        Bar("ours ÷ transformers", OURS, (HUGGING,)),
        Bar("ours ÷ ONNX Runtime", OURS, (RUNTIME,)),
        Bar("ours fp32 ÷ ONNX Runtime", OURS[:1], (RUNTIME,)),
        Bar("our kernels ÷ torch's, fp32", OURS[:1], (WITHOUT,)),
    ),
    command="python -m bench.encoding",
)


def list_sides(run: Path, places: dict[str, str], work: dict[str, Any]) -> list[Side]:
    ours = [
        Side(f"ours {precision}", "ours", "encode", {**work, "run": str(run), "precision": precision}, "ours")
        for precision in PRECISIONS
    ]
    ours.append(Side(WITHOUT, "ours", "encode", {**work, "run": str(run), "precision": "fp32"}, "ours", TORCH_ALONE))
    hugging = Side(HUGGING, "hugging", "encode", {**work, "folder": places["hf"]})
    return [*ours, hugging, Side(RUNTIME, "runtime", "encode", {**work, "file": places["onnx"]})]


def main() -> None:
    words = read_words(make_parser(__doc__))
    small = {"width": 64, "depth": 2, "vocabulary": 500, "hidden": 128} if words.quick else {}
    work = {"vocabulary": small.get("vocabulary", 30522), "seconds": 0.0 if words.quick else 2.0}
    work |= dict.fromkeys(("shortest", "longest"), 16 if words.quick else 128)
    with tempfile.TemporaryDirectory() as folder:
        say("BERT: random weights, for everybody")
        run = make_run(Path(folder) / "bert", "embedding", "bert-base", **small)
        places = send_out(run, "hf", "onnx")
        cases = {f"batch {rows}": list_sides(run, places, {**work, "rows": rows}) for rows in (1, 8)}
        finish(measure_table(TABLE, cases, words), words)


if __name__ == "__main__":
    main()
