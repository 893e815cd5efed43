"""Searching a corpus by meaning: its lines as vectors, and those that are nearest to a query's.

An index is a folder: the lines, their vectors, and which model made them, in which precision. `regard embed RUN --file
FILE --index FOLDER` writes one; a plain file of lines will do too, and is embedded on the way.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.core.product import PRECISIONS
from regard.data.lines import texts
from regard.errors import CheckpointError, InputError, warn
from regard.host.meter import SILENT, Meter
from regard.host.output import check_place, put
from regard.runs.load import insist_on_kind, load_as, load_bundle
from regard.runs.resolve import split_noun
from regard.tasks.embedding import Embedder, EmbeddingTaskSpec
from regard.tasks.vector import DOCUMENT, QUERY, unit

ABOUT, LINES, VECTORS = "index.json", "lines.jsonl", "vectors.npy"
WINDOW = 512  # lines that are read together
WANTS = "only an encoder, or what learned to embed, makes vectors"


@dataclass
class Hit:
    """A line that was found."""

    rank: int
    cosine: float
    line: int  # its number in the corpus, from 1
    text: str


def embedder(noun: str, precision: str | None = None) -> Embedder:
    """What makes vectors. An encoder that learned to fill in serves too, and it is said that this isn't the same."""
    if noun.endswith(".npz"):
        return load_as(noun, Embedder, WANTS, precision)
    found = load_bundle(noun, precision=precision)
    if found.lexicon is None or found.purpose().kind != "masking":
        return insist_on_kind(found.pipeline(), noun, Embedder, WANTS)
    warn(f"{noun} learned to fill in, not to embed: a text's vector is the mean of its states")
    return insist_on_kind(found.pipeline(EmbeddingTaskSpec()), noun, Embedder, WANTS)


Numbered = tuple[int, str]  # a line and its number in its file


def documents(pipeline: Embedder, lines: list[Numbered], cut: bool, meter: Meter = SILENT) -> Tensor:
    """The vectors of lines that will be searched, each after the prompt that the model has for them."""
    pipeline.recipe.insist_on_cosines()
    with meter.watch("making vectors", len(lines)) as advance:
        pieces = []
        for first in range(0, len(lines), WINDOW):
            group = [line for _, line in lines[first : first + WINDOW]]
            pieces.append(pipeline.embed(group, prompt=pipeline.recipe.prompt(DOCUMENT), cut=cut))
            advance(len(group))
    return torch.cat(pieces)


def number_lines(lines: Iterable[str]) -> list[Numbered]:
    """The lines that aren't empty, with their numbers from 1."""
    return [(number, line) for number, line in enumerate(lines, 1) if line.strip()]


def write_index(
    noun: str, lines: Sequence[Numbered], vectors: Tensor, folder: Path, precision: str = "fp32"
) -> list[Path]:
    """Write lines, their vectors and the name of the model that made them to a folder, and what that was packed to."""
    check_index(folder)
    put(folder / VECTORS, array(vectors))
    put(folder / LINES, "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in lines).encode())
    name, which = split_noun(noun)
    model = str(Path(name).absolute()) + (f"@{which}" if which else "")
    put(folder / ABOUT, json.dumps({"model": model, "precision": precision}).encode())
    return [folder / name for name in (VECTORS, LINES, ABOUT)]


def check_index(folder: Path) -> None:
    """Insist that an index can be written there."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: is there already", "--index ANOTHER")
    check_place(folder)


def array(vectors: Tensor) -> bytes:
    """Vectors as the bytes of a NumPy file."""
    content = io.BytesIO()
    np.save(content, vectors.numpy(), allow_pickle=False)
    return content.getvalue()


def search(
    corpus: Path,
    query: str,
    model: str | None,
    best: int,
    cut: bool = False,
    meter: Meter = SILENT,
    precision: str | None = None,
) -> list[Hit]:
    """The lines of an index, or of a file, that are nearest to a query.

    `precision`: what the model's weights are packed to; unless given, what they were when the index was made.
    """
    if not query.strip():
        raise InputError("the query is empty")
    if corpus.is_dir():
        kept, lines, vectors = _read(corpus)
        pipeline = embedder(model or kept["model"], precision or kept["precision"])
    else:
        if model is None:
            raise InputError(f"{corpus}: a file of lines needs a model that makes vectors of them", "--model RUN")
        pipeline = embedder(model, precision)
        lines = number_lines(texts([str(corpus)]))
        if not lines:
            raise InputError(f"{corpus}: there is nothing in it")
        vectors = documents(pipeline, lines, cut, meter)
    pipeline.recipe.insist_on_cosines()
    wanted = pipeline.embed([query], prompt=pipeline.recipe.prompt(QUERY), cut=cut)[0]
    if wanted.shape[0] != vectors.shape[1]:
        sizes = f"{vectors.shape[1]} numbers a line, and this model makes {wanted.shape[0]}"
        raise InputError(f"{corpus}: its vectors have {sizes}", "the model that made the index")
    cosines = unit(vectors) @ unit(wanted)
    top = cosines.topk(min(best, len(lines)))
    found = zip(top.values.tolist(), top.indices.tolist(), strict=True)
    return [Hit(rank, cosine, *lines[place]) for rank, (cosine, place) in enumerate(found, 1)]


def _read(folder: Path) -> tuple[dict[str, Any], list[Numbered], Tensor]:
    try:
        about = {"precision": None, **json.loads((folder / ABOUT).read_bytes())}  # earlier versions say none
        entries = [json.loads(line) for line in (folder / LINES).read_text(encoding="utf-8").split("\n") if line]
        lines = [(int(number), str(text)) for number, text in entries]
        vectors = np.load(folder / VECTORS, allow_pickle=False)
        whole = (
            isinstance(about["model"], str)
            and about["precision"] in (None, *PRECISIONS)
            and vectors.ndim == 2
            and len(vectors) == len(lines) > 0
        )
        whole = whole and vectors.dtype == np.float32 and bool(np.isfinite(vectors).all())
    except FileNotFoundError as error:
        raise CheckpointError(
            f"{folder}: not an index, {error.filename} is missing", "regard embed RUN --file FILE --index"
        ) from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        whole = False
    if not whole:
        raise CheckpointError(
            f"{folder}: damaged, its files don't make an index", "regard embed RUN --file FILE --index ANOTHER"
        )
    return about, lines, torch.from_numpy(vectors)
