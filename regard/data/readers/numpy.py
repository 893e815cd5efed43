"""NumPy's files: pictures as an array of a `.npz` or a `.npy`, labels as another; read in pieces, never unpickled."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from regard.core.spec import Size
from regard.data.gallery import LARGEST
from regard.data.log import Log, Unusable
from regard.data.packing import DAMAGE, DamagedFile
from regard.data.picture import MOST, Pixels, shape_picture
from regard.data.reader import Key, ReaderSpec, add_group
from regard.data.sample import Form, Sample
from regard.data.source import Paths, expand_paths, open_bytes, place_in
from regard.errors import DataError, SpecError

IMAGES, LABELS = ("images", "x", "pictures", "data"), ("labels", "y", "label", "targets")  # usual names of arrays
SHOWN = 10  # arrays that a message lists
TURNED = 2**30  # bytes of an array that must be read whole
PIECE = 2**22  # bytes that are read at once, or one picture if that is more


class NumPy(ReaderSpec):
    """Arrays of NumPy: bytes are pictures, real numbers are maps of features. Pickled objects are refused."""

    gives: ClassVar[tuple[Form, ...]] = ("images", "pictures")
    suffixes: ClassVar[tuple[str, ...]] = (".npz", ".npy")
    kind: Literal["numpy"] = "numpy"
    path: Paths
    """A .npz or .npy file, a glob, or a list of them."""
    images: Key | None = None
    """The array of pictures in a .npz, by name or by its place from 0; unless given, `images` or `x`, or the first."""
    labels: Key | None = None
    """The array of labels in the same .npz, or a .npy file of its own; unless given, `labels`, `y` or the second."""
    axes: Literal["last", "first"] = "last"
    """Channels are the last axis, (height, width, channels), or the first, (channels, height, width)."""
    size: tuple[Size, Size] | None = None
    """The height and width of pictures that stand flat, one a row."""
    bits: Literal["big", "little"] | None = None
    """Each byte is eight pixels, black or white, as np.packbits packs them: the highest bit first (big), or last."""
    classes: tuple[str, ...] = ()
    """Names of the labels, where those are numbers from 0 on."""
    pixels: Pixels = MOST

    @model_validator(mode="after")
    def check(self) -> Self:
        if self.bits is not None and self.size is None:
            raise ValueError("bits: pictures that are packed need a size, such as [28, 28]")
        return self

    def under(self, folder: Path) -> Self:
        placed = super().under(folder)
        return placed.replace(labels=place_in(folder, str(self.labels))) if self._has_own_labels() else placed

    def guess_form(self) -> Form:
        """Images, if labels are told, or an array is called so."""
        paths = [path for path in expand_paths(self.path) if path.lower().endswith(".npz")]
        usual = any(name.lower() in LABELS for name in (list_arrays(paths[0]) if paths else ()))
        return "images" if self.labels is not None or usual else "pictures"

    def samples(self, log: Log) -> Iterator[Sample]:
        return self.read("images", log)

    def read(self, form: Form, log: Log, by: Key | None = None) -> Iterator[Sample]:
        paths = expand_paths(self.path)
        if form == "images" and self._has_own_labels() and len(paths) > 1:
            # which label is whose would depend on every file before being whole
            told = f"labels: {self.labels} is one file for {len(paths)} of pictures, {paths[0]} and others"
            raise SpecError(
                told, "kind: several, parts: [{path: a.npy, labels: b.npy}, …], or one file of all pictures"
            )
        found = (sample for path in paths for sample in self._read(path, form, log))
        return add_group(found, form, by, self.kind)

    def _has_own_labels(self) -> bool:
        return isinstance(self.labels, str) and self.labels.endswith((".npy", ".npz"))

    def _read(self, path: str, form: Form, log: Log) -> Iterator[Sample]:
        with ExitStack() as stack:
            pictures = stack.enter_context(open_array(path, self.images, IMAGES, 0))
            labels = self._open_labels(path, stack) if form == "images" else None
            told = iter(labels.rows(log)) if labels is not None else None
            for place, row in pictures.rows(log):
                label = next(told, None) if told is not None else None
                if told is not None and (label is None or not (name := self._name(label[1]))):
                    log.skip(place, "no label")
                    continue
                try:
                    picture = self._shape(row)
                except Unusable as unusable:
                    log.skip(place, unusable.message)
                    continue
                log.keep()
                yield {"picture": picture, **({} if told is None else {"label": name}), "place": place}
            for place, _ in told or ():
                log.skip(place, "no picture: a label without one")

    def _open_labels(self, path: str, stack: ExitStack) -> OpenArray:
        if self._has_own_labels():
            return stack.enter_context(open_array(str(self.labels), None, LABELS, 0))
        if not path.lower().endswith(".npz"):
            raise DataError(f"{path}: it is one array: where are the labels?", "labels: labels.npy")
        return stack.enter_context(open_array(path, self.labels, LABELS, 1))

    def _shape(self, row: NDArray[Any]) -> NDArray[Any]:
        """A picture from a row of the array."""
        if self.bits is not None:
            assert self.size is not None
            count = math.prod(self.size)
            if row.dtype != np.uint8 or row.ndim != 1 or row.size != -(-count // 8):
                raise Unusable(f"not packed bits: {row.dtype} {row.shape}, and {count} bits are {-(-count // 8)} bytes")
            row = np.unpackbits(row, count=count, bitorder=self.bits).astype(bool)
        if self.size is not None and row.ndim == 1:
            if row.size % math.prod(self.size):
                raise Unusable(f"another size: {row.size} numbers aren't a picture of {self.size}")
            flat = row.reshape((-1, *self.size) if self.axes == "first" else (*self.size, -1))
        else:
            flat = row[None] if row.ndim == 2 and self.axes == "first" else row
        if flat.ndim == 1:
            told = "size: [28, 28], and bits: big where each byte is eight pixels"
            raise Unusable(f"flat: {flat.size} numbers, and a picture has a height and a width; {told}")
        turned = flat.transpose(1, 2, 0) if self.axes == "first" and flat.ndim == 3 else flat
        white = turned.astype(np.uint8) * np.uint8(255) if turned.dtype == bool else turned
        return shape_picture(white, self.pixels)

    def _name(self, value: NDArray[Any]) -> str:
        """A label's name; nothing where it has none."""
        if value.size != 1 or value.dtype.kind not in "iubUS":
            return ""
        found = value.reshape(()).item()
        if isinstance(found, bytes):
            return found.decode("utf-8", "replace")
        if self.classes and isinstance(found, int):
            return self.classes[found] if 0 <= found < len(self.classes) else ""
        return str(found)


