"""Do we get alignment for free? Links that attention draws while it learns to translate, and what a cut head costs.

Nobody tells a translator which words belong together, yet its attention comes to link them (Bahdanau et al. 2015).
That shows what it looks at, not why: a head is needed or not whatever its map looks like (Jain and Wallace 2019).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from regard.core.probe import Edit
from regard.host.meter import Advance
from regard.lab.apparatus.bench import Bench
from regard.lab.apparatus.experiment import Conclusion, Experiment, Rows, Tables
from regard.lab.apparatus.recipe import make_translation
from regard.lab.apparatus.translation import answer_pairs, link_split, list_head_scores
from regard.lens.alignment import list_layers
from regard.lens.links import AlignmentScore, Links, measure_links
from regard.lens.plot import Plot, Point, make_series
from regard.runs import demo
from regard.runs.align import read_pairs
from regard.runs.folder import Run
from regard.runs.load import load_translator
from regard.tasks.translation import list_pairs
from regard.train.checkpoint import Store
from regard.train.listener import history

LEARNING, CUTS = "links while it learns", "what a cut head costs"
RECURRENT, TRANSFORMER, DIAGONAL = "recurrent network", "Transformer", "diagonal"
WHOLE = "none"
# the demo's models and their rates, which were chosen on validation sentences
MODELS = {RECURRENT: demo.MODELS["attention"], TRANSFORMER: demo.MODELS["transformer"]}
RATES = {RECURRENT: demo.RATES["attention"], TRANSFORMER: demo.RATES["transformer"]}


class Alignment(Experiment):
    """Two translators at several steps of their training; then one loses a head at a time."""

    name = "alignment"
    place = 180
    question = "Do we get alignment for free?"
    claim = (
        "Attention comes to link the words that belong together without being told; but its map shows what is looked "
        "at, not why: the head that links best isn't the one that the translator needs most."
    )
    method = (
        "A recurrent network with attention and a Transformer learn to translate. At several steps each target word "
        "is linked to the source word with the most weight, in the head whose links are the most consistent, and "
        "compared with the corpus's own links. Then each head that looks at the source is cut in turn, and the test "
        "sentences that are still right are counted."
    )
    minutes = 2
    full_minutes = 5

    def measure(self, bench: Bench) -> Tables:
        tokens, every = bench.choose((300_000, 120), (1_200_000, 300))
        trees = {
            MODELS[name]["kind"]: make_translation(MODELS[name], tokens, RATES[name], batch=256, save=every, keep=1000)
            for name in MODELS
        }
        runs = dict(zip(MODELS, bench.train(trees).values(), strict=True))
        steps = {
            name: [found.step for found in Store(run.folder / "checkpoints").list_steps()] for name, run in runs.items()
        }
        learning: list[dict[str, Any]] = []
        with bench.watch("linking words, checkpoints", sum(map(len, steps.values()))) as advance:
            for name, run in runs.items():
                learning += follow_links(name, run, steps[name], advance)
        learning.append(measure_diagonal(runs[TRANSFORMER]))
        scores = list_head_scores(link_split(str(runs[TRANSFORMER].folder)))
        return {LEARNING: learning, CUTS: cut_heads(bench, runs[TRANSFORMER], scores)}

    def conclude(self, tables: Tables) -> Conclusion:
        learning, cuts = tables[LEARNING], tables[CUTS]
        begun, ended = ({name: pick_end(learning, name, at) for name in MODELS} for at in (0, -1))
        diagonal = pick_end(learning, DIAGONAL, 0)["AER"]
        whole = next(row for row in cuts if row["cut"] == WHOLE)
        heads = [row for row in cuts if row["cut"] != WHOLE]
        aligned, needed = min(heads, key=lambda row: row["AER"]), max(heads, key=lambda row: row["loss"])
        free = all(ended[name]["AER"] < min(diagonal, begun[name]["AER"]) for name in MODELS)
        fell = " and ".join(
            f"from {begun[name]['AER']:.0%} to {ended[name]['AER']:.0%} in the {name}" for name in MODELS
        )
        other = (
            "which is also the costliest to lose"
            if aligned is needed
            else f"while head {needed['cut']}, with an error of {needed['AER']:.0%}, costs "
            f"{100 * (whole['exact'] - needed['exact']):.0f}"
        )
        told = (
            f"The error rate of attention's links goes {fell}; a diagonal has {diagonal:.0%}; cutting the "
            f"Transformer's best-aligned head ({aligned['cut']}, {aligned['AER']:.0%}) costs "
            f"{100 * (whole['exact'] - aligned['exact']):.0f} points of exact match, {other}."
        )
        return Conclusion(free and aligned is not needed, told)

    def draw(self, tables: Tables) -> Sequence[Plot]:
        learning, cuts = tables[LEARNING], tables[CUTS]
        errors = make_series(learning, "model", "tokens", "AER")
        last = max(row["tokens"] for row in learning if row["tokens"] is not None)
        diagonal = pick_end(learning, DIAGONAL, 0)["AER"]
        guide = {DIAGONAL: [Point(place, diagonal) for place in (0, last)]}
        exact = {"exact match": [Point(row["cut"], 100 * row["exact"]) for row in cuts]}
        wrong = {
            "error rate of its links": [Point(row["cut"], 100 * row["AER"]) for row in cuts if row["AER"] is not None]
        }
        return [
            Plot("Error rate of attention's links", "target tokens of training", "error rate", errors, guides=guide),
            Plot("What is left without a head", "head that is cut", "%", exact | wrong),
        ]


def pick_end(rows: Rows, name: str, at: int) -> Mapping[str, Any]:
    """A model's first row, or its last."""
    return [row for row in rows if row["model"] == name][at]


