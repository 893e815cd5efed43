"""Attention over a picture: which places of it each word looked at, or each position before it, such as a class token.

Weights are laid over the picture as light: the place with the most weight stays as it is, one with none goes dark. So a
map says where a word looked most, and nothing of how much that was; numbers are in the viewer and in the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from regard.core.grid import Grid
from regard.data.canvas import Picture
from regard.errors import InputError
from regard.lens.choice import Chosen, choose_rollout, choose_weights, main_maps
from regard.lens.grid import labels
from regard.lens.look import AttentionMap, Look, WordLook

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NIGHT = 0.22  # how bright a place without weight is
ACROSS = 6  # pictures side by side


@dataclass(frozen=True)
class Lit:
    """Places by who looks at them."""

    labels: list[str]  # as they are shown
    maps: Tensor  # (lookers, height, width)


def looks_at_picture(look: Look) -> bool:
    """Whether its main weights are over the places of a picture."""
    pictured = look.reading.pictured
    return pictured is not None and bool(look.maps()) and main_maps(look)[0].columns == pictured.axis


def light_places(look: Look, place: AttentionMap, weights: Tensor) -> Lit | None:
    """Weights (queries, keys) over the picture's places; None where they aren't over a picture.

    Where places look at each other, those who look are the positions before the picture; without any, all as a mean.
    """
    pictured = look.reading.pictured
    if pictured is None or place.columns != pictured.axis:
        return None
    grid = pictured.grid
    maps = weights[:, grid.first :].unflatten(1, (grid.height, grid.width, grid.channels)).sum(-1)
    names = labels(look.label(place.rows, len(weights)))
    if place.rows != pictured.axis:
        return Lit(names, maps)
    if grid.first:
        return Lit(names[: grid.first], maps[: grid.first])
    return Lit(["mean"], maps.mean(0, keepdim=True))


def light_heads(look: Look, place: AttentionMap, heads: Tensor) -> Lit | None:
    """The same of every head (heads, queries, keys): named by its number, and by who looks where several do."""
    names, maps = list[str](), list[Tensor]()
    for number, weights in enumerate(heads):
        lit = light_places(look, place, weights)
        if lit is None:
            return None
        names += [str(number)] if len(lit.labels) == 1 else [f"{number} {label}" for label in lit.labels]
        maps.append(lit.maps)
    return Lit(names, torch.cat(maps))


def roll_picture(look: Look) -> Chosen | None:
    """What all layers of an encoder that reads a picture and answers pass on; None where it can't be told.

    It is a map like any other there: a class token's own weights in the last layer say little of where it looked.
    """
    pictured = look.reading.pictured
    if pictured is None or pictured.axis != "target" or look.patterns != ("*",) or isinstance(look, WordLook):
        return None
    try:
        return choose_rollout(look)
    except InputError:  # a layer that doesn't attend
        return None


def light_picture(picture: Picture, places: Tensor, grid: Grid) -> Picture:
    """A picture under weights (height, width) of its places, the brightest as it was."""
    most = float(places.max()) or 1.0
    height, width, _ = picture.shape
    rows = [grid.find_place((row + 0.5) / height, grid.height) for row in range(height)]
    columns = [grid.find_place((column + 0.5) / width, grid.width) for column in range(width)]
    light = NIGHT + (1 - NIGHT) * (places / most).cpu().numpy()[np.ix_(rows, columns)]
    return (picture * light[..., None]).round().astype(np.uint8)


def lit_figure(look: Look) -> Figure:
    """The picture, and the picture under the weights of each word: the mean of all heads that look at it.

    Of an encoder that reads it and answers, its rollout too.
    """
    from regard.lens.chart import GREY, begin_figure

    pictured, chosen = look.reading.pictured, choose_weights(look)
    lit = light_places(look, chosen.place, chosen.weights)
    assert pictured is not None and lit is not None
    maps, names = [*lit.maps], ["", *lit.labels]
    if (rolled := roll_picture(look)) is not None and (passed := light_places(look, rolled.place, rolled.weights)):
        maps += passed.maps
        names += [f"{label}, rollout" for label in passed.labels]
    pictures = [pictured.picture, *(light_picture(pictured.picture, places, pictured.grid) for places in maps)]
    across = min(ACROSS, len(pictures))
    down = math.ceil(len(pictures) / across)
    figure = begin_figure(0.4 + 1.9 * across, 0.6 + 2.1 * down)
    panels = figure.subplots(down, across, squeeze=False).flatten()
    for axes in panels:
        axes.set_axis_off()
    for axes, name, seen in zip(panels, names, pictures, strict=False):
        shown = seen if seen.shape[2] == 3 else seen[..., 0]
        axes.imshow(shown, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        axes.set_title(name, fontsize=11, color=GREY, parse_math=False)
    figure.suptitle(look.reading.text, fontsize=12, parse_math=False)
    return figure
