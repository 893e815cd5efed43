"""Searching a corpus by meaning: its lines as vectors, and those that are nearest to a query's.

An index is a folder: the lines, their vectors, and which model made them. `regard embed RUN FILE --index FOLDER` writes
one; a plain file of lines will do too, and is embedded on the way.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.errors import CheckpointError, InputError
from regard.noun import asked, fitting, parts, split
from regard.output import check_place, put
from regard.tasks.embedding import Embedder, Embedding
from regard.tasks.vector import DOCUMENT, QUERY, unit
from regard.translate import texts

ABOUT, LINES, VECTORS = "index.json", "lines.jsonl", "vectors.npy"
WANTS = "only an encoder, or what learned to embed, makes vectors"


@dataclass
class Hit:
    """A line that was found."""

    rank: int
    cosine: float
    line: int  # its number in the corpus, from 1
    text: str


def embedder(noun: str) -> Embedder:
    """What makes vectors. An encoder that learned to fill in serves too, and it is said that this isn't the same."""
    if noun.endswith(".npz"):
        return asked(noun, Embedder, WANTS)
    found = parts(noun)
    if found.lexicon is None or found.purpose().kind != "masking":
        return fitting(found if found.lexicon is None else found.speaker(noun), noun, Embedder, WANTS)
    print(
        f"regard: {noun} learned to fill in, not to embed: a text's vector is the mean of its states", file=sys.stderr
    )
    return fitting(found.speaker(noun, Embedding()), noun, Embedder, WANTS)


Numbered = tuple[int, str]  # a line and its number in its file


def documents(speaker: Embedder, lines: list[Numbered], cut: bool, prompt: str | None = None) -> Tensor:
    """The vectors of lines that will be searched, each after this prompt, or the one that the model has for them."""
    speaker.recipe.insist_on_cosines()
    chosen = speaker.recipe.prompt(DOCUMENT) if prompt is None else prompt
    return speaker.embed([line for _, line in lines], prompt=chosen, cut=cut)


def numbered(lines: Iterable[str]) -> list[Numbered]:
    """The lines that aren't empty, with their numbers from 1."""
    return [(number, line) for number, line in enumerate(lines, 1) if line.strip()]


def index(noun: str, lines: Iterable[str], folder: Path, cut: bool = False, prompt: str | None = None) -> list[Path]:
    """Write lines and their vectors to a folder; `prompt`: the name of one that stands before each line."""
    check_index(folder)
    kept = numbered(lines)
    if not kept:
        raise InputError("there is nothing to index: no line has text in it")
    vectors = documents(embedder(noun), kept, cut, prompt)
    put(folder / VECTORS, array(vectors))
    put(folder / LINES, "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in kept).encode())
    name, which = split(noun)
    put(folder / ABOUT, json.dumps({"model": str(Path(name).absolute()) + (f"@{which}" if which else "")}).encode())
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


def search(corpus: Path, query: str, model: str | None, best: int, cut: bool = False) -> list[Hit]:
    """The lines of an index, or of a file, that are nearest to a query."""
    if not query.strip():
        raise InputError("the query is empty")
    if corpus.is_dir():
        noun, lines, vectors = _read(corpus)
        speaker = embedder(model or noun)
    else:
        if model is None:
            raise InputError(f"{corpus}: a file of lines needs a model that makes vectors of them", "--model RUN")
        speaker = embedder(model)
        lines = numbered(texts([corpus]))
        if not lines:
            raise InputError(f"{corpus}: there is nothing in it")
        vectors = documents(speaker, lines, cut)
    speaker.recipe.insist_on_cosines()
    wanted = speaker.embed([query], prompt=speaker.recipe.prompt(QUERY), cut=cut)[0]
    if wanted.shape[0] != vectors.shape[1]:
        sizes = f"{vectors.shape[1]} numbers a line, and this model makes {wanted.shape[0]}"
        raise InputError(f"{corpus}: its vectors have {sizes}", "the model that made the index")
    cosines = unit(vectors) @ unit(wanted)
    top = cosines.topk(min(best, len(lines)))
    found = zip(top.values.tolist(), top.indices.tolist(), strict=True)
    return [Hit(rank, cosine, *lines[place]) for rank, (cosine, place) in enumerate(found, 1)]


def _read(folder: Path) -> tuple[str, list[Numbered], Tensor]:
    try:
        noun = json.loads((folder / ABOUT).read_bytes())["model"]
        entries = [json.loads(line) for line in (folder / LINES).read_text(encoding="utf-8").split("\n") if line]
        lines = [(int(number), str(text)) for number, text in entries]
        vectors = np.load(folder / VECTORS, allow_pickle=False)
        whole = isinstance(noun, str) and vectors.ndim == 2 and len(vectors) == len(lines) > 0
        whole = whole and vectors.dtype == np.float32 and bool(np.isfinite(vectors).all())
    except FileNotFoundError as error:
        raise CheckpointError(
            f"{folder}: not an index, {error.filename} is missing", "regard embed RUN FILE --index"
        ) from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        whole = False
    if not whole:
        raise CheckpointError(
            f"{folder}: damaged, its files don't make an index", "regard embed RUN FILE --index ANOTHER"
        )
    return noun, lines, torch.from_numpy(vectors)
