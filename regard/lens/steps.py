"""How long a model thought at each token, where it decides that itself: steps of a recurrence, or rounds of blocks."""

from __future__ import annotations

from dataclasses import dataclass

from regard.lens.look import Axis, Look, WordLook


@dataclass(frozen=True)
class Steps:
    """What one part of a model took at each token."""

    name: str  # the part
    axis: Axis  # the tokens that it read
    counts: list[float]  # one a token, or the mean over a word's pieces


def count_steps(look: Look) -> list[Steps]:
    """The steps of every part of a look that decides on them; nothing where none does."""
    names = [name for name in look.names() if name.endswith(".steps")]
    found = []
    for name in names:
        counts = look.values(name)[name][:, 0].float()  # (tokens,)
        axis = look.read_by(name)
        if isinstance(look, WordLook):
            spans = look.spans(axis, len(counts))
            found.append(Steps(name, axis, [float(counts[first:last].mean()) for first, last in spans]))
        else:
            found.append(Steps(name, axis, counts.tolist()))
    return found
