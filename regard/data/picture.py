"""Pictures: from the bytes of a PNG, JPEG or WebP to an array (height, width, channels) of uint8, and to another size.

What a file's maker meant is done without a word: a camera's orientation is honoured, palettes become colours, and what
is transparent lies on white. What loses something is told, so that a corpus's policy decides: 16 bits a channel, CMYK
(converted without its colour profile) and all frames but the first. A file's header says how many pixels it has before
any of them is unpacked, so a small file that would fill the memory is refused. A `.npy` file is a map of features.
"""

from __future__ import annotations

import io
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, TypeGuard

import numpy as np
from pydantic import Field

from regard.data.array import describe
from regard.data.canvas import Picture
from regard.data.log import Log, Unusable
from regard.errors import InputError, MissingPackage

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFile import ImageFile

Fit = Literal["resize", "crop", "pad"]
MOST = 2**26  # pixels of a picture, unless told: 8,192 × 8,192
FILES = (".png", ".jpg", ".jpeg", ".webp", ".npy")  # endings of files that hold a picture or a map
STRANGE = (".gif", ".bmp", ".tif", ".tiff", ".heic", ".heif", ".avif", ".jp2", ".jxl", ".ppm", ".pgm", ".svg")
Pixels = Annotated[int, Field(strict=True, ge=1, le=2**30)]
MAP = b"\x93NUMPY"
PNG, JPEG, RIFF, WEBP = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"RIFF", b"WEBP"
DEPTH = 24  # where a PNG says how many bits a channel has
# what Pillow raises where a file isn't what it says
DAMAGE = (OSError, SyntaxError, ValueError, LookupError, TypeError, EOFError, ArithmeticError, struct.error)


@dataclass(frozen=True)
class Decoded:
    """A picture, and what was lost in making it; nothing, mostly."""

    picture: Picture
    loss: str = ""


def read_picture(source: str | Path | bytes, most: int = MOST) -> Picture:
    """A picture from a file or from a file's bytes, whatever is lost in making it; `Unusable` where there is none."""
    return decode_picture(source if isinstance(source, bytes) else read_bytes(source), most).picture


class Readable(Protocol):
    """Something that holds a picture's bytes."""

    @property
    def place(self) -> str:
        """Where it stands."""

    @property
    def read(self) -> Callable[[], bytes]:
        """What gives its bytes."""


def take_picture(source: Readable, log: Log, most: int = MOST) -> Picture | None:
    """A corpus's picture, which is kept; None where it can't be used, and the log says why."""
    try:
        decoded = decode_picture(source.read(), most)
    except Unusable as unusable:
        log.skip(source.place, unusable.message)
        return None
    return keep_picture(decoded, source.place, log)


def keep_picture(decoded: Decoded, place: str, log: Log) -> Picture | None:
    """A corpus's picture, counted; None where the corpus's policy doesn't allow what it lost."""
    if decoded.loss and not log.mend(place, decoded.loss):
        log.drop()
        return None
    log.keep(bool(decoded.loss))
    return decoded.picture


def read_bytes(path: str | Path) -> bytes:
    """A file's bytes."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", "check the path") from None


def decode_picture(content: bytes, most: int = MOST) -> Decoded:
    """A picture from a file's bytes, and what that loses; `most`: pixels that it may have."""
    if content.startswith(MAP):
        return Decoded(decode_map(content, most))
    try:
        image = _open_image(content)
        return _convert(image, most, image.format == "PNG" and content[DEPTH] == 16)
    except DAMAGE as error:
        raise Unusable(f"damaged picture: {str(error) or type(error).__name__}") from None


def is_image(value: Any) -> TypeGuard[Image]:
    """Whether something is a picture of Pillow, which nobody can have who hasn't imported it."""
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(value, pillow.Image)


def convert_image(image: Image, most: int = MOST) -> Decoded:
    """A picture from one of Pillow, and what that loses; treated as a file of it would be."""
    if image.mode == "F":
        raise Unusable("not a picture: real numbers (mode F), and bytes are wanted")
    try:
        return _convert(image, most, image.mode.startswith("I"))
    except DAMAGE as error:
        raise Unusable(f"damaged picture: {str(error) or type(error).__name__}") from None


