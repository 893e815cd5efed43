"""Verbs that work by meaning: texts as vectors, and the lines that are nearest to a query."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from regard.cli.arguments import FILES, JSON, app, hint
from regard.errors import InputError, SpecError
from regard.host.machine import give_way

CUT = Annotated[bool, typer.Option("--cut", help="Read only the beginning of texts that the model finds too long.")]


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
    from regard.data.lines import texts
    from regard.host.output import check_file, put
    from regard.runs.index import array, check_index, embedder
    from regard.runs.index import index as write_index

    if out is not None and index is not None:
        raise SpecError("--out and --index: vectors go to one of the two", "leave --out or --index out")
    if out is not None:
        check_file(out)
    if index is not None:
        check_index(index)
    lines = list(texts([str(file) for file in files or []]))
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
    query: Annotated[str, typer.Argument(help="The text to look for.")],
    model: Annotated[str | None, typer.Option(help="The model that makes the vectors; an index knows its own.")] = None,
    best: Annotated[int, typer.Option(help="The number of lines to find.", min=1)] = 5,
    cut: CUT = False,
    as_json: JSON = False,
) -> None:
    """Find the lines of a corpus that are nearest in meaning."""
    from regard.runs.index import search as look

    for hit in look(corpus, query, model, best, cut):
        print(json.dumps(vars(hit), ensure_ascii=False) if as_json else f"{hit.cosine:.3f}  {hit.line}: {hit.text}")
