"""What a user hands in from Python: texts and pictures to answer, and rows to train on.

One text is a string, several are a list of them. A string is a sequence of strings too, letter by letter, so the wrong
one of the two would be answered without a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from pathlib import Path
from typing import Any

import numpy as np

from regard.core.hint import suggest
from regard.core.spec import show_value
from regard.data.canvas import Picture
from regard.data.lines import HALVES
from regard.data.log import Unusable
from regard.data.picture import read_picture, shape_picture
from regard.errors import InputError

GivenPicture = str | Path | bytes | Picture  # a file by its path or its bytes, or an array
PARTS = ("train", "validation", "test")


def check_text(text: Any, several: str) -> None:
    """Insist on one text that a tokenizer can take; `several`: what to call with many."""
    if not isinstance(text, str):
        raise InputError(f"a text is a string, and {show_value(text)} is of type {type(text).__name__}", several)
    if HALVES.search(text):
        raise InputError("the text isn't UTF-8: it has bytes that are no characters", "iconv -f latin1 -t utf-8")


def list_texts(given: str | Sequence[str]) -> Sequence[str]:
    """One text or several as several, once it is sure that they are texts."""
    texts = [given] if isinstance(given, str) else given
    check_texts(texts, "a string, or a list of strings")
    return texts


def check_texts(texts: Any, one: str) -> None:
    """Insist on several texts; `one`: what to call with one of them."""
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        kind = type(texts).__name__
        raise InputError(f"several texts are a list of strings, and {show_value(texts)} is of type {kind}", one)
    for text in texts:
        check_text(text, "a list of strings")


def list_pictures(given: GivenPicture | Sequence[GivenPicture]) -> tuple[list[GivenPicture], bool]:
    """What was handed in as a list, and whether it was one thing alone."""
    one = isinstance(given, str | Path | bytes | np.ndarray) or not isinstance(given, Iterable)
    return ([given], True) if one else (list(given), False)  # type: ignore[list-item, arg-type]


def open_picture(given: GivenPicture) -> Picture:
    """The picture that a user hands in; an error names it and says what is wrong."""
    if not isinstance(given, str | Path | bytes | np.ndarray):
        wanted = "a path, a file's bytes, or an array (height, width, channels)"
        raise InputError(f"a picture is {wanted}, and this is a {type(given).__name__}", "numpy.asarray(picture)")
    try:
        return shape_picture(given) if isinstance(given, np.ndarray) else read_picture(given)
    except Unusable as error:
        raise InputError(f"{name_picture(given)}{error.message}", error.hint) from None


def name_picture(given: GivenPicture) -> str:
    """How an error begins: by the file, if there is one."""
    return f"{given}: " if isinstance(given, str | Path) else ""


def hand_in(tree: Mapping[str, Any], data: Any) -> dict[str, Any]:
    """A tree of settings whose corpus is rows from Python: those to train on, or a mapping with some for each split.

    Rows may be a dict of columns; files will do too, by their paths. What the tree says of the corpus beside its files
    stays: which columns are what, and what is kept back.
    """
    parts = dict(data) if isinstance(data, Mapping) and data and not _is_columns(data) else {"train": data}
    if strange := next((name for name in parts if name not in PARTS), None):
        raise InputError(f"data: no split is called {strange!r}{suggest(strange, PARTS)}", 'data={"train": ROWS}')
    corpus = tree.get("corpus")
    own = dict(corpus) if isinstance(corpus, Mapping) and corpus.get("kind", "files") == "files" else {}
    for split, given in parts.items():
        told: Mapping[str, Any] = next(
            (own[name] for name in (split, "train") if isinstance(own.get(name), Mapping)), {}
        )
        columns = {name: value for name, value in told.items() if name not in ("kind", "path", "rows")}
        own[split] = {**columns, **_place(given, "data" in tree)}
    return {**tree, "corpus": {**own, "kind": "files"}}


def _place(given: Any, elsewhere: bool) -> dict[str, Any]:
    """The settings of a reader of paths or rows; `elsewhere`: files of the run are looked for in another folder."""
    if isinstance(given, Sized) and not len(given):
        raise InputError("data: there are no rows", 'data=[{"text": "…", "label": "…"}, …], or data="FILE"')
    if isinstance(given, str | Path):
        return {"path": _find(given, elsewhere)}
    if isinstance(given, list | tuple) and all(isinstance(one, str | Path) for one in given):
        return {"path": [_find(one, elsewhere) for one in given]}
    return {"kind": "rows", "rows": _turn(given) if isinstance(given, Mapping) and _is_columns(given) else given}


def _find(path: str | Path, elsewhere: bool) -> str:
    """A path as a run file has it; who gives one in Python means the folder where Python is."""
    return str(Path(path).absolute() if elsewhere and Path(path).exists() else path)


def _is_columns(data: Mapping[str, Any]) -> bool:
    """Whether this is a dict of columns: none is a split, and lists of cells are in it, not rows."""
    listed = all(isinstance(column, list | tuple | np.ndarray) for column in data.values())
    cells = (column[0] for column in data.values() if listed and len(column))
    return listed and not any(name in PARTS for name in data) and not any(isinstance(cell, Mapping) for cell in cells)


def _turn(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Columns as rows."""
    if len({len(column) for column in columns.values()}) > 1:
        sizes = ", ".join(f"{name} {len(column):,}" for name, column in columns.items())
        raise InputError(f"data: the columns aren't equally long: {sizes}", "a cell of each for every row")
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    if not rows:
        raise InputError("data: there are no rows", "a cell of each column for every row")
    return rows
