"""CIFAR's binary batches: a label, or two in CIFAR-100, and 3,072 bytes of a picture, again and again (Krizhevsky)."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, ClassVar, Literal

import numpy as np

from regard.data.gallery import open_gallery
from regard.data.log import Log, Unusable
from regard.data.packing import DamagedFile, strip_packing
from regard.data.reader import Key, ReaderSpec, add_group
from regard.data.sample import Form, Sample
from regard.data.source import Paths, expand_paths, open_bytes, split_member

SIDE, COLOURS = 32, 3
BYTES = SIDE * SIDE * COLOURS
TRAIN = re.compile(r"data_batch_\d+\.bin|train\.bin")  # what is trained on, in a folder or an archive of all
TEN = re.compile(r"(data|test)_batch.*")  # what CIFAR-10's files are called
NAMES = {10: "batches.meta.txt", 100: "fine_label_names.txt", 20: "coarse_label_names.txt"}


class CIFAR(ReaderSpec):
    """CIFAR-10's and CIFAR-100's batches as bytes; from a folder or an archive, those that are trained on."""

    gives: ClassVar[tuple[Form, ...]] = ("images", "pictures")
    suffixes: ClassVar[tuple[str, ...]] = tuple(f"_batch{end}.bin" for end in ("", *(f"_{n}" for n in range(1, 6))))
    kind: Literal["cifar"] = "cifar"
    path: Paths
    """Files of batches, a folder or an archive of them (cifar-10-binary.tar.gz), a member (a.tar.gz:test.bin)."""
    classes: Literal[10, 20, 100] | None = None
    """CIFAR-10 has 10; of CIFAR-100 it is the coarse label (20) or the fine one (100). Unless given, names tell."""

    def samples(self, log: Log) -> Iterator[Sample]:
        return self.read("images", log)

    def read(self, form: Form, log: Log, by: Key | None = None) -> Iterator[Sample]:
        found = (sample for path in expand_paths(self.path) for sample in self._read(path, log))
        if form == "pictures":
            found = ({name: sample[name] for name in ("picture", "place")} for sample in found)
        return add_group(found, form, by, self.kind)

    def _read(self, path: str, log: Log) -> Iterator[Sample]:
        archive, member = split_member(path)
        names = read_names(Path(archive))
        if not member and strip_packing(path).endswith(".bin") and Path(path).is_file():
            with open_bytes(path) as stream:
                yield from self._cut(stream, path, Path(strip_packing(path)).name, names, log)
            return
        names |= find_names(archive, log)
        with open_gallery(archive) as gallery:
            for leaf in gallery.walk(log):
                name = PurePosixPath(leaf.name).name
                if leaf.name == member if member else TRAIN.fullmatch(name):
                    try:
                        content = leaf.read()
                    except Unusable as unusable:
                        log.skip(leaf.place, unusable.message)
                        continue
                    yield from self._cut(io.BytesIO(content), leaf.place, name, names, log)

    def _cut(self, stream: IO[bytes], path: str, name: str, names: dict[int, list[str]], log: Log) -> Iterator[Sample]:
        """The pictures of one batch."""
        classes = self.classes or (10 if TEN.fullmatch(name) else 100)
        before, known = (1, names.get(10)) if classes == 10 else (2, names.get(classes))
        number = 0
        while True:
            number, place = number + 1, f"{path}:{number + 1}"
            try:
                record = stream.read(before + BYTES)
            except DamagedFile as error:
                log.skip(place, str(error))
                return
            if len(record) < before + BYTES:
                if record:
                    log.skip(place, f"cut short: {len(record):,} of {before + BYTES:,} bytes")
                return
            label = record[1] if classes == 100 else record[0]
            if label >= classes:
                log.skip(place, f"unknown label: {label}, and there are {classes} classes")
                continue
            log.keep()
            picture = np.frombuffer(record, np.uint8, offset=before).reshape(COLOURS, SIDE, SIDE).transpose(1, 2, 0)
            told = str(label) if known is None or label >= len(known) else known[label]
            yield {"picture": np.ascontiguousarray(picture), "label": told, "place": place}


def read_names(beside: Path) -> dict[int, list[str]]:
    """The names of classes that stand beside batches, by how many there are."""
    folder = beside if beside.is_dir() else beside.parent
    found = dict[int, list[str]]()
    for name in NAMES.values():
        if (folder / name).is_file():
            found |= parse_names(name, (folder / name).read_bytes())
    return found


def find_names(archive: str, log: Log) -> dict[int, list[str]]:
    """The names of classes that lie among batches; all are wanted before the first batch, wherever they stand."""
    found = dict[int, list[str]]()
    with open_gallery(archive) as gallery:
        for leaf in gallery.walk(Log()):  # a damaged archive is told of when its batches are read
            if (name := PurePosixPath(leaf.name).name) in NAMES.values():
                try:
                    found |= parse_names(name, leaf.read())
                except Unusable as unusable:
                    log.reject(leaf.place, unusable.message)
    return found


def parse_names(name: str, content: bytes) -> dict[int, list[str]]:
    """The names of classes, one a line."""
    count = next(count for count, known in NAMES.items() if known == name)
    listed = [line.strip() for line in content.decode("utf-8", "replace").splitlines() if line.strip()]
    return {count: listed} if len(listed) == count else {}