@dataclass
class OpenArray:
    """An array in a file whose header has been read."""

    name: str
    stream: IO[bytes]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    turned: bool  # its numbers stand column by column, as Fortran has them

    def rows(self, log: Log) -> Iterator[tuple[str, NDArray[Any]]]:
        """What stands at each place of its first axis; where the file is cut short, the log says so."""
        count, *rest = self.shape
        size = math.prod(rest) * self.dtype.itemsize
        many = max(1, count if self.turned else PIECE // max(size, 1))
        for first in range(0, count, many):
            place = f"{self.name}:{first + 1}"
            wanted = min(many, count - first)
            try:
                content = self.stream.read(wanted * size)
            except DamagedFile as error:
                log.skip(place, str(error))
                return
            except DAMAGE as error:
                log.skip(place, f"damaged: {error}")
                return
            whole = len(content) // size if size else wanted
            if self.turned and whole < wanted:
                whole = 0  # every picture lacks something
            order: Literal["F", "C"] = "F" if self.turned else "C"
            found = np.frombuffer(bytearray(content[: whole * size]), self.dtype).reshape(whole, *rest, order=order)
            native = found.astype(self.dtype.newbyteorder("="), copy=False)
            yield from ((f"{self.name}:{first + n + 1}", row) for n, row in enumerate(native))
            if whole < wanted:
                log.skip(f"{self.name}:{first + whole + 1}", f"cut short: {first + whole:,} of {count:,} are there")
                return


@contextmanager
def open_array(path: str, key: Key | None, usual: tuple[str, ...], place: int) -> Iterator[OpenArray]:
    """An array of a file: the one that is told, or one with a usual name, or else the one at a place."""
    if not path.lower().endswith(".npz"):
        with open_bytes(path) as stream:
            yield read_array_header(cast(IO[bytes], stream), path)
        return
    with ExitStack() as stack:
        try:
            archive = stack.enter_context(zipfile.ZipFile(path))
            names = [entry.filename for entry in archive.infolist() if entry.filename.endswith(".npy")]
            name = choose_array([one.removesuffix(".npy") for one in names], key, usual, place, path)
            found = read_array_header(stack.enter_context(archive.open(f"{name}.npy")), f"{path}:{name}")
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
            raise DataError(f"{path}: damaged npz: {error}", "check that the file is whole") from None
        except OSError as error:
            raise DataError(f"{path}: {error.strerror or error}", "check the path") from None
        yield found


def list_arrays(path: str) -> list[str]:
    """The names of the arrays in a `.npz`."""
    try:
        with zipfile.ZipFile(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
    except (zipfile.BadZipFile, OSError) as error:
        raise DataError(f"{path}: damaged npz: {error}", "check that the file is whole") from None


def choose_array(names: list[str], key: Key | None, usual: tuple[str, ...], place: int, path: str) -> str:
    """The array that is meant."""
    there = f"{path}: there are {', '.join(names[:SHOWN]) or 'no arrays'}"
    if isinstance(key, str) and key in names:
        return key
    if key is not None and not isinstance(key, int):
        raise DataError(f"{there}; looked for: {key}", f"{'images' if place == 0 else 'labels'}: NAME")
    if key is None:
        lowered = {name.lower(): name for name in names}
        if found := next((lowered[one] for one in usual if one in lowered), None):
            return found
        key = place
    if key >= len(names):
        raise DataError(f"{there}; looked for: number {key}", f"{'images' if place == 0 else 'labels'}: NAME")
    return names[key]


def read_array_header(stream: IO[bytes], name: str) -> OpenArray:
    """An array's type and shape; the stream stands at its first number then."""
    try:
        version = np.lib.format.read_magic(cast(Any, stream))
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
        if read is None:
            raise ValueError(f"version {version[0]}.{version[1]} of the format")
        shape, fortran, dtype = read(cast(Any, stream))
    except (*DAMAGE, ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise DataError(f"{name}: not an array of NumPy: {error}", "check that the file is whole") from None
    if dtype.hasobject:
        raise DataError(f"{name}: pickled objects, which are never loaded", "np.savez(FILE, images=…) without objects")
    if not shape:
        raise DataError(f"{name}: a single number, and an array of pictures or labels is wanted", "images: NAME")
    turned = fortran and len(shape) > 1
    if turned and math.prod(shape) * dtype.itemsize > TURNED:
        told = f"its numbers stand column by column, so all of it must be read at once: more than {TURNED:,} bytes"
        raise DataError(f"{name}: {told}", "np.ascontiguousarray, then save it again")
    if math.prod(shape[1:]) * dtype.itemsize > LARGEST or not dtype.itemsize:
        raise DataError(f"{name}: {shape[1:]} of {dtype} each, and {LARGEST:,} bytes are the most", "smaller pictures")
    return OpenArray(name, stream, shape, dtype, turned)
