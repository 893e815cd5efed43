"""A look as a file: the viewer's page, data for other programs, or a picture. The ending of the path says which."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.decode.reading import Pictured
from regard.errors import InputError
from regard.host.output import check_file, put
from regard.host.png import encode_png
from regard.lens.grid import is_punctuation, words
from regard.lens.heads import summarise_heads
from regard.lens.look import AttentionMap, Axis, Look, WordLook, as_plain
from regard.lens.page import Figure, make_page
from regard.lens.places import roll_picture
from regard.lens.steps import count_steps

if TYPE_CHECKING:
    from torch import Tensor


TOLD = (".html", ".json")  # what is predicted is written there too


def keep(look: Look, path: Path, best: int = 5) -> Path:
    """Write a look, whole or not at all; the path."""
    write = WRITERS.get(path.suffix.lower())
    if write is None:
        raise InputError(f"{path}: a look can't be written as {path.suffix or 'a file without an ending'}", endings())
    check_file(path)
    seen = look.maps() or (path.suffix.lower() in TOLD and look.predictions(1)) or path.suffix.lower() == ".npz"
    if not seen:
        raise InputError(f"there are no attention weights to write: {explain_blindness(look)}", "another model or text")
    put(path, write(look, best))
    return path


def endings() -> str:
    """What a look can be written as."""
    *most, last = WRITERS
    return f"{', '.join(most)} or {last}"


def explain_blindness(look: Look) -> str:
    """Why a look has no weights."""
    if any(name.endswith("weights") for name in look.model.names()):
        return f"{', '.join(look.patterns)} leaves out all that attends"
    return "nothing in this model attends"


def make_figure(look: Look, best: int = 5) -> Figure:
    """A look as the viewer takes it."""
    maps, arrays = [], {}
    weights = look.weights() if look.maps() else {}
    importance = weigh_maps(look) if weights else {}
    for place in look.maps():
        array = weights[place.name].cpu().numpy()
        arrays[place.name] = array
        summary = summarise(look, place, weights)
        if place.columns == "slots":  # as papers draw it: addresses downwards, time to the right
            arrays[place.name] = array.swapaxes(1, 2)
        for told, worth in zip(summary, importance.get(place.name, []), strict=False):
            told["importance"] = worth
        maps.append({**vars(turn_slots(place)), "heads": len(array), "array": place.name, "summary": summary})
    if (rolled := roll_picture(look)) is not None:
        arrays["rollout"] = rolled.weights[None].float().cpu().numpy()
        maps.append({**vars(rolled.place), "heads": 1, "array": "rollout", "summary": []})
    data = {
        "title": look.reading.text,
        "model": look.made_by,
        "axes": make_axes(look, {place.columns: weights[place.name].shape[2] for place in look.maps()}),
        "maps": maps,
        "predictions": [as_plain(prediction) for prediction in look.predictions(best)],
    }
    if steps := count_steps(look):
        data["steps"] = [vars(each) for each in steps]
    return Figure("look", data, arrays)


def turn_slots(place: AttentionMap) -> AttentionMap:
    """Where weights belong, once those over slots are turned: each column of them sums to 1."""
    return replace(place, rows="slots", columns=place.rows) if place.columns == "slots" else place


def weigh_maps(look: Look) -> dict[str, list[float]]:
    """How much each head matters for what the model says here, by gradient; nothing where that can't be told."""
    from regard.lens.importance import weigh_heads

    try:
        found = weigh_heads(look).heads
    except InputError:  # no answer to ask about, or no head that can be weighed
        return {}
    return {name.replace(".context", ".weights"): worth.tolist() for name, worth in found.items()}


def summarise(look: Look, place: AttentionMap, weights: dict[str, Tensor]) -> list[dict[str, float]]:
    """What each head of a map does, in a few numbers."""
    pieces = look.label(place.columns, weights[place.name].shape[2])
    strip = look.strip(place.columns)
    special = [False] * len(pieces) if strip is None or isinstance(look, WordLook) else list(strip.special)
    delimiters = [sign or is_punctuation(piece) for sign, piece in zip(special, pieces, strict=True)]
    return summarise_heads(weights[place.name], delimiters)


