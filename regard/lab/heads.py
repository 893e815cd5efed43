"""What do heads do? Where each looks, what it is worth, and how many can go before a translator falls.

Some heads of a trained Transformer have roles that a person can name (Clark et al. 2019; Voita et al. 2019), and a
fifth to two fifths of all can be taken away without much harm, the least important first (Michel et al. 2019).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from random import Random
from typing import Any

import numpy as np

from regard.core.probe import Edit
from regard.data.reader import Pair
from regard.decode.translator import Translator
from regard.lab.apparatus.bench import Bench
from regard.lab.apparatus.experiment import Conclusion, Experiment, Rows, Tables
from regard.lab.apparatus.recipe import make_translation
from regard.lab.apparatus.translation import answer_pairs, link_split, list_head_scores
from regard.lens.importance import ablate_heads
from regard.lens.keep import summarise
from regard.lens.look import Look
from regard.lens.plot import Plot, Point, make_series
from regard.runs.load import load_translator
from regard.tasks.translation import list_pairs

ROLES, REMOVED = "what each head does", "what is left without some"
LEAST, RANDOM = "least important first", "at random"
SHARES = ("previous", "same", "next", "delimiter")  # of a head's weight
ALIGNED = "translation"
NO_ROLE = "–"
ALLOWED = 0.05  # exact match may fall by this much
ENOUGH = 0.2  # of the heads, the lower end of what Michel et al. found
Head = tuple[str, int]  # the name of its context, and its number there


class Heads(Experiment):
    """A Transformer of two layers with four heads in each of its attentions."""

    name = "heads"
    place = 100
    question = "What do heads do?"
    claim = (
        "Some heads have a role that can be named, and some hardly matter: a fifth of them, the least important "
        "first, can go before exact match falls by more than 5 points, and more than at random."
    )
    method = (
        "A Transformer learns to translate. On validation sentences: the shares of each head's weight on the "
        "previous, the same and the next position and on delimiters, how many words of the right translation it finds, "
        "and what the loss becomes without it. Then heads are removed, the least important first or at random, and "
        "test sentences that are still right are counted."
    )
    minutes = 2
    full_minutes = 6

    def measure(self, bench: Bench) -> Tables:
        tokens, orders, texts = bench.choose((500_000, 3, 60), (2_000_000, 10, 200))
        tree = make_translation(MODEL, tokens, RATE)
        tree["corpus"]["validation"] = 300
        run = bench.train({"transformer": tree})["transformer"]
        translator = load_translator(str(run.folder))
        known, test = (list_pairs(run.prepared().samples(split)) for split in ("validation", "test"))
        with bench.watch("looking at sentences", texts) as advance:
            looks = []
            for source, target in known[:texts]:
                looks.append(translator.look(source, target))
                advance()
        heads = describe_heads(looks)
        for (layer, head), score in list_head_scores(link_split(str(run.folder), "validation")).items():
            heads[f"decoder.blocks.{layer}.cross.context", head]["linked"] = score.precision
        worth = ablate_heads(looks).heads
        for (name, head), row in heads.items():
            row |= {"role": name_role(row), "cost": float(worth[name][head])}
        least = sorted(heads, key=lambda place: heads[place]["cost"])
        curves = {LEAST: [least], RANDOM: [shuffle(least, seed) for seed in range(bench.seed, bench.seed + orders)]}
        return {ROLES: list(heads.values()), REMOVED: remove_heads(bench, translator, test, curves)}

    def conclude(self, tables: Tables) -> Conclusion:
        heads, removed = tables[ROLES], tables[REMOVED]
        least, random = (count_spare(removed, order) for order in (LEAST, RANDOM))
        roles: dict[str, int] = {}
        for row in heads:
            if row["role"] != NO_ROLE:
                roles[row["role"]] = roles.get(row["role"], 0) + 1
        named = ", ".join(f"{count} {role}" for role, count in sorted(roles.items(), key=lambda item: -item[1]))
        whole = next(row["exact"] for row in removed if row["removed"] == 0)
        told = (
            f"{sum(roles.values())} of {len(heads)} heads have a role that can be named ({named or 'none'}); "
            f"{least} can be removed, the least important first, before exact match falls by over {100 * ALLOWED:.0f} "
            f"points from {whole:.0%}, and {random} at random."
        )
        return Conclusion(bool(roles) and least >= ENOUGH * len(heads) and least > random, told)

    def draw(self, tables: Tables) -> Sequence[Plot]:
        rows = [{**row, "exact": 100 * row["exact"]} for row in tables[REMOVED]]
        exact, loss = (make_series(rows, "order", "removed", value) for value in ("exact", "loss"))
        costs = {"cost": [Point(row["head"], row["cost"]) for row in tables[ROLES]]}
        return [
            Plot("Exact match without some heads", "heads removed", "% right to the letter", exact),
            Plot("Loss without some heads", "heads removed", "nats a token", loss),
            Plot("What the loss gains without a head", "head", "nats a token", costs),
        ]


# the demo's Transformer with half as many heads in twice as many layers, and its rate, chosen on validation sentences
MODEL: dict[str, Any] = {
    "kind": "transformer-tiny",
    "depth": 2,
    "heads": 4,
    "mix": {"kind": "attention", "heads": 4, "position": "rotary"},
    "dropout": 0.0,
}
RATE = 0.004


def describe_heads(looks: Sequence[Look]) -> dict[Head, dict[str, Any]]:
    """Where each head looks, the mean over texts; a head over the source has no previous or next position."""
    found: dict[Head, list[Mapping[str, float]]] = {}
    for look in looks:
        weights = look.weights("*.weights")
        for place in look.maps():
            for head, numbers in enumerate(summarise(look, place, weights)):
                found.setdefault((place.name.replace(".weights", ".context"), head), []).append(numbers)
    rows: dict[Head, dict[str, Any]] = {}
    for (name, head), each in found.items():
        stack, _, layer, part, _ = name.split(".")
        where = f"{stack if part == 'mix' else 'source'} {layer}.{head}"
        means = {key: float(np.mean([numbers[key] for numbers in each])) for key in ("entropy", "distance", *SHARES)}
        apart = ("distance", "previous", "same", "next") if part == "cross" else ()
        rows[name, head] = {"head": where, **means, **dict.fromkeys(apart), "linked": None}
    return rows


def name_role(row: Mapping[str, Any]) -> str:
    """What most of a head's weight goes to, or that most of its links are right; else it has no role."""
    shares = {ALIGNED: row["linked"] or 0.0} | {name: row[name] or 0.0 for name in SHARES}
    best = max(shares, key=lambda name: shares[name])
    return best if shares[best] > 0.5 else NO_ROLE


