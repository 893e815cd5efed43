"""Translating and evaluating with runs, as the command line does it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from regard.data.lines import lines
from regard.data.log import Log
from regard.decode.pipeline import Translation, Translator, Wishes, ensemble
from regard.lens.grid import by_word, grid
from regard.noun import asked

WINDOW = 512  # lines that are read, sorted and translated together


@dataclass
class Style:
    """How translations are written."""

    json: bool = False
    attention: bool = False


def translators(nouns: Sequence[str]) -> Translator:
    """One run, or an ensemble of several."""
    return ensemble([asked(noun, Translator, "only one that learned to translate translates") for noun in nouns])


def translate_lines(
    nouns: Sequence[str], files: Sequence[Path], given: Mapping[str, Any], wishes: Wishes, style: Style
) -> None:
    """Read lines, write translations in the same order; `given`: settings that aren't the model's."""
    speaker = translators(nouns)
    settings = speaker.settings(given)
    if style.attention and speaker.unseeing is not None:
        print(f"regard: {speaker.unseeing}", file=sys.stderr)
    # a person who types waits for each line; a file can be read in handfuls
    window = 1 if not files and sys.stdin.isatty() else WINDOW
    waiting = enumerate(texts(files), 1)
    cut: list[int] = []
    unmet: list[int] = []
    with _bar(files) as advance:
        while group := list(islice(waiting, window)):
            answers = speaker.translate_all([text for _, text in group], settings, wishes, attention=style.attention)
            for (line, text), found in zip(group, answers, strict=True):
                _write(text, found, style)
                cut += [line] if found[0].cut is not None else []
                unmet += [line] if not found[0].met else []
                advance()
            sys.stdout.flush()
    if cut:
        print(f"regard: {counted(cut)}: cut by a limit; --set maximum=N allows more", file=sys.stderr)
    if unmet:
        print(f"regard: {counted(unmet)}: a required word is missing", file=sys.stderr)


def counted(numbers: Sequence[int]) -> str:
    """How many lines, and which: the first of them where there are many."""
    shown = ", ".join(map(str, numbers[:10])) + (", …" if len(numbers) > 10 else "")
    return f"1 line (number {shown})" if len(numbers) == 1 else f"{len(numbers)} lines (numbers {shown})"


def texts(files: Sequence[Path]) -> Iterator[str]:
    """Every line, whatever state it is in: there must be a translation for each."""
    log = Log("repair")
    for name in [str(file) for file in files] or ["-"]:
        for line in lines(name, log):
            yield line.text or ""
    for reason, count in log.reasons.items():
        print(f"regard: {count} lines: {reason}", file=sys.stderr)


def _write(text: str, found: list[Translation], style: Style) -> None:
    if style.json:
        best = [item.as_json() for item in found]
        print(json.dumps({"source": text, **best[0]} | ({"nbest": best} if len(best) > 1 else {}), ensure_ascii=False))
        return
    for item in found:
        print(item.text if len(found) == 1 else f"{item.score:.4f}\t{item.text}")
        if style.attention and item.attention is not None:
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
    return sum(1 for _ in lines(str(file), Log("repair")))