def make_axes(look: Look, sizes: dict[Axis, int]) -> dict[str, Any]:
    """The tokens along each axis, and which of them make a word."""
    used: set[Axis] = {axis for place in look.maps() for axis in (place.rows, place.columns)} | {"target"}
    axes: dict[str, Any] = {}
    for axis in ("target", "written", "source", "slots", *look.reading.axes):
        if axis not in used:
            continue
        strip = look.strip(axis)
        if strip is None:
            axes[axis] = {"size": sizes[axis]}
        elif isinstance(look, WordLook):
            labels = look.label(axis)
            axes[axis] = {"tokens": labels, "words": [[n, n + 1] for n in range(len(labels))]}
        else:
            axes[axis] = {
                "tokens": list(strip.pieces),
                "words": [list(span) for span in words(strip.pieces, strip.special, strip.spaced)],
            }
    pictured = look.reading.pictured
    if pictured is not None and pictured.axis in axes:
        axes[pictured.axis]["picture"] = show_picture(pictured)
    return axes


def show_picture(pictured: Pictured) -> dict[str, Any]:
    """A picture with the grid of its places, as a page carries it."""
    height, width, _ = pictured.picture.shape
    image = base64.b64encode(encode_png(pictured.picture)).decode()
    return {
        "height": height,
        "width": width,
        "grid": vars(pictured.grid),
        "image": f"data:image/png;base64,{image}",
    }


def make_html(look: Look, best: int = 5) -> str:
    """The viewer with a look in it, as one page."""
    return make_page(look.reading.text or "a look", [make_figure(look, best)])


def as_data(look: Look, best: int = 5) -> dict[str, Any]:
    """A look as plain data, with exact numbers: for JSON."""
    figure = make_figure(look, best)
    maps = [{**each, "weights": figure.arrays[each["array"]].tolist()} for each in figure.data["maps"]]
    for each in maps:
        del each["array"]
    return {**figure.data, "maps": maps}


def _json(look: Look, best: int) -> bytes:
    return json.dumps(as_data(look, best), ensure_ascii=False).encode()


def _npz(look: Look, best: int) -> bytes:
    """Exact arrays by their names: what the look is about; of a look at everything, the weights."""
    content = io.BytesIO()
    found = look.weights() if look.patterns == ("*",) and look.maps() else look.values()
    if isinstance(look, WordLook):
        found = look.weights()
    arrays = {name: value.float().cpu().numpy() for name, value in found.items()}
    for axis in ("target", "written", "source", *look.reading.axes):
        if look.strip(axis) is not None:
            arrays[f"axis.{axis}"] = np.array(look.label(axis))
    np.savez_compressed(content, allow_pickle=False, **arrays)
    return content.getvalue()


def _csv(look: Look, best: int) -> bytes:
    """One weight a line; the arrows of a spreadsheet find a head by its name and number."""
    content = io.StringIO()
    writer = csv.writer(content)
    writer.writerow(["name", "head", "row", "column", "row_token", "column_token", "weight"])
    for name, weights in look.weights().items():
        place = look.place(name)
        down, across = look.label(place.rows, weights.shape[1]), look.label(place.columns, weights.shape[2])
        for head, table in enumerate(weights.tolist()):
            for row, cells in enumerate(table):
                for column, weight in enumerate(cells):
                    writer.writerow([name, head, row, column, down[row], across[column], repr(weight)])
    return content.getvalue().encode()


def _picture(kind: str) -> Callable[[Look, int], bytes]:
    def draw(look: Look, best: int) -> bytes:
        from regard.lens.addresses import list_addresses, list_heads, looks_at_slots
        from regard.lens.chart import encode_figure, maps_figure
        from regard.lens.places import lit_figure, looks_at_picture

        if looks_at_picture(look):
            return encode_figure(lit_figure(look), kind)
        if looks_at_slots(look):
            ways = [(head, way) for head in list_heads(look) for way in list_addresses(look, head)]
            drawn = {f"{way.what} {head}": (way.tokens, way.slots, way.weights.tolist()) for head, way in ways}
            return encode_figure(maps_figure(drawn, look.reading.text), kind)
        maps = {
            f"{place.stack} {place.part} {place.layer}.{head}": (
                look.label(place.columns, table.shape[1]),
                look.label(place.rows, table.shape[0]),
                table.tolist(),
            )
            for place in look.maps()
            for head, table in enumerate(look.weights(place.name)[place.name])
        }
        return encode_figure(maps_figure(maps, look.reading.text), kind)

    return draw


WRITERS: dict[str, Callable[[Look, int], bytes]] = {
    ".html": lambda look, best: make_html(look, best).encode(),
    ".json": _json,
    ".npz": _npz,
    ".csv": _csv,
    ".png": _picture("png"),
    ".svg": _picture("svg"),
}
