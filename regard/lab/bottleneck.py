"""Does one vector suffice? Exact match by the length of the sentence, with one vector between two networks and without.

A decoder that is given the encoder's last state alone must find a whole sentence in it (Sutskever et al. 2014); one
that attends looks at all states again for each word (Bahdanau et al. 2015). The mean of all states stands between: it
sees everything, and can't choose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from regard.lab.apparatus.bench import Bench
from regard.lab.apparatus.experiment import Conclusion, Experiment, Tables
from regard.lab.apparatus.recipe import make_translation
from regard.lab.apparatus.translation import answer_pairs, translate_split
from regard.lens.plot import Plot, Point
from regard.runs import demo
from regard.runs.demo import LENGTHS, by_length
from regard.runs.folder import Run
from regard.runs.load import load_bundle, load_translator
from regard.tasks.measures import average
from regard.tasks.translation import list_pairs

QUALITY = "exact match by words of the English sentence"
LOSS = "nats a token by words of the English sentence"
NONE, MEAN, ATTENTION, TRANSFORMER = "one vector", "mean", "multiplicative", "transformer"
SCORES = ("dot", "scaled", ATTENTION, "reduced", "additive", "location")
SHORT, *_, LONG = LENGTHS
RECURRENT = {"cell": "gru", "dropout": 0.0}
# each has the width that makes nearly 480,000 parameters with 2,000 pieces, as the demo's attention has at 128; a width
# is even, as both directions of the reader share it, and a Transformer's goes by 16: 8 heads of pairs of channels
WIDTHS = {
    NONE: 138,
    MEAN: 132,
    "dot": 132,
    "scaled": 132,
    ATTENTION: 128,
    "reduced": 128,
    "additive": 126,
    "location": 130,
    TRANSFORMER: 112,
}
MODELS: dict[str, dict[str, Any]] = {
    NONE: {"kind": "seq2seq", **RECURRENT},
    MEAN: {"kind": "seq2seq-mean", **RECURRENT},
    **{score: {"kind": "luong", **RECURRENT, "score": score} for score in SCORES},
    TRANSFORMER: demo.MODELS["transformer"],
}
# chosen on validation sentences with another seed: one vector among 0.006 and 0.008, the multiplicative and the reduced
# score among 0.003, 0.0045 and 0.007, which all that attends and the mean have too; the Transformer's is the demo's
RATES = dict.fromkeys(MODELS, 0.007) | {NONE: 0.008, TRANSFORMER: 0.004}


class Bottleneck(Experiment):
    """Nine translators of one size on the same sentences."""

    name = "bottleneck"
    place = 20
    question = "Does one vector suffice?"
    claim = (
        "One vector is a bottleneck: the longer the sentence, the further it falls behind a translator that attends."
    )
    method = (
        "Two recurrent networks that pass one vector, the same with the mean of all states, with each score of "
        "attention, and a Transformer learn from the same sentences in the same order, all with nearly as many "
        "parameters. Measured on test sentences, by their length: how many are right to the letter, and the "
        "loss, which still tells long sentences apart when none is right."
    )
    minutes = 3.5
    full_minutes = 30

    def measure(self, bench: Bench) -> Tables:
        tokens, seeds = bench.choose(250_000, 800_000), bench.seeds(1, 3)
        runs = bench.train(
            {
                name_run(name, seed): make_translation(describe_model(name), tokens, RATES[name], test=1000, batch=256)
                | {"seed": seed}
                for name in MODELS
                for seed in seeds
            }
        )
        exact, nats = list[dict[str, Any]](), list[dict[str, Any]]()
        with bench.watch("translating, models", len(MODELS)) as advance:
            for name in MODELS:
                each = [runs[name_run(name, seed)] for seed in seeds]
                model = {"model": name, "parameters": count_parameters(each[0])}
                exact.append(model | average_rows([measure_exact(run) for run in each]))
                nats.append(model | average_rows([measure_loss(run) for run in each]))
                advance()
        return {QUALITY: exact, LOSS: nats}

    def conclude(self, tables: Tables) -> Conclusion:
        exact, nats = ({row["model"]: row for row in tables[title]} for title in (QUALITY, LOSS))
        narrow, wide = exact[NONE], exact[ATTENTION]
        near, far = (nats[NONE][length] - nats[ATTENTION][length] for length in (SHORT, LONG))
        told = (
            f"With one vector, {narrow[SHORT]:.0%} of the sentences with {SHORT} are right and {narrow[LONG]:.0%} of "
            f"those with {LONG}, with multiplicative attention {wide[SHORT]:.0%} and {wide[LONG]:.0%}; one vector is "
            f"{near:.2f} nats a token behind in the former and {far:.2f} in the latter, and of all sentences the mean "
            f"of all states gets {exact[MEAN]['exact']:.0%}, one vector {narrow['exact']:.0%}, attention "
            f"{wide['exact']:.0%} and the Transformer {exact[TRANSFORMER]['exact']:.0%}."
        )
        # shares can't fall below zero, so exact match must only not speak against it
        return Conclusion(far > max(near, 0.0) and wide[LONG] > narrow[LONG], told)

    def draw(self, tables: Tables) -> Sequence[Plot]:
        exact, nats = (
            {row["model"]: [Point(length, scale * row[length]) for length in LENGTHS] for row in tables[title]}
            for title, scale in ((QUALITY, 100), (LOSS, 1))
        )
        across = "words of the English sentence"
        return [
            Plot("Exact match by the length of the sentence", across, "% right to the letter", exact),
            Plot("Loss by the length of the sentence", across, "nats a token", nats),
        ]


def describe_model(name: str) -> dict[str, Any]:
    """One of the models at its width, as a run file has it."""
    return {**MODELS[name], "width": WIDTHS[name]}


def name_run(name: str, seed: int) -> str:
    return f"{name.replace(' ', '-')}-{seed}"


def count_parameters(run: Run) -> int:
    return load_bundle(str(run.folder)).model.parameter_count()


def measure_exact(run: Run) -> dict[str, float]:
    """Exact match over all test sentences, then by length."""
    found = translate_split(run)
    return {"exact": found.measures["exact"], **by_length(found.pairs, found.texts)}


def measure_loss(run: Run) -> dict[str, float]:
    """Nats a token over all test sentences, then by length."""
    pairs = list_pairs(run.prepared().samples("test"))
    found = answer_pairs(load_translator(str(run.folder)), pairs)
    words = torch.tensor([len(source.split()) for source, _ in pairs])
    return {"loss": found.loss} | {
        name: float(found.losses[chosen].sum() / found.sizes[chosen].sum())
        for name, (least, most) in LENGTHS.items()
        if (chosen := (words >= least) & (words <= most)).any()
    }


def average_rows(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean over seeds of each column."""
    return {name: average([row[name] for row in rows]).value for name in rows[0]}
