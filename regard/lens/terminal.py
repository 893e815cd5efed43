"""A look in a terminal: one head, a layer or the mean as a grid; all heads as small maps; how long the model thought at
each token; and what is predicted.
"""

from __future__ import annotations

import math

import torch.nn.functional as F
from rich.cells import cell_len, set_cell_size
from torch import Tensor

from regard.errors import InputError
from regard.lens.addresses import draw_addresses, looks_at_slots
from regard.lens.choice import choose_weights, main_maps
from regard.lens.grid import grid, labels
from regard.lens.look import Look
from regard.lens.places import Lit, light_heads, light_picture, light_places
from regard.lens.shades import draw_picture, draw_small
from regard.lens.steps import count_steps

SMALL = 16  # rows and columns of a small map at the most
SHARE = 100  # of a probability
LEAST = 12  # columns of a small map of places; one of fewer is drawn larger
PICTURE = 24  # columns of a picture in colours


def draw_grid(look: Look, head: str = "mean", *, color: bool, width: int = 80) -> str:
    """Some weights with the tokens on both sides; over a picture, a small map of its places for each that looks; over
    slots, what is written and what is read.
    """
    if looks_at_slots(look):
        return draw_addresses(look, head, color=color, width=width)
    chosen = choose_weights(look, head)
    if (lit := light_places(look, chosen.place, chosen.weights)) is not None:
        return "\n".join([chosen.title, *draw_lit(look, lit, color, width)])
    queries, keys = chosen.weights.shape
    columns, rows = look.label(chosen.place.columns, keys), look.label(chosen.place.rows, queries)
    return grid(columns, rows, chosen.weights.tolist(), color=color, title=chosen.title, width=width)


def draw_lit(look: Look, lit: Lit, color: bool, width: int, largest: int = PICTURE) -> list[str]:
    """The picture as each that looks lights it, its label above, as many side by side as there is room for.

    Without colours it is the weights of the places alone; `largest`: columns of a picture in colours.
    """
    pictured = look.reading.pictured
    if color and pictured is not None and pictured.picture.shape[2] in (1, 3):
        across = min(largest, width)
        seen = [pictured.picture, *(light_picture(pictured.picture, places, pictured.grid) for places in lit.maps)]
        names, drawn = ["", *lit.labels], [draw_picture(picture, across) for picture in seen]
    else:
        times = max(1, LEAST // lit.maps.shape[2])
        maps = lit.maps.repeat_interleave(times, 1).repeat_interleave(times, 2)
        across, names = maps.shape[2], lit.labels
        drawn = [draw_small(table, color) for table in maps]
    lines, many = list[str](), max(1, (width + 2) // (across + 2))
    for first in range(0, len(drawn), many):
        titles = [_fit(label, across) for label in names[first : first + many]]
        rows = zip(*drawn[first : first + many], strict=True)
        lines += ["  ".join(titles).rstrip(), *("  ".join(parts) for parts in rows), ""]
    return lines[:-1]


def draw_sheet(look: Look, *, color: bool, width: int = 80) -> str:
    """All heads of all layers as small maps, each from no weight to its own largest; large ones are drawn coarser.

    Those over a picture are maps of its places, as in `draw_grid`.
    """
    lines: list[str] = []
    for place in look.maps() or main_maps(look):
        heads = look.weights(place.name)[place.name]
        if (lit := light_heads(look, place, heads)) is not None:
            down, beside = lit.maps.shape[1:]
            lines += [f"{place.name}  ({down} × {beside} places, {len(heads)} heads)"]
            lines += [*draw_lit(look, lit, color, width, SMALL), ""]
            continue
        queries, keys = heads.shape[1:]
        lines += [f"{place.name}  ({queries} × {keys}, {len(heads)} heads)"]
        maps = [_shrink(table) for table in heads]
        across = max(1, (width + 2) // (maps[0].shape[1] + 2))
        for first in range(0, len(maps), across):
            row = maps[first : first + across]
            numbers = [str(first + n).ljust(table.shape[1]) for n, table in enumerate(row)]
            drawn = [draw_small(table, color) for table in row]
            lines += ["  ".join(numbers).rstrip(), *("  ".join(parts) for parts in zip(*drawn, strict=True)), ""]
    return "\n".join(lines).rstrip("\n")


def _shrink(table: Tensor) -> Tensor:
    """At most so many rows and columns; each keeps the largest weight that it stands for."""
    queries, keys = table.shape
    size = (min(queries, SMALL), min(keys, SMALL))
    return F.adaptive_max_pool2d(table[None], size)[0]


def draw_steps(look: Look, width: int = 80) -> str:
    """How long the model thought at each token, above the token; nothing where it doesn't decide on that."""
    lines: list[str] = []
    for found in count_steps(look):
        tokens = labels(look.label(found.axis))
        told = [f"{count:.1f}".removesuffix(".0") for count in found.counts]
        lines += [f"{found.name}, {sum(found.counts) / len(found.counts):.1f} on the average"]
        above = below = ""
        for number, token in zip(told, tokens, strict=True):
            size = max(cell_len(number), cell_len(token := set_cell_size(token, min(cell_len(token), width))))
            if below and cell_len(below) + 1 + size > width:
                lines += [above.rstrip(), below.rstrip(), ""]
                above = below = ""
            above += f"{' ' if above else ''}{number.center(size)}"
            below += f"{' ' if below else ''}{set_cell_size(token, size)}"
        lines += [above.rstrip(), below.rstrip(), ""]
    return "\n".join(lines[:-1])


def draw_predictions(look: Look, best: int = 3, width: int = 80) -> str:
    """What the model says at each position: how likely what is right is there, and what else comes to mind."""
    found = look.predictions(best)
    if not found:
        raise InputError("this model predicts nothing here", "a model with words or labels to choose from")
    lines = [f"{'':>5} {'token':16} {'probability':>11} {'rank':>6} {'entropy':>8}  likeliest"]
    for item in found:
        place = "" if item.position is None else str(item.position)
        name = _fit(labels([item.token])[0], 16)
        share = _percent(math.exp(item.log_probability))
        others = "  ".join(f"{labels([token])[0]} {_percent(chance)}" for token, chance in item.alternatives)
        line = f"{place:>5} {name} {share:>11} {item.rank:>6,} {item.entropy:>8.2f}  {others}"
        lines.append(line if cell_len(line) <= width else set_cell_size(line, width - 1).rstrip() + "…")
    return "\n".join(lines)


def _percent(share: float) -> str:
    return f"{SHARE * share:.1f} %" if share >= 0.0005 else "< 0.1 %"


def _fit(text: str, width: int) -> str:
    return set_cell_size(text if cell_len(text) <= width else f"{set_cell_size(text, width - 1).rstrip()}…", width)
