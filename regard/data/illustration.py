"""Tables of pictures: a row names a file and says its label or a caption, and the files lie somewhere else.

A picture that has several captions is one sample with several texts, whose rows follow each other. A folder or a zip is
asked for each picture as its row comes. A tar is a stream, so there the rows wait for their pictures: the text of the
table and the names of the files are held in memory, never the pictures.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from regard.data.canvas import Picture
from regard.data.gallery import FileGallery, Leaf, PictureIndex, Shelf, TarGallery, open_gallery
from regard.data.log import Log, Unusable
from regard.data.picture import (
    FILES,
    Decoded,
    convert_image,
    is_image,
    keep_picture,
    shape_list,
    shape_picture,
    take_picture,
)
from regard.data.sample import Form, Sample

NUMBER = re.compile(r"#\d+$")  # behind a name, where each caption of a picture has one: Flickr8k's own file


@runtime_checkable
class HasPixels(Protocol):
    """An array of NumPy, or what can be made one."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...


@dataclass
class Illustration:
    """What puts pictures in the place of their names; `where`: they lie there, or names are paths of their own."""

    form: Form
    where: str | None
    log: Log
    most: int
    thorough: bool = False  # whether a picture that no row names is worth a word

    def __call__(self, rows: Iterator[Sample]) -> Iterator[Sample]:
        """Samples with pictures, from rows with names; each row was counted as kept."""
        if self.form == "captions":
            rows = self._merge(rows)
        with ExitStack() as stack:
            if self.where is None:
                yield from self._look_up(rows, None)
            else:
                gallery = stack.enter_context(open_gallery(self.where))
                if isinstance(gallery, TarGallery):
                    yield from self._follow(rows, gallery)
                else:
                    yield from self._look_up(rows, gallery)  # type: ignore[arg-type]

    def _merge(self, rows: Iterator[Sample]) -> Iterator[Sample]:
        """Rows of one picture that follow each other, as one."""
        held: Sample | None = None
        seen = set[int]()
        for row in rows:
            cell = row["picture"]
            name = NUMBER.sub("", cell) if isinstance(cell, str) else None
            if held is not None and name is not None and held["picture"] == name:
                held["texts"] = [*held["texts"], *row["texts"]]
                self.log.kept -= 1
                continue
            if held is not None:
                yield held
            held = row if name is None else {**row, "picture": name}
            if name is not None and hash(name) in seen:
                self.log.remark(row["place"], f"rows of one picture apart: {name}, so it is two samples; sort the rows")
            seen.add(hash(name))
        if held is not None:
            yield held

    def _look_up(self, rows: Iterator[Sample], shelf: Shelf | None) -> Iterator[Sample]:
        """The pictures in the order of the rows."""
        names = [name for name in shelf.names if name.lower().endswith(FILES)] if shelf is not None else []
        index, used = PictureIndex(names), set[str]()

        def find(name: str) -> Leaf:
            if shelf is None:
                return FileGallery([]).pick(name)
            used.add(found := index.find(name))
            return shelf.pick(found)

        for row in rows:
            picture = self._take(row, find)
            if picture is not None:
                yield {**row, "picture": picture}
        if shelf is not None and self.thorough:
            for name in names:
                if name not in used:
                    self.log.remark(shelf.pick(name).place, self._name_lack())

    def _take(self, row: Sample, find: Callable[[str], Leaf]) -> Picture | None:
        """A row's picture, from its cell itself or from the file that the cell names."""
        self.log.kept -= 1  # it is counted again if there is a picture
        cell = row["picture"]
        if isinstance(cell, Mapping):  # as data sets of Hugging Face have it
            cell = cell["bytes"] if isinstance(cell.get("bytes"), bytes) else cell.get("path")
        try:
            if isinstance(cell, bytes):
                content = cell
                return take_picture(Leaf("", row["place"], lambda: content), self.log, self.most)
            if is_image(cell):
                return keep_picture(convert_image(cell, self.most), row["place"], self.log)
            if isinstance(cell, list):
                return keep_picture(Decoded(shape_list(cell, self.most)), row["place"], self.log)
            if isinstance(cell, HasPixels):
                return keep_picture(Decoded(shape_picture(np.asarray(cell), self.most)), row["place"], self.log)
            if not isinstance(cell, str):
                raise Unusable(f"no picture: {type(cell).__name__}")
            return take_picture(find(cell), self.log, self.most)
        except Unusable as unusable:
            self.log.skip(row["place"], unusable.message)
        except (ValueError, OverflowError, TypeError) as error:
            self.log.skip(row["place"], f"not a picture: {error}")
        return None

    def _follow(self, rows: Iterator[Sample], gallery: TarGallery) -> Iterator[Sample]:
        """The pictures in the order of an archive that can only be read from its beginning to its end."""
        waiting = dict[str, list[Sample]]()
        for row in rows:
            if isinstance(row["picture"], str):
                waiting.setdefault(NUMBER.sub("", row["picture"]), []).append(row)
            elif (picture := self._take(row, FileGallery([]).pick)) is not None:
                yield {**row, "picture": picture}
        wanted = self._match(waiting, gallery)
        for leaf in gallery.walk(self.log):
            found = wanted.pop(leaf.name, None)
            if found is None:
                if self.thorough and leaf.name.lower().endswith(FILES):
                    self.log.remark(leaf.place, self._name_lack())
                continue
            self.log.kept -= len(found)
            picture = take_picture(leaf, self.log, self.most)
            if picture is not None:
                self.log.kept += len(found) - 1
                yield from ({**row, "picture": picture} for row in found)
        for name, left in wanted.items():  # behind what can't be read
            self._leave_out(left, f"no picture: {name}")

    def _match(self, waiting: Mapping[str, list[Sample]], gallery: TarGallery) -> dict[str, list[Sample]]:
        """The rows that wait for each file of an archive; those that no file is for, or more than one, are left out."""
        # all names are looked at before any picture is taken: a second one that fits may come last
        names = (leaf.name for leaf in gallery.walk(Log()))  # damage is told of when pictures are taken
        index = PictureIndex(dict.fromkeys(name for name in names if name.lower().endswith(FILES)))
        wanted = dict[str, list[Sample]]()
        for name, rows in waiting.items():
            try:
                wanted.setdefault(index.find(name), []).extend(rows)
            except Unusable as unusable:
                self._leave_out(rows, unusable.message)
        return wanted

    def _leave_out(self, rows: list[Sample], reason: str) -> None:
        for row in rows:
            self.log.kept -= 1
            self.log.skip(row["place"], reason)

    def _name_lack(self) -> str:
        return "a picture without a caption" if self.form == "captions" else "a picture without a row"
