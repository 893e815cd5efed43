"""Where a memory of slots is written and read, as papers draw it: addresses downwards, time to the right.

Slots that nobody looks at are left out, so that a head that moves on by one slot a step is seen as a diagonal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from regard.lens.choice import choose_weights
from regard.lens.grid import labels
from regard.lens.look import Look
from regard.lens.shades import draw_small

USED = 0.02  # the least weight by which a slot counts as looked at
ORDER = ("write_weights", "read_weights")  # what is written comes before what is read


@dataclass(frozen=True)
class Addresses:
    """One head's way over the slots that it looks at."""

    what: str  # write or read
    title: str
    weights: Tensor  # (slots, time)
    slots: list[str]  # their numbers
    tokens: list[str]  # what is read at each time


def looks_at_slots(look: Look) -> bool:
    """Whether a look is about a memory of slots, and about nothing else."""
    maps = look.maps()
    return bool(maps) and all(place.columns == "slots" for place in maps)


def list_addresses(look: Look, head: str = "mean") -> Iterator[Addresses]:
    """What is written and what is read by the heads that are meant (`choose_weights`)."""
    for what in ORDER:
        maps = [place for place in look.maps() if place.what == what]
        if maps:
            chosen = choose_weights(look, head, maps)
            tokens = look.label(chosen.place.rows, len(chosen.weights))
            yield cut_slots(what.removesuffix("_weights"), chosen.title, chosen.weights, tokens)


def list_heads(look: Look) -> list[str]:
    """Every head by its layer and number, as `choose_weights` takes them, where all kinds have as many; else layers."""
    counts = {place.name: len(look.weights(place.name)[place.name]) for place in look.maps()}
    layers = sorted({place.layer for place in look.maps()})
    if len(set(counts.values())) > 1:
        return [str(layer) for layer in layers]
    return [f"{layer}.{head}" for layer in layers for head in range(next(iter(counts.values())))]


def cut_slots(what: str, title: str, weights: Tensor, tokens: list[str]) -> Addresses:
    """Weights of (time, slots) without the longest run of slots that nobody looks at; slots are a ring."""
    count = weights.shape[1]
    used = (weights.amax(0) >= USED).nonzero()[:, 0].tolist() or [0]
    # from each slot to the next, around: the longest way ends where the picture begins
    gaps = [(after - before - 1) % count for before, after in zip([used[-1], *used], used, strict=False)]
    longest = max(gaps)
    first = used[gaps.index(longest)]
    slots = [(first + n) % count for n in range(count - longest)]
    return Addresses(what, title, weights[:, slots].T, [str(slot) for slot in slots], tokens)


def draw_addresses(look: Look, head: str = "mean", *, color: bool, width: int = 80) -> str:
    """Two slots a line, with the number of the first, and the first letter of each token above; long texts fold."""
    lines: list[str] = []
    for found in list_addresses(look, head):
        gutter = max(map(len, found.slots)) + 1
        lines.append(f"{found.title}: slots downwards, time to the right")
        letters = [label[:1] or " " for label in labels(found.tokens)]
        for start in range(0, len(letters), width - gutter):
            part = slice(start, start + width - gutter)
            lines.append(" " * gutter + "".join(letters[part]))
            drawn = draw_small(found.weights[:, part], color, float(found.weights.max()))
            lines += [f"{slot:>{gutter - 1}} {line}" for slot, line in zip(found.slots[::2], drawn, strict=True)]
            lines.append("")
    return "\n".join(lines).rstrip("\n")
