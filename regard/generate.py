"""Writing on from a prompt, as the command line does it: text appears as it is made."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.decode.writer import Piece, Stream, Writer
from regard.noun import asked


@dataclass
class Style:
    """How a continuation is written out."""

    json: bool = False
    probabilities: bool = False
    verbose: bool = False


def generate(
    noun: str, prompt: str, given: Mapping[str, Any], stop: Sequence[str], samples: int, slide: bool, style: Style
) -> None:
    """Write one continuation as it comes, or several one after the other; `given`: settings that aren't the model's."""
    writer = asked(noun, Writer, "only a language model writes on")
    began = time.perf_counter()
    stream = writer.begin(prompt, writer.search.replace(**given), stop, samples, slide)
    rows: list[list[Piece]] = [[] for _ in range(samples)]
    shows = samples == 1 and not style.json and not style.probabilities
    if shows:
        print(prompt, end="", flush=True)
    for pieces in stream:
        for row, piece in pieces.items():
            rows[row].append(piece)
        if shows:
            print(rows[0][-1].text, end="", flush=True)
    if shows:
        print()
    else:
        for number, found in enumerate(rows):
            _tell(number, prompt, found, style)
    if style.verbose:
        _account(stream, sum(map(len, rows)), time.perf_counter() - began)
    if any(found[-1].reason == "context" for found in rows):
        print(f"regard: the context of {writer.context} tokens is full; --slide goes on", file=sys.stderr)


def _tell(number: int, prompt: str, found: Sequence[Piece], style: Style) -> None:
    text = "".join(piece.text for piece in found)
    if style.json:
        tokens = [{"token": piece.token, "log_probability": piece.log_probability} for piece in found]
        facts = {"sample": number, "prompt": prompt, "text": text, "reason": found[-1].reason, "tokens": tokens}
        print(json.dumps(facts, ensure_ascii=False))
    elif style.probabilities:
        for piece in found:
            print(f"{piece.probability:.4f}\t{piece.token}")
        print()
    else:
        print(f"--- {number + 1}\n{prompt}{text}")


def _account(stream: Stream, tokens: int, seconds: float) -> None:
    """What it cost."""
    speed = f"{tokens} tokens in {seconds:.2f} s, {tokens / max(seconds, 1e-9):,.0f} a second"
    state = f"{len(stream.prompt)} of the prompt read once; the state holds {stream.state_bytes:,} bytes"
    print(f"regard: {speed}; {state}", file=sys.stderr)
