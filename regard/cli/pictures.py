"""Where pictures come from: files, folders with all below them, and archives, which are never unpacked on disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from regard.cli.texts import GivenText
from regard.core.hint import suggest
from regard.errors import RegardError, SpecError

if TYPE_CHECKING:
    from regard.data.picture import Fit

FIT = Annotated[
    str | None,
    typer.Option(metavar="HOW", help="Pictures of another size: resize, crop or pad. [as it was trained]"),
]
WINDOW = 64  # pictures that are read and answered together


@dataclass(frozen=True)
class PictureFile(GivenText):
    """A picture's file: where it stands, and its bytes; its text is its name."""

    content: bytes = b""


@dataclass
class PictureSource:
    """The pictures that a user named."""

    paths: Sequence[str]
    noun: str = "pictures"
    filed: bool = True
    live: bool = False

    def __iter__(self) -> Iterator[PictureFile]:
        return find_pictures(self.paths)

    @property
    def alone(self) -> bool:
        return len(self.paths) == 1 and _is_single(self.paths[0])

    def count(self) -> int | None:
        return len(self.paths) if all(map(_is_single, self.paths)) else None


def choose_pictures(paths: Sequence[str] | None, files: Sequence[Path] | None = None) -> PictureSource:
    """What a user means by the words of the command line."""
    if files:
        raise SpecError(f"--file {files[0]}: is for lines of text, and pictures are expected here", str(files[0]))
    if not paths:
        raise SpecError("which pictures?", "picture.png, a folder, or an archive of pictures")
    return PictureSource(paths)


def find_pictures(paths: Sequence[str]) -> Iterator[PictureFile]:
    """All pictures that are meant, one after the other; what can't be read has its fault and loses no other.

    A file that is named is taken for a picture, whatever its name; in folders and archives only those are whose names
    say so, and those of formats that aren't read are told. `a.zip:b.png` is a member of an archive, and `a.zip:b` a
    folder in it.
    """
    for path in paths:
        try:
            yield from _find(path)
        except RegardError as error:
            yield PictureFile(path, path, error.message.removeprefix(f"{path}: "))


def _find(path: str) -> Iterator[PictureFile]:
    from regard.data.gallery import FileGallery, open_gallery
    from regard.data.log import Log
    from regard.data.picture import FILES, STRANGE
    from regard.data.source import split_member

    archive, member = split_member(path)
    one = member.lower().endswith(FILES)
    log, count = Log("skip"), 0
    with open_gallery(archive if one else path) as gallery:
        plain = isinstance(gallery, FileGallery)
        for leaf in gallery.walk(log):
            if plain or (leaf.name == member if one else leaf.name.lower().endswith((*FILES, *STRANGE))):
                count += 1
                try:
                    yield PictureFile(leaf.place, leaf.place, content=leaf.read())
                except RegardError as error:
                    yield PictureFile(leaf.place, leaf.place, error.message)
    for reason, fault in log.faults.get(log.split, {}).items():
        yield PictureFile(fault.places[0], fault.places[0], f"{reason}; nothing behind it can be read")
    if not count and not log.faults:
        endings = ", ".join(FILES)
        yield PictureFile(path, path, f"there is no such picture in {archive}" if one else f"no {endings} in it")


def _is_single(path: str) -> bool:
    """Whether a path is that of one picture, be it there or not."""
    from regard.data.gallery import tell_archive

    return not Path(path).is_dir() and not (Path(path).is_file() and tell_archive(path))


def choose_fit(word: str | None) -> Fit | None:
    """How pictures come to a model's size, by its name."""
    from regard.data.picture import Fit

    known = get_args(Fit)
    if word is not None and word not in known:
        raise SpecError(f"--fit {word}: no way to fit a picture{suggest(word, known)}")
    return cast("Fit | None", word)
