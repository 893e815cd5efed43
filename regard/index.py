"""Searching a corpus by meaning: its lines as vectors, and those that are nearest to a query's.

An index is a folder: the lines, their vectors, and which model made them. `regard embed RUN FILE --index FOLDER` writes
one; a plain file of lines will do too, and is embedded on the way.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.errors import CheckpointError, InputError
from regard.noun import asked
from regard.tasks.embedding import Embedder
from regard.train.checkpoint import write
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
    return asked(noun, Embedder, WANTS)


def index(noun: str, lines: Sequence[str], folder: Path) -> list[Path]:
    """Write lines and their vectors to a folder."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: is there already", "--index ANOTHER")
    vectors = embedder(noun).embed(lines)
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / VECTORS, vectors.numpy(), allow_pickle=False)
    write(folder / LINES, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode())
    write(folder / ABOUT, json.dumps({"model": str(Path(noun).absolute()) if Path(noun).exists() else noun}).encode())
    return [folder / name for name in (VECTORS, LINES, ABOUT)]


def search(corpus: Path, query: str, model: str | None, best: int) -> list[Hit]:
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
        lines = [line for line in texts([corpus]) if line.strip()]
        if not lines:
            raise InputError(f"{corpus}: there is nothing in it")
        vectors = speaker.embed(lines)
    wanted = speaker.embed([query])[0]
    if wanted.shape[0] != vectors.shape[1]:
        sizes = f"{vectors.shape[1]} numbers a line, and this model makes {wanted.shape[0]}"
        raise InputError(f"{corpus}: its vectors have {sizes}", "the model that made the index")
    cosines = vectors @ wanted
    top = cosines.topk(min(best, len(lines)))
    found = zip(top.values.tolist(), top.indices.tolist(), strict=True)
    return [Hit(rank, cosine, place + 1, lines[place]) for rank, (cosine, place) in enumerate(found, 1)]


def _read(folder: Path) -> tuple[str, list[str], Tensor]:
    try:
        noun = json.loads((folder / ABOUT).read_bytes())["model"]
        lines = [json.loads(line) for line in (folder / LINES).read_text().splitlines()]
        vectors = np.load(folder / VECTORS, allow_pickle=False)
        whole = isinstance(noun, str) and all(isinstance(line, str) for line in lines)
        whole = whole and vectors.ndim == 2 and len(vectors) == len(lines) > 0 and vectors.dtype == np.float32
        whole = whole and bool(np.isfinite(vectors).all())
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
