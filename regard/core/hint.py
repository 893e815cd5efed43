"""What an unknown word may have meant by a slip of the finger. What others call our settings is in `foreign.py`.

A hint that leads somewhere else is worse than none, so only near misses count as slips.
"""

from __future__ import annotations

import re
from collections.abc import Iterable


def suggest(word: object, known: Iterable[str]) -> str:
    """The end of a message about an unknown word: what it may have meant, or all that is known."""
    names = sorted(known)
    listed = f"; known: {', '.join(names)}"
    if not isinstance(word, str):
        return listed
    kin = [name for name in names if name.startswith(f"{word.lower()}-")]
    if len(kin) > 1:
        return f"; which one? {', '.join(kin)}"
    near = nearest(word, names)
    return f"; did you mean {near!r}?" if near else listed


def suggest_preset(word: object, known: Iterable[str]) -> str:
    """What is said of a preset that nobody knows: a few that are near, and where all are, since there are many."""
    names = sorted(known)
    told = suggest(word, names)
    if not told.startswith("; known"):
        return told
    near = find_relatives(word, names) if isinstance(word, str) else []
    listed = f"; near it: {', '.join(near)}" if near else ""
    return (
        f"{listed}; `regard show` lists all, and weights of others are no preset: "
        "`regard import hf:OWNER/NAME` brings them here, and start=FOLDER goes on from them"
    )


def find_relatives(word: str, names: Iterable[str], most: int = 5) -> list[str]:
    """Names that share the most with a word from their beginnings on, or that have its first part within them."""
    word = word.lower().rpartition("/")[2]
    family = re.split(r"[-_\d.]", word)[0]
    shared = {name: count_shared(word, name) for name in names}
    kin = [name for name in shared if shared[name] >= 3 or (len(family) >= 3 and family in name)]
    return sorted(kin, key=lambda name: (-shared[name], name))[:most]


def count_shared(one: str, other: str) -> int:
    """The letters that two words begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (mine, yours) in pairs if mine != yours), min(len(one), len(other)))


def nearest(word: str, names: list[str]) -> str | None:
    """The one known word that is a slip away; none where two are as near. Other digits are another thing: 7b, 8b."""
    word, most = word.lower(), 1 if len(word) < 7 else 2
    alike = [name for name in names if abs(len(name) - len(word)) <= most and digits(name) == digits(word)]
    ranked = sorted((slips(word, name.lower()), name) for name in alike)
    if not ranked or ranked[0][0] > most or (len(ranked) > 1 and ranked[0][0] == ranked[1][0]):
        return None
    return ranked[0][1]


def digits(word: str) -> str:
    """The digits of a word; one that was typed twice counts once."""
    return re.sub(r"(\d)\1+", r"\1", re.sub(r"\D", "", word))


def slips(one: str, other: str) -> int:
    """Letters lost, added or changed, and neighbours swapped, that turn one word into another (Damerau 1964)."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        last, before, row = before, row, [i]
        for j, wanted in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]
