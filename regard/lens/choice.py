"""Which weights of a look are meant: a head, a layer, the mean of all of the kind that says most, or their rollout."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from regard.errors import InputError
from regard.lens.flow import attention_rollout
from regard.lens.look import AttentionMap, Look


@dataclass(frozen=True)
class Chosen:
    """Weights that were chosen among all of a look: (queries, keys)."""

    title: str
    place: AttentionMap
    weights: Tensor


def choose_weights(look: Look, head: str = "mean", maps: Sequence[AttentionMap] = ()) -> Chosen:
    """One head (`3.2`: layer 3, head 2), the mean of a layer's heads (`3`), of all (`mean`), or all layers' `rollout`.

    Where a look is about several kinds of attention, it is the one over the source, or else that of the stack that
    answers. `maps`: those to choose among, where somebody knows better.
    """
    if head == "rollout":
        return choose_rollout(look)
    maps = maps or main_maps(look)
    kind = f"{maps[0].stack} {maps[0].part}" + (f" {maps[0].what}" if maps[0].what != "weights" else "")
    if head == "mean":
        all_heads = torch.cat([look.weights(place.name)[place.name] for place in maps])
        count = f"{len(all_heads)} heads" if len(all_heads) > 1 else "one head"
        return Chosen(f"{kind}, the mean of {count}", maps[0], all_heads.mean(0))
    match = re.fullmatch(r"(\d+)(?:\.(\d+))?", head)
    if match is None:
        raise InputError(f"--head {head}: which one is that?", "--head LAYER.HEAD, LAYER, mean or rollout")
    layer = int(match.group(1))
    place = next((place for place in maps if place.layer == layer), None)
    if place is None:
        there = ", ".join(str(place.layer) for place in maps)
        raise InputError(f"--head {head}: {kind} has no layer {layer}", f"layers, counted from 0: {there}")
    heads = look.weights(place.name)[place.name]
    if match.group(2) is None:
        return Chosen(f"{kind}, layer {layer}, the mean of {len(heads)} heads", place, heads.mean(0))
    number = int(match.group(2))
    if number >= len(heads):
        raise InputError(f"--head {head}: layer {layer} has {len(heads)} heads, counted from 0", f"--head {layer}.0")
    return Chosen(f"{kind}, layer {layer}, head {number}", place, heads[number])


def choose_rollout(look: Look) -> Chosen:
    """What all layers of a stack pass on from its own positions: weights of one layer tell one step of it."""
    stack: Literal["encoder", "decoder"] = "encoder" if main_maps(look)[0].stack == "encoder" else "decoder"
    shares = attention_rollout(look, stack).shares
    axis = look.read_by(f"{stack}.")
    layers = f"{len(shares)} layers" if len(shares) > 1 else "one layer"
    place = AttentionMap("rollout", stack, "rollout", "rollout", 0, axis, axis)
    return Chosen(f"{stack}, rollout of {layers}", place, shares[-1])


def main_maps(look: Look) -> list[AttentionMap]:
    """The maps of one kind: over the source if there are any, else of the stack that answers."""
    maps = look.maps()
    if not maps:
        from regard.lens.keep import explain_blindness

        raise InputError(f"there is no attention to show: {explain_blindness(look)}", "--json gives its predictions")
    crossing = [place for place in maps if place.stack == "decoder" and place.columns == "source"]
    own = [place for place in maps if place.stack == maps[-1].stack]
    # a head that points or copies comes last, and says what the answer itself looks at
    first = crossing[-1] if crossing else ([place for place in own if place.what == "weights"] or own)[0]
    return [place for place in maps if (place.stack, place.part, place.what) == (first.stack, first.part, first.what)]