def _open_image(content: bytes) -> ImageFile:
    """A picture whose header alone has been read.

    The format is told by the first bytes and nothing else: Pillow knows others, and one of them starts a program.
    """
    try:
        from PIL import JpegImagePlugin, PngImagePlugin, WebPImagePlugin
    except ImportError:
        raise MissingPackage("reading pictures", "Pillow", "images") from None
    file = io.BytesIO(content)
    if content.startswith(PNG):
        return PngImagePlugin.PngImageFile(file)
    if content.startswith(JPEG):
        return JpegImagePlugin.jpeg_factory(file)
    if content.startswith(RIFF) and content[8:12] == WEBP:
        return WebPImagePlugin.WebPImageFile(file)
    raise Unusable("not a picture: it is no PNG, JPEG or WebP" if content else "not a picture: it is empty")


def _convert(image: Image, most: int, deep: bool) -> Decoded:
    from PIL import ImageOps

    width, height = image.size
    if width * height > most:
        raise Unusable(f"too many pixels: {show_size((height, width))}, and {most:,} are the most")
    losses = []
    if image.format in ("PNG", "WEBP") and getattr(image, "n_frames", 1) > 1:
        losses.append(f"several frames: {image.n_frames}, and the first one is taken")  # type: ignore[attr-defined]
    if deep:
        losses.append("16 bits a channel: 8 are kept")
    if image.mode == "CMYK":
        losses.append("CMYK: converted to RGB without its colour profile")
    image.load()
    turned = ImageOps.exif_transpose(image)
    pixels = np.array(_simplify(turned))
    return Decoded(pixels if pixels.ndim == 3 else pixels[:, :, None], "; ".join(losses))


def _simplify(image: Image) -> Image:
    """A picture in grey or in three colours."""
    from PIL import Image

    if image.mode.startswith("I"):  # 16 bits of grey; Pillow itself keeps the upper 8 bits of colours
        return Image.fromarray((np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8))
    if image.mode in ("LA", "PA", "RGBA", "RGBa", "La") or "transparency" in image.info:
        grey = image.mode in ("L", "1", "LA", "La")
        clear = image.convert("RGBA")
        white = Image.new("RGBA", clear.size, "white")
        return Image.alpha_composite(white, clear).convert("L" if grey else "RGB")
    return image.convert("L" if image.mode in ("1", "L") else "RGB")


def decode_map(content: bytes, most: int = MOST) -> Picture:
    """A map of features, or a picture, from the bytes of a `.npy` file: (height, width, channels)."""
    try:
        found = np.load(io.BytesIO(content), allow_pickle=False)
    except (*DAMAGE, MemoryError) as error:  # a header may tell of more numbers than any memory holds
        raise Unusable(f"damaged array: {error}") from None
    return shape_picture(found, most)


def shape_picture(found: Any, most: int = MOST) -> Picture:
    """An array as a picture, if it is one: (height, width), or with channels as the last axis."""
    whole = found[:, :, None] if found.ndim == 2 and found.dtype == np.uint8 else found
    if whole.ndim != 3 or not whole.size or not (whole.dtype == np.uint8 or whole.dtype.kind == "f"):
        raise Unusable(f"not a picture: {describe(found)}, and (height, width, channels) of uint8 or float32 is wanted")
    if whole.shape[0] * whole.shape[1] > most:
        raise Unusable(f"too many pixels: {show_size(whole.shape)}, and {most:,} are the most")
    if whole.dtype.kind == "f":
        whole = whole.astype(np.float32)
        if not np.isfinite(whole).all():
            raise Unusable("numbers that aren't finite: a map has none")
    return np.ascontiguousarray(whole)


def shape_list(listed: list[Any], most: int = MOST) -> Picture:
    """Lists of whole numbers as a picture: rows of pixels, or of their channels."""
    found = np.asarray(listed)
    if found.dtype.kind not in "iu":
        raise Unusable(f"not a picture: a list of {found.dtype}, and whole numbers from 0 to 255 are wanted")
    if found.min(initial=0) < 0 or found.max(initial=0) > 255:
        raise Unusable(f"not a picture: numbers from {found.min()} to {found.max()}, and 0 to 255 are wanted")
    return shape_picture(found.astype(np.uint8), most)


