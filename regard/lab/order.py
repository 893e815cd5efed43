"""Does self-attention know order? What shuffled words do to each mixer, and tasks that need their order.

A softmax over keys is a sum, and a sum has no order. So attention without positions is equivariant: shuffled inputs
give the same outputs, shuffled (Vaswani et al. 2017, section 3.5; Lee et al. 2019). What reads its output sees a set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice, product
from math import factorial, prod
from typing import Any

import torch
from torch import Tensor

import regard
from regard.core.mixer import Mixer, MixerSpec
from regard.core.view import View
from regard.data.corpora.algorithms import Problem, problems
from regard.lab.apparatus.bench import Bench
from regard.lab.apparatus.experiment import Conclusion, Experiment, Rows, Tables
from regard.lab.apparatus.recipe import make_algorithm
from regard.lens.plot import Plot, Point
from regard.mixers.attention import Attention
from regard.mixers.convolution import Convolution
from regard.mixers.latent import Latent
from regard.mixers.mamba import Mamba
from regard.mixers.pool import Pool
from regard.mixers.recurrent import Recurrent
from regard.mixers.ssm import SSM
from regard.mixers.turing import Turing
from regard.parts.position import Alibi, Bucketed, Rotary
from regard.tasks.measures import average

SCHEMES = ("none", "sinusoidal", "learned", "rotary", "alibi", "bucketed")
TASKS = ("reverse", "sort")  # the second doesn't ask for order
SIZES = (4, 8)
TEST = 300
ROUNDING = 1e-5  # a relative difference below this is single precision's
ROWS, TIME, WIDTH = 4, 24, 32
TRAINED, MIXED = "a task with each position scheme", "shuffled inputs against shuffled outputs"
MIXERS: dict[str, MixerSpec] = {
    "attention": Attention(heads=4),
    "attention, rotary": Attention(heads=4, position=Rotary()),
    "attention, ALiBi": Attention(heads=4, position=Alibi()),
    "attention, T5 buckets": Attention(heads=4, position=Bucketed(both=True)),
    "attention, window of 4": Attention(heads=4, window=4),
    "attention, causal": Attention(heads=4, causal=True),
    "latent attention": Latent(heads=4, rank=16, size=8, rotary=8, value=8),
    "mean": Pool(),
    "mean, causal": Pool(causal=True),
    "convolution": Convolution(),
    "convolution, causal": Convolution(causal=True),
    "LSTM, both ways": Recurrent(direction="both"),
    "LSTM": Recurrent(),
    "S4D": SSM(),
    "Mamba": Mamba(),
    "Turing machine": Turing(),
}


class Order(Experiment):
    """The equivariance of mixers and encoders as a number, and small Transformers whose positions alone differ."""

    name = "order"
    place = 60
    question = "Does self-attention know order?"
    claim = "Self-attention alone sees a set of words, not a sequence; positions tell it the order."
    method = (
        "Shuffles the inputs of each mixer and compares with its shuffled outputs (0: it doesn't know order); then a "
        "small encoder and decoder learns to reverse letters, which needs their order, and to sort digits, which "
        "doesn't, with each position scheme. A decoder alone wouldn't do: its causal mask tells it the order."
    )
    minutes = 1.5
    full_minutes = 12

    def measure(self, bench: Bench) -> Tables:
        generator = torch.Generator().manual_seed(bench.seed)
        return {TRAINED: self._train(bench, generator), MIXED: compare_mixers(generator)}

    def _train(self, bench: Bench, generator: torch.Generator) -> Rows:
        steps, seeds = bench.choose(400, 1200), bench.seeds(1, 3)
        cells = list(product(SCHEMES, TASKS, seeds))
        runs = bench.train(
            {
                f"{task}-{scheme}-{seed}": describe_run(task, scheme, steps) | {"seed": seed}
                for scheme, task, seed in cells
            }
        )
        exact = {cell: bench.evaluate(runs[f"{cell[1]}-{cell[0]}-{cell[2]}"], beam=1)["exact"] for cell in cells}
        rows, best = [], bound_by_set(islice(problems("reverse", "test 0", SIZES), TEST))
        for scheme in SCHEMES:
            found = {task: average([exact[scheme, task, seed] for seed in seeds]) for task in TASKS}
            rows.append(
                {
                    "position": scheme,
                    "shuffled": compare_encoder(scheme, generator),
                    **{task: found[task].value for task in TASKS},
                    "best of a set": best,
                }
            )
        return rows

    def conclude(self, tables: Tables) -> Conclusion:
        rows = {row["position"]: row for row in tables[TRAINED]}
        blind, told = rows["none"], [row for name, row in rows.items() if name != "none"]
        least = min(row["shuffled"] for row in told)
        worst, *_, best = sorted(told, key=lambda row: float(row["reverse"]))
        sentence = (
            f"Without positions, shuffled inputs give shuffled outputs (relative difference {blind['shuffled']:.0e}; "
            f"with positions at least {least:.2g}), and {blind['reverse']:.1%} of the problems are reversed right, "
            f"where {blind['best of a set']:.1%} is the most that a set allows; with positions {worst['reverse']:.0%} "
            f"({worst['position']}) to {best['reverse']:.0%} ({best['position']}) are; sorting, which needs no order, "
            f"reaches {blind['sort']:.0%} without them."
        )
        # so few problems can't tell what a set allows from three standard errors more
        chance = blind["best of a set"]
        allowed = chance + 3 * (chance * (1 - chance) / TEST) ** 0.5
        seen = blind["shuffled"] < ROUNDING < least and blind["reverse"] <= allowed < worst["reverse"]
        return Conclusion(seen and blind["sort"] > allowed, sentence)

    def draw(self, tables: Tables) -> Sequence[Plot]:
        rows, mixers = tables[TRAINED], tables[MIXED]
        solved = {task: [Point(row["position"], 100 * row[task]) for row in rows] for task in TASKS}
        solved["best of a set at reversing"] = [Point(row["position"], 100 * row["best of a set"]) for row in rows]
        shuffled = {"mixer": [Point(row["mixer"], row["difference"]) for row in mixers]}
        return [
            Plot("Problems solved, by position scheme", "positions", "percent", solved),
            Plot("Shuffled inputs against shuffled outputs", "mixer", "relative difference", shuffled, ("down",)),
        ]


def compare_shuffled(mix: Callable[[Tensor], Tensor], x: Tensor, order: Tensor) -> float:
    """How far mixing shuffled inputs is from shuffling what was mixed: ‖f(Px) − Pf(x)‖ / ‖f(x)‖, P over time."""
    with torch.no_grad():
        plain, shuffled = mix(x), mix(x[:, order])  # (batch, time, width)
    return float((shuffled - plain[:, order]).norm() / plain.norm())


def compare_mixers(generator: torch.Generator) -> Rows:
    """That number for each mixer with fresh weights, and whether a position sees later ones."""
    rows = []
    x = torch.randn(ROWS, TIME, WIDTH, generator=generator)
    order = torch.randperm(TIME, generator=generator)
    for name, spec in MIXERS.items():
        mixer = build_seeded(spec, generator)
        difference = compare_shuffled(lambda x, mixer=mixer: mixer(x, View.of(x)), x, order)  # type: ignore[misc]
        rows.append({"mixer": name, "sees": "earlier" if mixer.causal else "all", "difference": difference})
    return rows


def compare_encoder(scheme: str, generator: torch.Generator) -> float:
    """The same of the whole encoder of the model that is trained, words and positions included, before training."""
    settings = describe_model(scheme)
    spec = regard.preset(settings.pop("kind"), **settings, vocabulary=64)
    with torch.random.fork_rng():
        torch.manual_seed(int(torch.randint(2**31, (), generator=generator)))
        model = spec.build().eval()

    def encode(tokens: Tensor) -> Tensor:
        memory = model.encode(tokens)
        assert memory is not None
        return memory.states

    tokens = torch.randint(64, (ROWS, TIME), generator=generator)
    return compare_shuffled(encode, tokens, torch.randperm(TIME, generator=generator))


def bound_by_set(asked: Iterable[Problem]) -> float:
    """The share that whoever sees the letters of problems without their order can get right at most, on average.

    Letters that are drawn independently make every arrangement of a set equally likely, and an answer fits one of
    them: 1 / (n! / Π kᵢ!), with kᵢ letters of each kind.
    """
    shares = [
        prod(map(factorial, Counter(problem.source).values())) / factorial(len(problem.source)) for problem in asked
    ]
    return sum(shares) / len(shares)


def build_seeded(spec: MixerSpec, generator: torch.Generator) -> Mixer:
    """A mixer with fresh weights that follow from a generator; chance elsewhere stays as it was."""
    with torch.random.fork_rng():
        torch.manual_seed(int(torch.randint(2**31, (), generator=generator)))
        return spec.build(WIDTH).eval()


def describe_model(scheme: str) -> dict[str, Any]:
    """A small Transformer; the encoder and the decoder know positions by this scheme."""
    sizes = {"width": 64, "depth": 2, "heads": 2, "hidden": 128, "dropout": 0.0}
    return {"kind": "transformer-tiny", "position": scheme, **sizes}


def describe_run(task: str, scheme: str, steps: int) -> dict[str, Any]:
    """One task with one scheme; all else is equal."""
    corpus = {"kind": task, "train": 40_000, "test": TEST, "sizes": list(SIZES)}
    return make_algorithm(corpus, describe_model(scheme), steps, rate=0.004)
