"""The verb that translates: lines in, translations out in the same order."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.arguments import JSON, PRECISION, RUN, search_settings, verb
from regard.cli.completion import complete_runs
from regard.cli.texts import FILE, TEXTS, GivenText, Manner, TextSource, answer_texts, choose_source
from regard.host.machine import give_way, keep_memory

if TYPE_CHECKING:
    from regard.decode.translator import Translation, Wishes


@verb("Ask a model")
@give_way()
def translate(
    run: RUN,
    texts: TEXTS = None,
    files: FILE = None,
    beam: Annotated[
        int | None,
        typer.Option(metavar="N", help="The number of hypotheses a sentence; 1 is greedy. [the model's own, or 5]"),
    ] = None,
    nbest: Annotated[int, typer.Option(metavar="N", help="The number of translations of each text.")] = 1,
    also: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="RUN", help="Another run, for an ensemble.", autocompletion=complete_runs),
    ] = None,
    prefix: Annotated[str, typer.Option(metavar="WORDS", help="The words that every translation begins with.")] = "",
    require: Annotated[
        list[str] | None, typer.Option(metavar="WORD", help="A word that every translation must contain.")
    ] = None,
    ban: Annotated[
        list[str] | None, typer.Option(metavar="WORD", help="A word that no translation may contain.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="SETTING",
            help="A setting of the search: sample=true, top_p=0.9, …; `regard settings search` tells all.",
        ),
    ] = None,
    attention: Annotated[
        bool, typer.Option("--attention", help="Draw what each word looked at; in JSON, give the weights.")
    ] = False,
    precision: PRECISION = None,
    as_json: JSON = False,
) -> None:
    """Translate texts, in their order.

    Texts are typed, or they are the lines of --file or of standard input. An empty one stays empty; one that can't be
    translated is told, and the exit status is 3 then.
    """
    source = choose_source(texts, files)  # a mistake in the words is told before anything is loaded
    from regard.decode.translator import Wishes

    keep_memory()
    wishes = Wishes(prefix, require or [], ban or [])
    how = search_settings(beam, nbest, settings)
    nouns = [run, *(also or [])]
    translate_all(nouns, source, how, wishes, TranslationStyle(as_json, attention), precision)


@dataclass
class TranslationStyle:
    """How translations are written."""

    json: bool = False
    attention: bool = False


def translate_all(
    nouns: Sequence[str],
    source: TextSource,
    given: Mapping[str, Any],
    wishes: Wishes,
    style: TranslationStyle,
    precision: str | None = None,
) -> None:
    """Write the translations of texts in their order; `given`: settings that aren't the model's."""
    from regard.decode.translator import Translation, ensemble
    from regard.runs.load import load_translator

    pipeline = ensemble([load_translator(noun, precision) for noun in nouns])
    settings = pipeline.settings(given)
    pipeline.insist_on_wishes(wishes)  # words that can't be written are nobody's text's fault
    if style.attention and pipeline.unseeing is not None:
        print(f"regard: {pipeline.unseeing}", file=sys.stderr)
    cut: list[str] = []
    unmet: list[str] = []

    def ask(texts: list[str]) -> Sequence[list[Translation]]:
        return list(pipeline.translate_all(texts, settings, wishes, attention=style.attention))

    def show(text: GivenText, found: list[Translation]) -> None:
        _write(text.text, found, style)
        cut.extend([text.place] if found[0].cut is not None else [])
        unmet.extend([text.place] if not found[0].met else [])

    manner = Manner(style.json, "source", Translation("", [], [], 0.0, []).as_json())
    try:
        answer_texts(source, "translating", ask, show, manner)
    finally:
        if cut:
            print(f"regard: {count_texts(cut)}: cut by a limit; --set max_tokens=N allows more", file=sys.stderr)
        if unmet:
            print(f"regard: {count_texts(unmet)}: a required word is missing", file=sys.stderr)


def count_texts(places: Sequence[str]) -> str:
    """How many texts, and which: the first of them where there are many."""
    shown = ", ".join(places[:10]) + (", …" if len(places) > 10 else "")
    return shown if len(places) == 1 else f"{len(places)} texts ({shown})"


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
