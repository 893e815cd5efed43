"""Verbs that use what was trained: to translate, write, fill in, label, find; and to measure it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from regard.cli.words import FILES, JSON, RUN, app, hint, shown
from regard.errors import InputError, SpecError
from regard.machine import give_way, keep_memory

CUT = Annotated[bool, typer.Option("--cut", help="Read only the beginning of texts that the model finds too long.")]


@app.command(name="eval")
@give_way()
def evaluate(
    run: RUN,
    data: Annotated[
        list[str] | None,
        typer.Option(help="test.tsv, .jsonl, .po or .tmx; or --data test.en --data test.fr. None: the run's."),
    ] = None,
    beam: Annotated[int | None, typer.Option(help="Hypotheses a sentence. [the model's own, or 5]")] = None,
    also: Annotated[list[str] | None, typer.Option("--with", help="Another run, to make an ensemble.")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="Of the search: alpha=0.8")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the translations here.")] = None,
    page: Annotated[Path | None, typer.Option("--record", help="Put a row into this Markdown page of results.")] = None,
    as_json: JSON = False,
) -> None:
    """Measure a run by what it learned, on a test set: BLEU, perplexity, accuracy, F1, with their intervals."""
    from regard.evaluate import evaluated, recorded
    from regard.output import put

    keep_memory()
    nouns, files, how = [run, *(also or [])], data or [], search_settings(beam, 1, settings)
    evaluation = evaluated(nouns, files, how, out, page)
    show_measures(evaluation.measures, as_json)  # before anything else can go wrong
    if out is not None and evaluation.texts is not None:
        put(out, "".join(f"{text}\n" for text in evaluation.texts).encode())
    if page is not None:
        recorded(page, nouns, files, how, evaluation.measures)


def show_measures(measures: dict[str, Any], as_json: bool) -> None:
    """Measures with their intervals and signatures, then by label and by size."""
    if as_json:
        print(json.dumps(measures))
        return
    found = dict(measures)
    signatures = found.pop("signatures", {})
    for name, value in found.items():
        if not isinstance(value, dict) and not name.endswith(("_low", "_high")):
            between = (
                f"({shown(found[f'{name}_low'])} to {shown(found[f'{name}_high'])})" if f"{name}_low" in found else ""
            )
            print(f"{name:15} {shown(value)}  {between}{signatures.get(name, '')}".rstrip())
    if "labels" in found:
        from regard.tasks.measures import tables

        print("\n".join(["", *tables(found)]))
    for size, share in found.get("by_size", {}).items():
        print(f"size {size:>9}  {share:.1%}")
    for size, error in found.get("error_by_size", {}).items():
        print(f"size {size:>9}  {shown(error)}")


@app.command()
@give_way()
def translate(
    run: RUN,
    files: FILES = None,
    beam: Annotated[int | None, typer.Option(help="Hypotheses a sentence; 1 is greedy. [its own, or 5]")] = None,
    nbest: Annotated[int, typer.Option(help="So many translations of each line.")] = 1,
    also: Annotated[list[str] | None, typer.Option("--with", help="Another run, to make an ensemble.")] = None,
    prefix: Annotated[str, typer.Option(help="How every translation begins.")] = "",
    require: Annotated[list[str] | None, typer.Option(help="A word that must appear.")] = None,
    ban: Annotated[list[str] | None, typer.Option(help="A word that must not.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Of the search: sample=true top_p=0.9 alpha=0.8 seed=7 …")
    ] = None,
    attention: Annotated[bool, typer.Option(help="Draw what each word looked at; in JSON, the weights.")] = False,
    as_json: JSON = False,
) -> None:
    """Translate lines, in their order; an empty line stays empty."""
    from regard.decode.pipeline import Wishes
    from regard.translate import Style, translate_lines

    keep_memory()
    wishes = Wishes(prefix, require or [], ban or [])
    how = search_settings(beam, nbest, settings)
    translate_lines([run, *(also or [])], files or [], how, wishes, Style(as_json, attention))


def search_settings(beam: int | None, nbest: int, settings: list[str] | None) -> dict[str, Any]:
    """What options and settings say of a search, and nothing that they don't: a model has settings of its own."""
    from regard.config import assignments

    for option, value in (("--beam", beam), ("--nbest", nbest)):
        if value is not None and value < 1:
            raise SpecError(f"{option} {value}: there must be one hypothesis at least", f"{option} 1")
    if beam is not None and nbest > beam:
        raise SpecError(f"--nbest {nbest}: so many don't come from --beam {beam}", f"--beam {nbest}")
    given: dict[str, Any] = {} if beam is None else {"beam": beam}
    return given | ({"best": nbest} if nbest > 1 else {}) | assignments(settings or [])


