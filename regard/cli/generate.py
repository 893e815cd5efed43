"""The verb that writes on from a prompt: text appears as it is made."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.arguments import JSON, PRECISION, RUN, verb
from regard.cli.texts import FILE, TEXTS, Manner, answer_texts, choose_source
from regard.host.machine import give_way, keep_memory

if TYPE_CHECKING:
    from regard.decode.writer import Piece, Stream, Writer

TOKENS = Annotated[
    int | None,
    typer.Option(metavar="N", help="The number of new tokens at most. [the model's own, or 200]", min=1),
]
TEMPERATURE = Annotated[
    float | None,
    typer.Option(
        metavar="X", help="Below 1 is safer, above 1 wilder; 0 takes the likeliest. [the model's own, or 0.8]"
    ),
]
TOP_P = Annotated[
    float | None,
    typer.Option(
        metavar="X", help="Draw from the likeliest tokens that reach this probability. [the model's own, or 1]"
    ),
]
SEED = Annotated[int, typer.Option(metavar="N", help="The same seed writes the same text.")]
STOP = Annotated[list[str] | None, typer.Option(metavar="STRING", help="A string that ends the text before it.")]
SETTINGS = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="SETTING", help="A setting of the search: top_k=40, …; `regard settings search` tells all."
    ),
]


def writing_settings(
    tokens: int | None, temperature: float | None, top_p: float | None, seed: int, settings: list[str] | None
) -> dict[str, Any]:
    """What options say of how to write, and nothing that they don't."""
    from regard.config import assignments

    given: dict[str, Any] = {"top_p": top_p, "max_tokens": tokens, "seed": seed}
    if temperature is not None:
        given |= {"sample": temperature > 0, "temperature": temperature or 1.0}
    return {name: value for name, value in given.items() if value is not None} | assignments(settings or [])


@verb("Ask a model")
@give_way()
def generate(
    run: RUN,
    texts: TEXTS = None,
    files: FILE = None,
    prompt: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="A text too; - takes all of standard input as one. May be empty."),
    ] = None,
    tokens: TOKENS = None,
    samples: Annotated[int, typer.Option(metavar="N", help="The number of continuations.", min=1)] = 1,
    temperature: TEMPERATURE = None,
    top_p: TOP_P = None,
    seed: SEED = 0,
    stop: STOP = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Go on from a text as it is, though the model learned conversations.")
    ] = False,
    slide: Annotated[bool, typer.Option("--slide", help="Forget the first half when the context is full.")] = False,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Print each token with its probability.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Tell the speed, and the bytes of the state.")] = False,
    settings: SETTINGS = None,
    precision: PRECISION = None,
    as_json: JSON = False,
) -> None:
    """Write on from texts, as the text comes.

    Texts are typed, or they are the lines of --file or of standard input; where there is nothing, it writes from
    nothing. A model that learned conversations answers: each text is what a user says to it.
    """
    from regard.decode.writer import Writer
    from regard.runs.load import load_as

    keep_memory()
    how = writing_settings(tokens, temperature, top_p, seed, settings)
    prompts = [*(texts or []), *map(read_prompt, prompt or [])]
    # whoever types nothing at a terminal means to begin from nothing
    if not prompts and not files and sys.stdin.isatty():
        prompts = [""]
    source = choose_source(texts, files, prompts)
    writer = load_as(run, Writer, "only a language model writes on", precision)
    if plain:
        writer = replace(writer, format=None)
    style = ContinuationStyle(as_json, probabilities, verbose)
    work = Continuing(writer, how, stop or [], samples, slide, style)
    if len(prompts) == 1 and not source.files:
        return work.write_on(prompts[0])  # one that is empty is meant to be
    manner = Manner(as_json, "prompt", {"text": ""})
    if not answer_texts(source, "writing", work.answer, lambda *_: None, manner, window=1):
        work.write_on("")


def read_prompt(word: str) -> str:
    """A prompt as it was typed, or all of standard input."""
    return sys.stdin.buffer.read().decode(errors="surrogateescape") if word == "-" else word


@dataclass
class ContinuationStyle:
    """How a continuation is written out."""

    json: bool = False
    probabilities: bool = False
    verbose: bool = False


@dataclass
class Continuing:
    """A writer, and how it is to write; `given`: settings that aren't the model's own."""

    writer: Writer
    given: Mapping[str, Any]
    stop: Sequence[str]
    samples: int
    slide: bool
    style: ContinuationStyle
    count: int = 0  # texts so far

    @property
    def border(self) -> str:
        """What is printed between a prompt and what follows: an answer has a line of its own."""
        form = self.writer.format
        return "" if form is None or form.name == "plain" else "\n"

    def answer(self, texts: list[str]) -> list[bool]:
        """Write on from texts; each is written out as it comes, so there is nothing left to show."""
        for text in texts:
            self.write_on(text)
        return [True] * len(texts)

    def write_on(self, prompt: str) -> None:
        """Write one continuation as it comes, or several one after the other."""
        began, style = time.perf_counter(), self.style
        stream = self.writer.begin(
            prompt, self.writer.search.replace(**self.given), self.stop, self.samples, self.slide
        )
        rows: list[list[Piece]] = [[] for _ in range(self.samples)]
        shows = self.samples == 1 and not style.json and not style.probabilities
        if self.count and not style.json:
            print()  # between two texts
        self.count += 1
        if shows:
            print(prompt, end=self.border, flush=True)
        for pieces in stream:
            for row, piece in pieces.items():
                rows[row].append(piece)
            if shows:
                print(rows[0][-1].text, end="", flush=True)
        if shows:
            print()
        else:
            for number, found in enumerate(rows):
                _tell(number, prompt, found, style, self.border)
        if style.verbose:
            _account(stream, sum(map(len, rows)), time.perf_counter() - began)
        if any(found[-1].reason == "context" for found in rows):
            told = f"regard: the context of {self.writer.context} tokens is full; --slide goes on"
            print(told, file=sys.stderr)


def _tell(number: int, prompt: str, found: Sequence[Piece], style: ContinuationStyle, border: str) -> None:
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
        print(f"--- {number + 1}\n{prompt}{border}{text}")


def _account(stream: Stream, tokens: int, seconds: float) -> None:
    """What it cost."""
    speed = f"{tokens} tokens in {seconds:.2f} s, {tokens / max(seconds, 1e-9):,.0f} a second"
    state = f"{len(stream.prompt)} of the prompt read once; the state holds {stream.state_bytes:,} bytes"
    print(f"regard: {speed}; {state}", file=sys.stderr)
