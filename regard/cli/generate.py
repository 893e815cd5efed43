"""The verb that writes on from a prompt: text appears as it is made."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.arguments import JSON, RUN, app
from regard.host.machine import give_way, keep_memory

if TYPE_CHECKING:
    from regard.decode.writer import Piece, Stream


@app.command()
@give_way()
def generate(
    run: RUN,
    prompt: Annotated[str, typer.Option(help="The text to write on from; - reads standard input.")] = "",
    tokens: Annotated[
        int | None, typer.Option(help="The number of new tokens at most. [the model's own, or 200]", min=1)
    ] = None,
    samples: Annotated[int, typer.Option(help="The number of continuations.", min=1)] = 1,
    temperature: Annotated[
        float | None,
        typer.Option(help="Below 1 is safer, above 1 wilder; 0 takes the likeliest. [the model's own, or 0.8]"),
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(help="Draw from the likeliest tokens that reach this probability. [the model's own, or 1]"),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed writes the same text.")] = 0,
    stop: Annotated[list[str] | None, typer.Option(help="A string that ends the text before it.")] = None,
    slide: Annotated[bool, typer.Option("--slide", help="Forget the first half when the context is full.")] = False,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Print each token with its probability.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Tell the speed, and the bytes of the state.")] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of the search: top_k=40, …; `regard settings search` tells all."),
    ] = None,
    as_json: JSON = False,
) -> None:
    """Write on from a prompt; text appears as it is made."""
    from regard.config import assignments

    keep_memory()
    given: dict[str, Any] = {"top_p": top_p, "max_tokens": tokens, "seed": seed}
    if temperature is not None:
        given |= {"sample": temperature > 0, "temperature": temperature or 1.0}
    how = {name: value for name, value in given.items() if value is not None} | assignments(settings or [])
    text = sys.stdin.buffer.read().decode(errors="surrogateescape") if prompt == "-" else prompt
    write_on(run, text, how, stop or [], samples, slide, ContinuationStyle(as_json, probabilities, verbose))


@dataclass
class ContinuationStyle:
    """How a continuation is written out."""

    json: bool = False
    probabilities: bool = False
    verbose: bool = False


def write_on(
    noun: str,
    prompt: str,
    given: Mapping[str, Any],
    stop: Sequence[str],
    samples: int,
    slide: bool,
    style: ContinuationStyle,
) -> None:
    """Write one continuation as it comes, or several one after the other; `given`: settings that aren't the model's."""
    from regard.decode.writer import Writer
    from regard.runs.load import load_as

    writer = load_as(noun, Writer, "only a language model writes on")
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


def _tell(number: int, prompt: str, found: Sequence[Piece], style: ContinuationStyle) -> None:
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
