"""The verb that translates: lines in, translations out in the same order."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.arguments import FILES, JSON, RUN, app, search_settings
from regard.host.machine import give_way, keep_memory

if TYPE_CHECKING:
    from regard.decode.translator import Translation, Wishes

WINDOW = 512  # lines that are read, sorted and translated together


@app.command()
@give_way()
def translate(
    run: RUN,
    files: FILES = None,
    beam: Annotated[
        int | None, typer.Option(help="The number of hypotheses a sentence; 1 is greedy. [the model's own, or 5]")
    ] = None,
    nbest: Annotated[int, typer.Option(help="The number of translations of each line.")] = 1,
    also: Annotated[list[str] | None, typer.Option("--with", help="Another run, to make an ensemble.")] = None,
    prefix: Annotated[str, typer.Option(help="The words that every translation begins with.")] = "",
    require: Annotated[list[str] | None, typer.Option(help="A word that every translation must contain.")] = None,
    ban: Annotated[list[str] | None, typer.Option(help="A word that no translation may contain.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="A setting of the search: sample=true, top_p=0.9, …; `regard settings search` tells all."
        ),
    ] = None,
    attention: Annotated[bool, typer.Option(help="Draw what each word looked at; in JSON, give the weights.")] = False,
    as_json: JSON = False,
) -> None:
    """Translate lines, in their order; an empty line stays empty."""
    from regard.decode.translator import Wishes

    keep_memory()
    wishes = Wishes(prefix, require or [], ban or [])
    how = search_settings(beam, nbest, settings)
    translate_lines([run, *(also or [])], files or [], how, wishes, TranslationStyle(as_json, attention))


@dataclass
class TranslationStyle:
    """How translations are written."""

    json: bool = False
    attention: bool = False


def translate_lines(
    nouns: Sequence[str], files: Sequence[Path], given: Mapping[str, Any], wishes: Wishes, style: TranslationStyle
) -> None:
    """Read lines, write translations in the same order; `given`: settings that aren't the model's."""
    from regard.data.lines import texts
    from regard.decode.translator import ensemble
    from regard.runs.load import load_translator

    pipeline = ensemble([load_translator(noun) for noun in nouns])
    settings = pipeline.settings(given)
    if style.attention and pipeline.unseeing is not None:
        print(f"regard: {pipeline.unseeing}", file=sys.stderr)
    # a person who types waits for each line; a file can be read in handfuls
    window = 1 if not files and sys.stdin.isatty() else WINDOW
    waiting = enumerate(texts([str(file) for file in files]), 1)
    cut: list[int] = []
    unmet: list[int] = []
    with _bar(files) as advance:
        while group := list(islice(waiting, window)):
            answers = pipeline.translate_all([text for _, text in group], settings, wishes, attention=style.attention)
            for (line, text), found in zip(group, answers, strict=True):
                _write(text, found, style)
                cut += [line] if found[0].cut is not None else []
                unmet += [line] if not found[0].met else []
                advance()
            sys.stdout.flush()
    if cut:
        print(f"regard: {count_lines(cut)}: cut by a limit; --set max_tokens=N allows more", file=sys.stderr)
    if unmet:
        print(f"regard: {count_lines(unmet)}: a required word is missing", file=sys.stderr)


def count_lines(numbers: Sequence[int]) -> str:
    """How many lines, and which: the first of them where there are many."""
    shown = ", ".join(map(str, numbers[:10])) + (", …" if len(numbers) > 10 else "")
    return f"1 line (number {shown})" if len(numbers) == 1 else f"{len(numbers)} lines (numbers {shown})"


def _write(text: str, found: list[Translation], style: TranslationStyle) -> None:
    if style.json:
        best = [item.as_json() for item in found]
        print(json.dumps({"source": text, **best[0]} | ({"nbest": best} if len(best) > 1 else {}), ensure_ascii=False))
        return
    for item in found:
        print(item.text if len(found) == 1 else f"{item.score:.4f}\t{item.text}")
        if style.attention and item.attention is not None:
            from regard.lens.grid import by_word, grid

            print(grid(*by_word(item.source_tokens, item.tokens, item.attention), color=sys.stdout.isatty()))


@contextmanager
def _bar(files: Sequence[Path]) -> Iterator[Callable[[], None]]:
    """A progress bar, where there is a terminal to draw on and the results go elsewhere."""
    if not sys.stderr.isatty() or sys.stdout.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    total = sum(_count(file) for file in files) if files else None
    columns = (TextColumn("translating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=total)
        yield lambda: progress.advance(task)


def _count(file: Path) -> int:
    from regard.data.lines import lines
    from regard.data.log import Log

    return sum(1 for _ in lines(str(file), Log("repair")))