@app.command()
@give_way()
def generate(
    run: RUN,
    prompt: Annotated[str, typer.Option(help="What the text begins with; - reads standard input.")] = "",
    tokens: Annotated[int | None, typer.Option(help="At most so many new ones. [its own, or 200]", min=1)] = None,
    samples: Annotated[int, typer.Option(help="So many continuations.", min=1)] = 1,
    temperature: Annotated[
        float | None, typer.Option(help="Below 1 safer, above 1 wilder; 0 takes the likeliest. [its own, or 0.8]")
    ] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Only the likeliest tokens that reach this probability. [its own, or 1]")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed writes the same text.")] = 0,
    stop: Annotated[list[str] | None, typer.Option(help="End before this string.")] = None,
    slide: Annotated[bool, typer.Option("--slide", help="Forget the first half when the context is full.")] = False,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="Each token with its probability.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Speed, and the bytes of the state.")] = False,
    settings: Annotated[list[str] | None, typer.Option("--set", help="Of the search: top_k=40 no_repeat=3 …")] = None,
    as_json: JSON = False,
) -> None:
    """Write on from a prompt; text appears as it is made."""
    from regard.config import assignments
    from regard.generate import Style
    from regard.generate import generate as write

    keep_memory()
    given: dict[str, Any] = {"top_p": top_p, "maximum": tokens, "seed": seed}
    if temperature is not None:
        given |= {"sample": temperature > 0, "temperature": temperature or 1.0}
    how = {name: value for name, value in given.items() if value is not None} | assignments(settings or [])
    text = sys.stdin.buffer.read().decode(errors="surrogateescape") if prompt == "-" else prompt
    write(run, text, how, stop or [], samples, slide, Style(as_json, probabilities, verbose))


@app.command()
@give_way()
def fill(
    run: RUN,
    texts: Annotated[list[str], typer.Argument(help='Texts with one or more [MASK]: "the [MASK] cat".')],
    best: Annotated[int, typer.Option(help="So many guesses for each.", min=1)] = 5,
    as_json: JSON = False,
) -> None:
    """Guess the hidden words of texts."""
    from regard.answer import fill as guess

    guess(run, texts, best, as_json)


@app.command()
@give_way()
def classify(
    run: RUN,
    files: FILES = None,
    as_json: JSON = False,
) -> None:
    """Label each line; a tab divides the two texts of a pair."""
    from regard.answer import classify as label

    label(run, files or [], as_json)


@app.command()
@give_way()
def tag(
    run: RUN,
    files: FILES = None,
    words: Annotated[bool, typer.Option("--words", help="Words are divided by spaces already.")] = False,
    as_json: JSON = False,
) -> None:
    """Label each word of each line."""
    from regard.answer import tag as label

    label(run, files or [], words, as_json)


@app.command()
@give_way()
def embed(
    run: Annotated[str, typer.Argument(help="A run that learned to embed, or a folder with an encoder: MiniLM.")],
    files: FILES = None,
    out: Annotated[Path | None, typer.Option(help="Write the vectors here, as a NumPy array (.npy).")] = None,
    index: Annotated[Path | None, typer.Option(help="Write an index for regard search to this new folder.")] = None,
    prompt: Annotated[str | None, typer.Option(help="Put the model's prompt of this name before each line.")] = None,
    cut: CUT = False,
    as_json: JSON = False,
) -> None:
    """Turn each line into a vector: as the model's own files say, otherwise the mean of its states at unit length."""
    from regard.index import array, check_index, embedder
    from regard.index import index as write_index
    from regard.output import check_file, put
    from regard.translate import texts

    if out is not None and index is not None:
        raise SpecError("--out and --index: vectors go to one of the two", "leave --out or --index out")
    if out is not None:
        check_file(out)
    if index is not None:
        check_index(index)
    lines = list(texts(files or []))
    if index is not None:
        written = [str(path) for path in write_index(run, lines, index, cut, prompt)]
        print(json.dumps({"files": written}) if as_json else "\n".join(written))
        return hint(f"regard search {quote(str(index))} QUERY")
    if not lines:
        raise InputError("there is no text to make a vector of")
    vectors = embedder(run).embed(lines, prompt=prompt, cut=cut)
    if out is not None:
        put(out, array(vectors))
        print(json.dumps({"out": str(out), "shape": list(vectors.shape)}) if as_json else out)
        return
    for text, vector in zip(lines, vectors.tolist(), strict=True):
        print(json.dumps({"text": text, "vector": vector}) if as_json else " ".join(f"{x:.6f}" for x in vector))


@app.command()
@give_way()
def search(
    corpus: Annotated[Path, typer.Argument(help="An index that regard embed wrote, or a file of lines.")],
    query: Annotated[str, typer.Argument(help="What to look for.")],
    model: Annotated[str | None, typer.Option(help="What makes the vectors; an index knows its own.")] = None,
    best: Annotated[int, typer.Option(help="So many lines.", min=1)] = 5,
    cut: CUT = False,
    as_json: JSON = False,
) -> None:
    """Find the lines of a corpus that are nearest in meaning."""
    from regard.index import search as look

    for hit in look(corpus, query, model, best, cut):
        print(json.dumps(vars(hit), ensure_ascii=False) if as_json else f"{hit.cosine:.3f}  {hit.line}: {hit.text}")
