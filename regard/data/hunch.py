"""Hunches about pictures and conversations: which files or columns hold them, and where pictures lie."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from regard.data.gallery import PictureIndex
from regard.data.illustration import NUMBER
from regard.data.log import Unusable
from regard.data.picture import FILES
from regard.data.reader import Key, guess_kind
from regard.data.sample import Form, FormSpec
from regard.data.source import list_archive, list_folder
from regard.data.transcription import find_columns

MOSTLY = 0.8  # of the cells that must agree
WORDS = 3  # of a caption, on average; fewer are a label
# the form that is meant where a column is told
TOLD: dict[str, Form] = {
    **{"texts": "captions", "picture": "images", "source": "pairs", "target": "pairs", "label": "labels"},
    **{"words": "tags", "tags": "tags"},
    **{"chosen": "preferences", "rejected": "preferences", "messages": "conversations", "answer": "conversations"},
    "prompt": "prompts",
}


def has_pictures(form: Form) -> bool:
    """Whether samples of a form hold pictures."""
    return bool(FormSpec.parse(form).list_pictures())


def find_split_folders(paths: Sequence[str], name_split: Callable[[str], str]) -> list[str]:
    """The folders of a data set of pictures, one for each split: `photos/train`, `photos/val`."""
    if len(paths) != 1 or not Path(paths[0]).is_dir():
        return []
    inside = sorted(path for path in Path(paths[0]).iterdir() if path.is_dir() and not path.name.startswith("."))
    told = {name_split(path.name) for path in inside}
    pictures = "train" in told and "" not in told and tell_pictures(list_folder(Path(paths[0]))) == "folders"
    return [str(path) for path in inside] if pictures else []


def tell_pictures(names: Sequence[str]) -> str | None:
    """The reader of pictures that the files of a folder or an archive are for; None where most of them aren't."""
    kinds = Counter(guess_kind(name, inside=True) for name in names)
    told = len(names) - kinds[None]  # a file that no reader knows may lie beside them
    return next((kind for kind in ("folders", "cifar", "idx") if 2 * kinds[kind] > told), None)


def look_inside(path: str) -> str | None:
    """The reader of pictures that an archive is for."""
    names = list_archive(path) if Path(path).is_file() else None
    return None if names is None else tell_pictures(names)


def find_gallery(table: str, first: str) -> str | None:
    """The archive beside a table that has its first picture; None where a folder has it, or nothing."""
    folder = Path(table).parent
    if _has(list_folder(folder), first):
        return None
    archives = sorted(str(archive) for archive in folder.glob("*.zip"))
    return next((archive for archive in archives if _has(list_archive(archive) or (), first)), None)


def _has(names: Sequence[str], told: str) -> bool:
    try:
        return bool(PictureIndex(name for name in names if name.lower().endswith(FILES)).find(told))
    except Unusable:
        return False


def names_pictures(values: Sequence[Any]) -> bool:
    """Whether a column holds the names of pictures."""
    named = sum(isinstance(value, str) and NUMBER.sub("", value).lower().endswith(FILES) for value in values)
    return bool(values) and named >= MOSTLY * len(values)


def holds_captions(values: Sequence[Any]) -> bool:
    """Whether a column holds captions, or lists of them."""
    texts = [str(text) for value in values for text in (value if isinstance(value, list) else [value])]
    return bool(texts) and not names_pictures(texts) and sum(len(text.split()) for text in texts) >= WORDS * len(texts)


def guess_pictures(
    form: Form, columns: Sequence[tuple[Key, Sequence[Any]]], is_label: Callable[[Sequence[Any]], bool]
) -> dict[str, Key]:
    """Which column names pictures, and which says their labels or captions; nothing where there are no such."""
    wanted = {"captions": ("texts", holds_captions), "images": ("label", is_label)}.get(form)
    pictures = [key for key, values in columns if names_pictures(values)]
    if wanted is None or not pictures:
        return {"picture": pictures[0]} if pictures else {}
    others = [key for key, values in columns if wanted[1](values)]
    return {"picture": pictures[0], wanted[0]: others[-1]} if others else {}


def guess_speech(form: Form | None, columns: Mapping[Key, Sequence[Any]], asked: AbstractSet[str]) -> Form | None:
    """The form of a table with what somebody said; None where it has no such columns.

    `form`: the one that is wanted, if that is known; `asked`: the columns that are told.
    """
    if form is not None:
        return form if FormSpec.parse(form).parts else None
    if asked:
        told = next((TOLD[name] for name in TOLD if name in asked), None)
        return told if told and FormSpec.parse(told).parts else None
    names = [key for key in columns if isinstance(key, str)]
    if find_columns("preferences", names, {}):
        return "preferences"
    messages = find_columns("conversations", names, {}).get("messages")
    if messages is not None and any(isinstance(value, list) for value in columns.get(messages, ())):
        return "conversations"
    return "prompts" if names == ["prompt"] else None
