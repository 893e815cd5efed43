"""Verbs that work by meaning: texts as vectors, and the lines that are nearest to a query."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.arguments import JSON, PRECISION, hint, verb
from regard.cli.completion import complete_runs
from regard.cli.progress import ProgressMeter
from regard.cli.texts import FILE, TEXTS, GivenText, Manner, answer_texts, choose_source
from regard.errors import InputError, SpecError
from regard.host.machine import give_way

if TYPE_CHECKING:
    from torch import Tensor

CUT = Annotated[bool, typer.Option("--cut", help="Read only the beginning of texts that the model finds too long.")]


@dataclass
class VectorRows(Manner):
    """Vectors that are collected, to be written together: None for a text that has none."""

    lines: list[str] = field(default_factory=list)
    rows: list[Tensor | None] = field(default_factory=list)

    def leave_blank(self, text: GivenText, error: str = "") -> None:
        self.lines.append(text.text)
        self.rows.append(None)

    def add(self, text: GivenText, vector: Tensor) -> None:
        self.lines.append(text.text)
        self.rows.append(vector)


@verb("Ask a model")
@give_way()
def embed(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="A run that learned to embed, or a folder with an encoder: MiniLM.",
            autocompletion=complete_runs,
        ),
    ],
    texts: TEXTS = None,
    files: FILE = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the vectors here, as a NumPy array (.npy); an empty text is zeros."),
    ] = None,
    index: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write an index for regard search to this new folder.")
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(metavar="NAME", help="Put the model's prompt of this name before each text.")
    ] = None,
    cut: CUT = False,
    precision: PRECISION = None,
    as_json: JSON = False,
) -> None:
    """Turn texts into vectors: as the model's own files say, otherwise the mean of its states at unit length."""
    from regard.host.output import check_file
    from regard.runs.index import check_index, embedder
    from regard.tasks.vector import DOCUMENT

    if out is not None and index is not None:
        raise SpecError("--out and --index: vectors go to one of the two", "leave --out or --index out")
    if out is not None:
        check_file(out)
    if index is not None:
        check_index(index)
    source = choose_source(texts, files)
    pipeline = embedder(run, precision)
    if index is not None:
        pipeline.recipe.insist_on_cosines()
        prompt = pipeline.recipe.prompt(DOCUMENT) if prompt is None else prompt
    pipeline.recipe.prepared([], prompt)  # a prompt that it doesn't have is no text's fault

    def show(text: GivenText, vector: Tensor) -> None:
        numbers = vector.tolist()
        if as_json:
            print(json.dumps({"text": text.text, "vector": numbers}, ensure_ascii=False))
        else:
            print(" ".join(f"{x:.6f}" for x in numbers))

    kept = VectorRows(as_json, "text", {"vector": None})
    quiet = out is not None or index is not None
    manner, tell = (kept, kept.add) if quiet else (Manner(as_json, "text", kept.blank), show)
    lacking = None
    try:
        ask = lambda each: list(pipeline.embed(each, prompt=prompt, cut=cut))  # noqa: E731
        count = answer_texts(source, "making vectors", ask, tell, manner, quiet=quiet)
        if not count or (quiet and not any(row is not None for row in kept.rows)):
            raise InputError("there is no text to make a vector of")
    except InputError as error:  # what has a vector is written, though others have none
        lacking = error
    if any(row is not None for row in kept.rows):
        write_vectors(run, kept, out, index, pipeline.precision, as_json)
    if lacking is not None:
        raise lacking


def write_vectors(
    run: str, kept: VectorRows, out: Path | None, index: Path | None, precision: str, as_json: bool
) -> None:
    """Write vectors to an array with a row for each text, or to an index of those that have one."""
    import torch

    from regard.host.output import put
    from regard.runs.index import array, write_index

    if index is not None:
        entries = [(n, line) for n, line in enumerate(kept.lines, 1) if kept.rows[n - 1] is not None]
        vectors = torch.stack([row for row in kept.rows if row is not None])
        written = [str(path) for path in write_index(run, entries, vectors, index, precision)]
        print(json.dumps({"files": written}) if as_json else "\n".join(written))
        return hint(f"regard search {quote(str(index))} QUERY")
    assert out is not None
    nothing = torch.zeros_like(next(row for row in kept.rows if row is not None))
    vectors = torch.stack([nothing if row is None else row for row in kept.rows])
    put(out, array(vectors))
    print(json.dumps({"out": str(out), "shape": list(vectors.shape)}) if as_json else out)


@verb("Ask a model")
@give_way()
def search(
    corpus: Annotated[
        Path, typer.Argument(metavar="CORPUS", help="An index that regard embed wrote, or a file of lines.")
    ],
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The text to look for.")],
    model: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="The model that makes the vectors; an index knows its own.",
            autocompletion=complete_runs,
        ),
    ] = None,
    best: Annotated[int, typer.Option(metavar="N", help="The number of lines to find.", min=1)] = 5,
    cut: CUT = False,
    precision: PRECISION = None,
    as_json: JSON = False,
) -> None:
    """Find the lines of a corpus that are nearest in meaning.

    An index knows the precision that it was made in; a query is read in the same, unless --precision says another.
    """
    from regard.runs.index import search as look

    for hit in look(corpus, query, model, best, cut, ProgressMeter(), precision):
        print(json.dumps(vars(hit), ensure_ascii=False) if as_json else f"{hit.cosine:.3f}  {hit.line}: {hit.text}")
