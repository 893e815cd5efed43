"""What does an order do where there is none? One model on the same graphs, with their nodes sorted in each way.

Mamba reads nodes one after the other, so that somebody must say who comes first (Wang et al. 2024; Behrouz & Hashemi
2024). Message passing and attention take nodes for a set, and can't tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from regard.core.role import NodeOrder
from regard.lab.apparatus.bench import Bench
from regard.lab.apparatus.experiment import Conclusion, Experiment, Tables
from regard.lens.plot import Plot, make_series

ORDERS: tuple[NodeOrder, ...] = get_args(NodeOrder)
TABLE = "accuracy on nodes, by the order in which they are read"
MESSAGES, ATTENTION = "messages, no order", "attention, no order"
TURNS = 5  # orders of each graph that a figure is measured in


class NodeOrders(Experiment):
    """The same model with nodes in each order, beside two that see none."""

    name = "graphs"
    place = 190
    question = "What does an order do where there is none?"
    claim = (
        "A model that reads nodes as a sequence depends on how they are sorted: what it answers changes with the "
        "names of the nodes, and an order that follows the graph serves it better than one by chance."
    )
    method = (
        "Nodes of random trees are told by their distance from the nearest leaf. One model, Mamba, reads nodes that "
        "know how likely a walk is to be back after one to three steps, and sees no edge: who stands beside whom is "
        "all that it has of the tree. It learns with nodes in each of seven orders. Two that see no order stand beside "
        "it: attention in Mamba's place, and messages along the edges (GIN). Every figure is a mean over five orders "
        "of each test tree, and the spread is the standard deviation over these."
    )
    minutes = 4
    full_minutes = 20

    def measure(self, bench: Bench) -> Tables:
        steps, test = bench.choose((150, 200), (1200, 500))
        trees = {ATTENTION: describe_run(steps, test, "attention"), MESSAGES: describe_run(steps, test, messages="gin")}
        trees |= {order: describe_run(steps, test, "mamba", order=order) for order in ORDERS}
        runs = bench.train({spell(name): tree for name, tree in trees.items()})
        rows = []
        with bench.watch("measuring orders", len(trees)) as advance:
            for name in trees:
                rows.append(tell_order(name, bench.evaluate(runs[spell(name)])))
                advance()
        return {TABLE: rows}

    def conclude(self, tables: Tables) -> Conclusion:
        rows = {row["order"]: row for row in tables[TABLE]}
        read = [rows[order] for order in ORDERS]
        best, chance = max(read, key=lambda row: row["accuracy"]), rows["random"]
        widest = max(read, key=lambda row: row["spread"])
        margin = 2 * max(best["spread"], chance["spread"])
        shown = widest["spread"] > 0 and best["accuracy"] - chance["accuracy"] > margin
        told = (
            f"Sorted by {best['order']} the model has {best['accuracy']:.1%} of the nodes right, in an order by chance "
            f"{chance['accuracy']:.1%}, and other names of the nodes move it by up to {widest['spread']:.2%} "
            f"({widest['order']}), while attention, which sees neither order nor edges, has "
            f"{rows[ATTENTION]['accuracy']:.1%} and messages along the edges have {rows[MESSAGES]['accuracy']:.1%}."
        )
        return Conclusion(shown, told)

    def draw(self, tables: Tables) -> Sequence[Plot]:
        places = {order: n + 1 for n, order in enumerate((*ORDERS, ATTENTION, MESSAGES))}
        rows = [{**row, "place": places[row["order"]]} for row in tables[TABLE]]
        series = make_series(rows, "order", "place", "accuracy", ("low", "high"))
        named = ", ".join(f"{place} {order}" for order, place in places.items())
        return [Plot("Nodes that are right, by their order", named, "accuracy", series)]


def spell(name: str) -> str:
    """The name of a run's folder."""
    return name.replace(" ", "-")


def describe_run(
    steps: int, test: int, beside: str = "none", messages: str = "none", order: NodeOrder = "given"
) -> dict[str, Any]:
    """One model on trees. With messages beside Mamba all orders came to 99.1 %, so that there was nothing to tell."""
    return {
        "task": {"kind": "graphs", "answer": "node-labels", "orders": TURNS},
        "corpus": {"kind": "trees", "sizes": [12, 32], "train": 32 * steps, "validation": 1, "test": test},
        "batches": {"rows": 32},
        "model": {
            "kind": "graph-mamba",
            "messages": messages,
            "beside": beside,
            "order": order,
            "width": 32,
            "depth": 2,
            "heads": 2,
            "walks": 3,
        },
        "train": {
            "steps": steps,
            "optimizer": {"kind": "adamw", "rate": 0.003, "decay": 0.01},
            "schedule": {"kind": "linear", "warmup": 20},
            "evaluate": 0,
            "save": 100_000,
        },
    }


def tell_order(name: str, measures: Mapping[str, Any]) -> dict[str, Any]:
    """One row: the mean over orders, and how far it moves; of a model that sees no order, by nothing."""
    return {
        "order": name,
        "accuracy": measures.get("order_mean", measures["accuracy"]),
        "spread": measures.get("order_spread", 0.0),
        "averaged": measures["accuracy"],
        "low": measures["accuracy_low"],
        "high": measures["accuracy_high"],
    }
