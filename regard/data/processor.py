"""How others prepare pictures for a model: the preprocessor_config.json that stands beside its weights, both ways.

What can't be done here as it says is told. Where that would change what a model sees beyond how a picture is scaled,
nothing is taken from it, so that no picture is read in another way than the model learned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.data.canvas import Canvas
from regard.data.origin import Origin
from regard.data.picture import Fit

NAME = "preprocessor_config.json"
BILINEAR = 2  # how Pillow numbers the way that pictures are scaled here
WAYS = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}
STRANGE = ("do_pad", "do_flip_channel_order", "offset", "crop_pct", "do_thumbnail", "do_align_long_axis")


@dataclass(frozen=True)
class Processor:
    """What becomes of a picture before a model sees it, as far as it can be done here."""

    canvas: Canvas | None  # None: it can't
    fit: Fit | None = None
    told: tuple[str, ...] = ()  # what is done in another way here, or why it can't be done

    @classmethod
    def read(cls, tree: Mapping[str, Any], picture: tuple[int, int, int]) -> Processor:
        """From the file's object, for a model that reads pictures of this height, width and channels."""
        strange = [name for name in STRANGE if tree.get(name)]
        if strange:
            return cls(None, told=(f"{NAME}: {strange[0]} is {tree[strange[0]]!r}, which can't be done here",))
        crops = bool(tree.get("do_center_crop", False))
        scaled = read_size(tree.get("size")) if tree.get("do_resize", True) else None
        cut = read_size(tree.get("crop_size")) if crops else scaled
        height, width, channels = picture
        if cut is not None and cut != (height, width):
            wanted = f"{height} × {width}"
            return cls(None, told=(f"{NAME}: it makes pictures of {show(cut)}, and the model reads {wanted}",))
        light = read_light(tree, channels)
        if light is None:
            return cls(None, told=(f"{NAME}: image_mean and image_std don't give {channels} channels a number each",))
        told = []
        if scaled is not None and tree.get("resample", BILINEAR) != BILINEAR:
            way = WAYS.get(tree["resample"], tree["resample"])
            told.append(f"{NAME}: pictures are scaled {way} there, and bilinear here")
        if crops and scaled != cut and scaled not in (None, (height,)):
            told.append(f"{NAME}: pictures become {show(scaled)} there before {show(cut)} are cut out; here at once")
        canvas = Canvas(height, width, channels, "uint8", *light)
        fit: Fit | None = None if scaled is None else "crop" if len(scaled) == 1 else "resize"
        return cls(canvas, fit, tuple(told))


def read_processor(origin: Origin, picture: tuple[int, int, int]) -> Processor:
    """What a model's own files say of the pictures that it reads; nothing, where the file isn't there."""
    return Processor.read(origin.json(NAME), picture) if NAME in origin.files else Processor(None)


def read_size(size: Any) -> tuple[int, ...] | None:
    """A height and a width; a shorter side alone; None where neither is told."""
    if isinstance(size, int):
        return size, size
    if isinstance(size, Mapping) and {"height", "width"} <= size.keys():
        return size["height"], size["width"]
    if isinstance(size, Mapping) and isinstance(size.get("shortest_edge"), int):
        return (size["shortest_edge"],)
    return None


def show(size: tuple[int, ...] | None) -> str:
    if size is None:
        return "any size"
    return f"{size[0]} at the shorter side" if len(size) == 1 else f"{size[0]} × {size[1]}"


def read_light(tree: Mapping[str, Any], channels: int) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """What is subtracted from each channel, and what it is divided by, where bytes are 0 … 1; None: they don't fit."""
    mean: Any = tree.get("image_mean", [0.0] * channels)
    spread: Any = tree.get("image_std", [1.0] * channels)
    if not tree.get("do_normalize", True):
        mean, spread = [0.0] * channels, [1.0] * channels
    elif "image_mean" not in tree or "image_std" not in tree:
        return None  # what their library would take isn't in the file
    factor = tree.get("rescale_factor", 1 / 255) if tree.get("do_rescale", True) else 1.0
    numbers = [*mean, *spread, factor] if isinstance(mean, list) and isinstance(spread, list) else []
    sound = all(isinstance(n, int | float) and math.isfinite(n) for n in numbers) and len(numbers) == 2 * channels + 1
    if not sound or len(mean) != channels or not factor > 0 or not all(n > 0 for n in spread):
        return None
    unit = 255 * factor  # (factor x - mean) / spread, for x / 255
    return tuple(n / unit for n in mean), tuple(n / unit for n in spread)


def write_processor(canvas: Canvas, fit: Fit | None) -> tuple[dict[str, Any], list[str]]:
    """The file's object for a canvas of bytes, and what it can't say."""
    tree: dict[str, Any] = {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": {"height": canvas.height, "width": canvas.width},
        "resample": BILINEAR,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(canvas.mean),
        "image_std": list(canvas.spread),
    }
    if canvas.channels == 3:
        tree["do_convert_rgb"] = True
    if fit == "crop" and canvas.height == canvas.width:
        size = {"size": {"shortest_edge": canvas.height}, "do_center_crop": True, "crop_size": tree["size"]}
        return tree | size | {"image_processor_type": "CLIPImageProcessor"}, []
    if fit in ("crop", "pad"):
        return tree, [f"{NAME}: it stretches pictures of other sizes, and in training they were fitted by {fit}"]
    return tree, []