def fit_picture(
    picture: Picture,
    size: int | tuple[int, int] | None,
    fit: Fit | None,
    channels: int | None = None,
    remedy: str = "task.fit=resize, crop or pad",
) -> Picture:
    """A picture in the wanted size (height, width) and with as many channels; `Unusable` where that isn't allowed.

    `resize` stretches it; `crop` scales the shorter side and cuts the ends of the longer one off; `pad` scales the
    longer side and puts black beside the shorter one. Without any, a picture of another size is refused; `remedy` says
    how one asks for it.
    """
    if channels is not None and picture.shape[2] != channels:
        picture = _recolour(picture, channels)
    wanted = (size, size) if isinstance(size, int) else size
    if wanted is None or picture.shape[:2] == wanted:
        return picture
    if fit is None or picture.dtype != np.uint8:
        told = remedy if picture.dtype == np.uint8 else "maps of features aren't resized"
        raise Unusable(
            f"another size: {show_size(picture.shape)}, and {show_size(wanted)} is wanted; {told}",
        )
    return _SCALED[fit](picture, wanted)


def _recolour(picture: Picture, channels: int) -> Picture:
    """Grey from colours, by how bright each looks (ITU-R 601), or the same grey for all colours."""
    if picture.dtype != np.uint8 or {picture.shape[2], channels} != {1, 3}:
        raise Unusable(f"other channels: {picture.shape[2]}, and {channels} are wanted")
    if channels == 3:
        return np.repeat(picture, 3, axis=2)
    bright = (picture.astype(np.uint32) * np.array([19595, 38470, 7471], np.uint32)).sum(2) + 0x8000 >> 16
    return bright.astype(np.uint8)[:, :, None]


def _resize(picture: Picture, size: tuple[int, int]) -> Picture:
    height, width = picture.shape[:2]
    return _scale(picture, size, (0, 0, width, height))


def _crop(picture: Picture, size: tuple[int, int]) -> Picture:
    height, width = picture.shape[:2]
    # what is cut off is never scaled: a long thin picture would grow beyond all memory
    scale = max(size[0] / height, size[1] / width)
    tall, wide = min(height, size[0] / scale), min(width, size[1] / scale)
    left, top = (width - wide) / 2, (height - tall) / 2
    return _scale(picture, size, (left, top, left + wide, top + tall))


def _pad(picture: Picture, size: tuple[int, int]) -> Picture:
    height, width = picture.shape[:2]
    scale = min(size[0] / height, size[1] / width)
    tall, wide = min(size[0], max(1, round(height * scale))), min(size[1], max(1, round(width * scale)))
    top, left = (size[0] - tall) // 2, (size[1] - wide) // 2
    made = np.zeros((*size, picture.shape[2]), np.uint8)
    made[top : top + tall, left : left + wide] = _resize(picture, (tall, wide))
    return made


def _scale(picture: Picture, size: tuple[int, int], box: tuple[float, float, float, float]) -> Picture:
    """A part of a picture in another size; bilinear, and over all pixels that fall together where it gets smaller."""
    try:
        from PIL import Image
    except ImportError:
        raise MissingPackage("resizing pictures", "Pillow", "images") from None
    flat = picture[:, :, 0] if picture.shape[2] == 1 else picture
    if flat.ndim == 3 and flat.shape[2] != 3:
        raise Unusable(f"other channels: {picture.shape[2]}, and only pictures with 1 or 3 are resized")
    scaled = Image.fromarray(flat).resize((size[1], size[0]), Image.Resampling.BILINEAR, box)
    return np.array(scaled).reshape(*size, picture.shape[2])


_SCALED = {"resize": _resize, "crop": _crop, "pad": _pad}


def show_size(shape: tuple[int, ...]) -> str:
    """A height and a width in a message: 28 × 28."""
    return f"{shape[0]} × {shape[1]}"
