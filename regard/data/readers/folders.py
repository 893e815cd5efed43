"""Pictures in folders, one for each class: on disk, in a zip, or in a tar as it was packed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import PurePosixPath
from typing import ClassVar, Literal

from regard.data.gallery import Leaf, open_gallery
from regard.data.log import Log
from regard.data.picture import FILES, MOST, STRANGE, Pixels, take_picture
from regard.data.reader import Key, ReaderSpec, add_group
from regard.data.sample import Form, Sample
from regard.data.source import Paths, expand_paths

AHEAD = 100  # files that are looked at before anything is said of them


class Folders(ReaderSpec):
    """Pictures whose label is the name of the folder that they lie in; PNG, JPEG, WebP, and .npy for maps."""

    gives: ClassVar[tuple[Form, ...]] = ("images", "pictures")
    inside: ClassVar[tuple[str, ...]] = (*FILES, ".tar", ".tgz")
    # an array is that of the reader `numpy`, unless it lies in a folder
    suffixes: ClassVar[tuple[str, ...]] = tuple(end for end in inside if end != ".npy")
    kind: Literal["folders"] = "folders"
    path: Paths
    """A folder, a zip or tar archive, packed or not, a part of one (a.zip:train), a glob, or a list of these."""
    pixels: Pixels = MOST

    def guess_form(self) -> Form:
        """Images, if one of the first pictures lies in a folder of its own."""
        for path in expand_paths(self.path):
            with open_gallery(path) as gallery:
                found = (leaf for leaf in islice(gallery.walk(Log()), AHEAD) if leaf.name.lower().endswith(FILES))
                if any(PurePosixPath(leaf.name).parent.name for leaf in found):
                    return "images"
        return "pictures"

    def samples(self, log: Log) -> Iterator[Sample]:
        return self.read("images", log)

    def read(self, form: Form, log: Log, by: Key | None = None) -> Iterator[Sample]:
        return add_group(self._read(form, log), form, by, self.kind)

    def _read(self, form: Form, log: Log) -> Iterator[Sample]:
        for path in expand_paths(self.path):
            with open_gallery(path) as gallery:
                for leaf in gallery.walk(log):
                    if sample := self._make(leaf, form, log):
                        yield sample

    def _make(self, leaf: Leaf, form: Form, log: Log) -> Sample | None:
        """A file as a sample; None where it is none, and the log says why unless it isn't meant to be one."""
        name = leaf.name.lower()
        if not name.endswith(FILES):
            if name.endswith(STRANGE):
                log.skip(leaf.place, f"not a picture: {PurePosixPath(name).suffix}, and PNG, JPEG and WebP are read")
            return None
        label = PurePosixPath(leaf.name).parent.name
        if form == "images" and not label:
            log.skip(leaf.place, "no label: it lies in no folder of a class")
            return None
        picture = take_picture(leaf, log, self.pixels)
        if picture is None:
            return None
        return {"picture": picture, **({"label": label} if form == "images" else {}), "place": leaf.place}
