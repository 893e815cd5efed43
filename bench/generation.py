"""Writing on, ours and theirs by turns: `python -m bench.generation [--quick]`.

GPT-2 of 124 million weights, a prompt of 32 tokens and 64 new ones, one row and eight; a prompt of 1,024 tokens that is
only read; Mamba-130m and an LSTM of 50 million weights, one row. Weights are random and the same for all. At one row a
step is as fast as the weights can be read, so the limit is measured too: memory's speed ÷ the bytes of 8-bit weights.
One side of ours leaves our compiled kernels alone, so that what they bring is seen.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from bench.harness import Side, finish, make_parser, measure_table, read_words, say
from bench.material import TORCH_ALONE, make_run, send_out
from bench.page import Bar, Table

OURS = ("ours fp32", "ours int8", "ours auto")
WITHOUT = "ours int8 without our kernels"
LIMIT = "memory's limit, 8 bits"
SIDES = (*OURS, WITHOUT, "transformers fp32", "CTranslate2 fp32", "CTranslate2 int8", "llama.cpp q8_0")
HUGGING = Bar("ours ÷ transformers", OURS, ("transformers fp32",), least=3.0)
LLAMA = Bar("ours ÷ llama.cpp", OURS, ("llama.cpp q8_0",), least=0.8)
KERNELS = Bar("our kernels ÷ torch's, int8", ("ours int8",), (WITHOUT,))
CASE = "GPT-2 124M, a prompt of 32 and 64 new tokens"
COMMAND = "python -m bench.generation"


def compare_int8(least: float) -> Bar:
    return Bar("ours ÷ CTranslate2 int8", OURS, ("CTranslate2 int8",), least=least)


REACHED = Bar("ours ÷ memory's limit", OURS, (LIMIT,), least=0.7)
ONE = Table(
    "Writing, one row",
    "new tokens a second",
    (*SIDES, LIMIT),
    (HUGGING, compare_int8(2.0), LLAMA, REACHED, KERNELS),
    command=COMMAND,
)
EIGHT = Table(
    "Writing, eight rows",
    "new tokens a second",
    SIDES,
    (HUGGING, compare_int8(1.3), LLAMA, KERNELS),
    command=COMMAND,
)
PREFILL = Table(
    "Reading a long prompt",
    "tokens of the prompt a second, up to the first new one",
    SIDES,
    (Bar(HUGGING.title, OURS, HUGGING.theirs, least=1.5), KERNELS),
    command=COMMAND,
)
RECURRENT = Table(
    "Writing without attention, one row",
    "new tokens a second",
    (*OURS, WITHOUT, "transformers fp32", "a plain nn.LSTM loop"),
    (HUGGING, Bar("ours ÷ a plain loop", OURS, ("a plain nn.LSTM loop",), least=3.0), KERNELS),
    command=COMMAND,
)


def list_ours(run: Path, job: str, work: dict[str, Any]) -> list[Side]:
    def side(name: str, precision: str, told: dict[str, str]) -> Side:
        return Side(name, "ours", job, {**work, "run": str(run), "precision": precision}, "ours", told)

    named = [side(f"ours {precision}", precision, {}) for precision in ("fp32", "int8", "auto")]
    return [*named, side(WITHOUT, "int8", TORCH_ALONE)]


def list_all(run: Path, places: dict[str, str], job: str, work: dict[str, Any]) -> list[Side]:
    """Ours and everybody who has GPT-2."""
    hugging = {**work, "folder": places["hf"]}
    translate = {**work, "folder": places["ctranslate2"]}
    return [
        *list_ours(run, job, work),
        Side("transformers fp32", "hugging", job, hugging),
        Side("CTranslate2 fp32", "ctranslate", job, {**translate, "precision": "float32"}),
        Side("CTranslate2 int8", "ctranslate", job, {**translate, "precision": "int8_float32"}),
        Side("llama.cpp q8_0", "llama", job, hugging),
    ]


def main() -> None:
    words = read_words(make_parser(__doc__))
    quick = words.quick
    small: dict[str, Any] = {"width": 64, "depth": 2, "vocabulary": 500} if quick else {}
    work = {"shortest": 32, "longest": 32, "steps": 4 if quick else 64, "seconds": 0.0 if quick else 2.0}
    with tempfile.TemporaryDirectory() as folder:
        say("GPT-2: random weights, for everybody")
        run = make_run(Path(folder) / "gpt2", "language", "gpt2", **small)
        places, work["vocabulary"] = send_out(run, "ctranslate2", "hf"), small.get("vocabulary", 50257)
        weights = (run / "checkpoints" / "step-1" / "model.safetensors").stat().st_size // 4
        limit = Side(LIMIT, "limit", "read_memory", {"megabytes": 64 if quick else 2048, "bytes": weights})
        sides = list_all(run, places, "write", {**work, "rows": 1})
        held = measure_table(ONE, {CASE: [*sides, limit]}, words)
        held &= measure_table(EIGHT, {CASE: list_all(run, places, "write", {**work, "rows": 8})}, words)
        long = 64 if quick else 1023  # the table of positions has room for the new token too
        prompt = {**work, "shortest": long, "longest": long, "rows": 1}
        held &= measure_table(PREFILL, {f"GPT-2 124M, {long} tokens": list_all(run, places, "prefill", prompt)}, words)
        held &= measure_recurrent(Path(folder), work, words)
    finish(held, words)


def measure_recurrent(folder: Path, work: dict[str, Any], words: Any) -> bool:
    """Mamba against transformers, an LSTM against the loop that one writes with torch alone."""
    mamba = {"width": 64, "depth": 2, "vocabulary": 500} if words.quick else {}
    lstm = {"width": 1024, "depth": 4, "vocabulary": 16000}  # 50 million weights
    lstm = {"width": 64, "depth": 2, "vocabulary": 500} if words.quick else lstm
    say("Mamba and an LSTM: random weights")
    first = make_run(folder / "mamba", "language", "mamba-130m", **mamba)
    second = make_run(folder / "lstm", "language", "lstm", **lstm)
    places = send_out(first, "hf")
    one = {**work, "rows": 1, "vocabulary": mamba.get("vocabulary", 50280)}
    other = {**work, "rows": 1, "vocabulary": lstm["vocabulary"]}
    cases = {
        "Mamba-130m": [
            *list_ours(first, "write", one),
            Side("transformers fp32", "hugging", "write", {**one, "folder": places["hf"]}),
        ],
        "an LSTM of 50M": [
            *list_ours(second, "write", other),
            Side("a plain nn.LSTM loop", "plain", "write_recurrent", {**other, **lstm}),
        ],
    }
    return measure_table(RECURRENT, cases, words)


if __name__ == "__main__":
    main()
