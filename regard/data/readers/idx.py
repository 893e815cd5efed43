"""MNIST's own files: IDX, a header and bytes; one file of pictures and one of labels (LeCun et al. 1998)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from regard.core.spec import FileName
from regard.data.canvas import Picture
from regard.data.gallery import LARGEST
from regard.data.log import Log
from regard.data.packing import DamagedFile, strip_packing
from regard.data.picture import MOST, Pixels, show_size
from regard.data.reader import Key, ReaderSpec, add_group
from regard.data.sample import Form, Sample
from regard.data.source import Paths, expand_paths, list_folder, list_paths, open_bytes, place_in
from regard.errors import DataError, SpecError

BYTE = 8  # the code of unsigned bytes, the only type that pictures and labels have here
TYPES = {9: "int8", 11: "int16", 12: "int32", 13: "float32", 14: "float64"}


class IDX(ReaderSpec):
    """Pictures of one size in an IDX file, plain or packed, and their labels in another."""

    gives: ClassVar[tuple[Form, ...]] = ("images", "pictures")
    suffixes: ClassVar[tuple[str, ...]] = ("-ubyte", ".idx", ".idx3", "idx3-ubyte")
    kind: Literal["idx"] = "idx"
    path: Paths
    """A file of pictures, packed or not (gz, xz, bz2, zst), or a list; of a folder, those that are trained on."""
    labels: Paths | None = None
    """The file of the labels; unless given, the one that is called labels and idx1 where this is images and idx3."""
    classes: tuple[str, ...] = ()
    """Names of the labels, from 0 on; unless given, labels are their numbers."""
    pixels: Pixels = MOST

    def under(self, folder: Path) -> IDX:
        placed = super().under(folder)
        labels = None if self.labels is None else tuple(place_in(folder, path) for path in list_paths(self.labels))
        return placed.replace(labels=labels)

    def guess_form(self) -> Form:
        first = next(iter(find_images(self.path)), "")
        beside = name_labels(first) if first else Path()
        return "images" if self.labels is not None or (beside.is_file() and beside != Path(first)) else "pictures"

    def samples(self, log: Log) -> Iterator[Sample]:
        return self.read("images", log)

    def read(self, form: Form, log: Log, by: Key | None = None) -> Iterator[Sample]:
        return add_group(self._read(form, log), form, by, self.kind)

    def _read(self, form: Form, log: Log) -> Iterator[Sample]:
        paths = find_images(self.path)
        if form != "images":
            yield from (sample for path in paths for sample in self._read_alone(path, log))
            return
        labels = [guess_labels(path) for path in paths] if self.labels is None else list(list_paths(self.labels))
        if len(labels) != len(paths):
            raise SpecError(f"labels: {len(labels)} files for {len(paths)} of pictures", "a file of labels for each")
        for path, beside in zip(paths, labels, strict=True):
            yield from self._read_labelled(path, beside, log)

    def _read_alone(self, path: str, log: Log) -> Iterator[Sample]:
        for place, picture in self._pictures(path, log):
            log.keep()
            yield {"picture": picture, "place": place}

    def _read_labelled(self, path: str, beside: str, log: Log) -> Iterator[Sample]:
        """Pictures with the labels that have the same numbers; what is left over on a side is counted."""
        found = self._labels(beside, log)
        for place, picture in self._pictures(path, log):
            label = next(found, None)
            if label is None or not label[1]:
                log.skip(place, "no label")
                continue
            log.keep()
            yield {"picture": picture, "label": label[1], "place": place}
        for place, _ in found:
            log.skip(place, "no picture: a label without one")

    def _pictures(self, path: str, log: Log) -> Iterator[tuple[str, Picture]]:
        for place, item in read_items(path, log, (3, 4), self.pixels):
            yield place, item if item.ndim == 3 else item[:, :, None]

    def _labels(self, path: str, log: Log) -> Iterator[tuple[str, str]]:
        """The place and the name of every label; one that has no name is empty, and the log knows why."""
        for place, item in read_items(path, log, (1,)):
            number = int(item)
            if self.classes and number >= len(self.classes):
                log.reject(place, f"unknown label: {number}, and there are {len(self.classes)} classes")
                yield place, ""
            else:
                yield place, self.classes[number] if self.classes else str(number)


@dataclass(frozen=True)
class IDXHeader:
    """How many things an IDX file has, and the shape of each."""

    count: int
    shape: tuple[int, ...]


def read_items(path: str, log: Log, axes: tuple[int, ...], most: int = MOST) -> Iterator[tuple[str, Picture]]:
    """The things in an IDX file, one after the other; where it is cut short, the log says so."""
    with ExitStack() as stack:
        stream = stack.enter_context(open_bytes(path))
        place = f"{path}:1"
        try:
            header = read_header(stream.read(4), stream.read, path, axes)
            if math.prod(header.shape[:2]) > most or math.prod(header.shape) > LARGEST:
                told = f"pictures of {show_size(header.shape)}, and {most:,} pixels are the most"
                raise DataError(f"{path}: {told}", "pixels: …")
            size = math.prod(header.shape)
            for number in range(1, header.count + 1):
                place = f"{path}:{number}"
                content = stream.read(size)
                if len(content) < size:
                    log.skip(place, f"cut short: {number - 1:,} of {header.count:,} are there")
                    return
                yield place, np.frombuffer(bytearray(content), np.uint8).reshape(header.shape)
            if stream.read(1):
                log.remark(place, f"bytes behind the end: {header.count:,} were told, and more stand there")
        except DamagedFile as error:
            log.skip(place, str(error))


def read_header(magic: bytes, read: Callable[[int], bytes], path: str, axes: tuple[int, ...]) -> IDXHeader:
    """What an IDX file says of itself."""
    if len(magic) < 4 or magic[:2] != b"\0\0" or (magic[2] != BYTE and magic[2] not in TYPES):
        raise DataError(f"{path}: not IDX: it begins with {magic.hex(' ')}, and 00 00 08 is wanted", "check the path")
    if magic[2] != BYTE:
        raise DataError(f"{path}: its numbers are {TYPES[magic[2]]}, and bytes are wanted", "kind: numpy")
    if magic[3] not in axes:
        wanted = " or ".join(map(str, axes))
        hint = "path is the file of pictures, labels that of labels"
        raise DataError(f"{path}: {magic[3]} axes, and {wanted} are wanted", hint)
    sizes = read(4 * magic[3])
    if len(sizes) < 4 * magic[3]:
        raise DataError(f"{path}: cut short: it ends within its header", "check that the file is whole")
    count, *shape = (int(size) for size in np.frombuffer(sizes, ">u4"))
    if not all(shape):
        raise DataError(f"{path}: pictures of no size: {tuple(shape)}", "check that the file is whole")
    return IDXHeader(count, tuple(shape))


def _names_labels(path: str) -> bool:
    """Whether a file is called as labels are, beside the pictures that it belongs to."""
    return "labels" in Path(path).name and "idx1" in Path(path).name


def find_images(paths: Paths) -> list[str]:
    """The files of pictures among some; of a folder that has some for training, those alone."""
    found = list[str]()
    for path in expand_paths(paths):
        if Path(path).is_dir():
            names = [name for name in list_folder(Path(path)) if strip_packing(name).endswith(IDX.suffixes)]
            images = [name for name in names if not _names_labels(name)]
            chosen = [name for name in images if "train" in Path(name).name] or images
            found += [str(Path(path) / name) for name in chosen]
        elif not _names_labels(path):
            found.append(path)
    if not found:
        raise DataError(f"{', '.join(list_paths(paths))}: no IDX file of pictures", "path: train-images-idx3-ubyte.gz")
    return found


def name_labels(path: str) -> Path:
    """What the file of labels is called that belongs to one of pictures, whether there is one or not."""
    return Path(path).with_name(Path(path).name.replace("images", "labels").replace("idx3", "idx1"))


def guess_labels(path: str) -> FileName:
    """The file of labels that belongs to one of pictures, by its name."""
    beside = name_labels(path)
    if beside == Path(path) or not beside.is_file():
        raise DataError(f"{path}: which file has its labels?", "labels: train-labels-idx1-ubyte.gz")
    return str(beside)