def shuffle(heads: Sequence[Head], seed: int) -> list[Head]:
    """The same heads in an order of chance."""
    return Random(seed).sample(list(heads), len(heads))


def remove_heads(
    bench: Bench, translator: Translator, pairs: Sequence[Pair], curves: Mapping[str, Sequence[Sequence[Head]]]
) -> list[dict[str, Any]]:
    """Loss and exact match without the first heads of each order; the mean where there are several."""
    count = len(next(iter(curves.values()))[0])
    sizes = range(count + 1)
    rows = []
    with bench.watch("removing heads", len(sizes) * sum(map(len, curves.values()))) as advance:
        for name, orders in curves.items():
            for size in sizes:
                left = []
                for order in orders:
                    left.append(answer_pairs(translator, pairs, make_cut(order[:size])))
                    advance()
                loss, exact = (float(np.mean([getattr(each, key) for each in left])) for key in ("loss", "exact"))
                rows.append({"order": name, "removed": size, "loss": loss, "exact": exact})
    return rows


def make_cut(heads: Sequence[Head]) -> Edit:
    """The edit that takes some heads away."""
    return reduce(or_, (Edit.zero(name, head=head) for name, head in heads), Edit({}))


def count_spare(rows: Rows, order: str) -> int:
    """How many heads can go in an order before exact match has fallen by more than is allowed."""
    curve = sorted((row["removed"], row["exact"]) for row in rows if row["order"] == order)
    spare = 0
    for removed, exact in curve:
        if exact < curve[0][1] - ALLOWED:
            break
        spare = removed
    return spare