def follow_links(name: str, run: Run, steps: Iterable[int], advance: Advance) -> list[dict[str, Any]]:
    """Loss, exact match and the error of attention's links on test sentences, at steps whose checkpoints are there."""
    seen = {line["step"]: line["tokens"] for line in history(run.folder / "metrics.jsonl") if line["event"] == "step"}
    pairs = list_pairs(run.prepared().samples("test"))
    rows = []
    for step in steps:
        noun = f"{run.folder}@step-{step}"
        found, linked = answer_pairs(load_translator(noun), pairs), link_split(noun)
        assert linked.score is not None
        score = linked.score
        rows.append(
            {
                "model": name,
                "step": step,
                "tokens": seen.get(step),
                "loss": found.loss,
                "exact": found.exact,
                "AER": score.error_rate,
                "low": score.error_rate_low,
                "high": score.error_rate_high,
            }
        )
        advance()
    return rows


def measure_diagonal(run: Run) -> dict[str, Any]:
    """The error of links that know the lengths of both sentences and nothing else."""
    pairs, gold = read_pairs(str(run.folder), [], "test")
    assert gold is not None
    links = [link_diagonal(len(source.spans), len(target.spans)) for source, target in pairs]
    score = measure_links(links, gold)
    row = {"model": DIAGONAL, "step": None, "tokens": None, "loss": None, "exact": None}
    return row | {"AER": score.error_rate, "low": score.error_rate_low, "high": score.error_rate_high}


def link_diagonal(source: int, target: int) -> Links:
    """Each target word with the source word at the same share of the sentence."""
    return frozenset((min(source - 1, int((place + 0.5) * source / target)), place) for place in range(target))


def cut_heads(bench: Bench, run: Run, scores: Mapping[tuple[int, int], AlignmentScore]) -> list[dict[str, Any]]:
    """Loss and exact match of the whole model, then without each head that looks at the source."""
    translator, pairs = load_translator(str(run.folder)), list_pairs(run.prepared().samples("test"))
    layers = list_layers(translator)
    whole = answer_pairs(translator, pairs)
    rows: list[dict[str, Any]] = [{"cut": WHOLE, "AER": None, "loss": whole.loss, "exact": whole.exact}]
    with bench.watch("cutting heads", len(scores)) as advance:
        for (layer, head), score in scores.items():
            context = layers[layer].replace(".weights", ".context")
            left = answer_pairs(translator, pairs, Edit.zero(context, head=head))
            rows.append({"cut": f"{layer}.{head}", "AER": score.error_rate, "loss": left.loss, "exact": left.exact})
            advance()
    return rows
