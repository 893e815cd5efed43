"""Do gradients vanish? How much of a small change is left after so many positions, in models before training.

∂h_t/∂h_k of a recurrence is a product of t - k matrices, so its norm falls or grows exponentially (Bengio et al. 1994,
Pascanu et al. 2013). h is the hidden vector of a recurrence, and its derivative is by every way that leads on from it;
where there is none, it is what leaves the block at t and enters it at k. The control is an RNN whose inputs are so
small that its tanh is the identity: there the rate is known, log of the spectral radius of the recurrent matrix. Of a
matrix that is a rotation times a number that holds from the first step on. Of a random one it holds in the long run,
whatever its norm, so there the distances are long, and the nearer half of them isn't fitted.

Formulas, by what one step is on average (σ: the norm of the recurrent matrix; gates: their means as measured):
plain RNN: log σ + log √mean φ'². LSTM: log(f + i·o·σ), that of the candidate's matrix. GRU: log(z + (1 - z)·r·σ).
Transformer: 0, as nothing is multiplied along the way. Mamba: the fitted decay of √Σ (Δ·exp(A·ΣΔ))².
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.model import Model
from regard.lab.apparatus.bench import Bench
from regard.lab.apparatus.experiment import Conclusion, Experiment, Tables
from regard.lab.apparatus.fit import fit_line
from regard.lens.finding import Tap
from regard.lens.plot import Plot, make_series
from regard.models import preset
from regard.parts.initial import Xavier
from regard.tasks.measures import average

WIDTH, VOCABULARY = 32, 64
MIX = "decoder.blocks.0.mix"
RECURRENT = f"{MIX}.inner.cell.fused.weight_hh_l0"
RADIUS = 0.8  # of the linear controls
LINEAR = ("linear RNN, rotation", "linear RNN, random matrix")
SLOPES, CURVES = "slope of the log norm by distance", "norms by distance"

Values = Mapping[str, Tensor]  # what was seen in a model, by name: (texts, …, time, …)
Weights = Mapping[str, Tensor]


@dataclass(frozen=True)
class Carrier:
    """A model that carries something from position to position."""

    preset: str
    prepare: Callable[[Weights], None] = lambda _: None  # changes the weights that it starts with
    formula: Callable[[Weights, Values], float] = lambda *_: 0.0  # the slope that is expected
    into: str = f"{MIX}.impulse"  # h_k
    out: str = f"{MIX}.hidden"  # h_t
    seen: Sequence[str] = ()  # what else the formula needs
    distance: int = 64
    nearest: int = 8  # what is nearer isn't fitted: there the beginning shows, and not the rate


class Norms(NamedTuple):
    """By the distance, from 0 on."""

    jacobian: Tensor
    loss: Tensor
    values: Values


def scale_recurrence(norm: float) -> Callable[[Weights], None]:
    """Give the recurrent matrix, a rotation at the start, a spectral norm."""

    def prepare(weights: Weights) -> None:
        weights[RECURRENT].mul_(norm / torch.linalg.matrix_norm(weights[RECURRENT], ord=2))

    return prepare


def make_linear(random: bool) -> Callable[[Weights], None]:
    """Words so small that tanh x is x to twelve figures; the matrix stays a rotation, or becomes a random one."""

    def prepare(weights: Weights) -> None:
        weights["decoder.embedding.tokens.weight"].mul_(1e-6)
        if random:
            weights[RECURRENT].normal_()
        weights[RECURRENT].mul_(RADIUS / find_radius(weights[RECURRENT]))

    return prepare


def set_forget_bias(bias: float) -> Callable[[Weights], None]:
    """Open or close the gate at the start; it is the second of four."""

    def prepare(weights: Weights) -> None:
        weights[f"{MIX}.inner.cell.fused.bias_ih_l0"][WIDTH : 2 * WIDTH] = bias

    return prepare


def find_radius(matrix: Tensor) -> float:
    """The spectral radius: the largest absolute value of an eigenvalue."""
    return float(torch.linalg.eigvals(matrix).abs().max())


def predict_plain(weights: Weights, values: Values) -> float:
    slope = (1 - values["hidden"] ** 2).square().mean().sqrt()  # of tanh
    return math.log(float(torch.linalg.matrix_norm(weights[RECURRENT], ord=2) * slope))


def predict_lstm(weights: Weights, values: Values) -> float:
    norm = torch.linalg.matrix_norm(weights[RECURRENT].chunk(4)[2], ord=2)
    enter, forget, leave = (values[f"{name}_gate"].mean() for name in ("input", "forget", "output"))
    return math.log(float(forget + enter * leave * norm))


def predict_gru(weights: Weights, values: Values) -> float:
    norm = torch.linalg.matrix_norm(weights[RECURRENT].chunk(3)[2], ord=2)
    reset, update = (values[f"{name}_gate"].mean() for name in ("reset", "update"))
    return math.log(float(update + (1 - update) * reset * norm))


def predict_mamba(weights: Weights, values: Values) -> float:
    """Δ lets a position in, and exp(A Δ) of each later position is what is left of it; fitted as the norms are."""
    delta = values["delta"].mean(0).flip(0)  # (distance, inner), the last position first
    passed = delta.cumsum(0) - delta  # Σ Δ of the positions after each
    A = -weights[f"{MIX}.inner.decay"].exp()  # (inner, states)
    left = delta[..., None] * (A * passed[..., None]).exp()  # (distance, inner, states)
    norms = left.square().sum((1, 2)).sqrt()
    nearest = Carrier.nearest
    return fit_line(range(nearest, len(norms)), norms[nearest:].log().tolist()).slope


GATES = ("input_gate", "forget_gate", "output_gate")
STREAM = ("decoder.embedded", "decoder.blocks.0.stream")
CARRIERS: Mapping[str, Carrier] = {
    LINEAR[0]: Carrier("rnn", make_linear(random=False), lambda weights, _: math.log(find_radius(weights[RECURRENT]))),
    LINEAR[1]: Carrier(
        "rnn",
        make_linear(random=True),
        lambda weights, _: math.log(find_radius(weights[RECURRENT])),
        distance=256,
        nearest=128,
    ),
    **{f"RNN, norm {norm}": Carrier("rnn", scale_recurrence(norm), predict_plain) for norm in (0.5, 1.0, 1.5)},
    **{
        f"LSTM, forget bias {bias}": Carrier("lstm", set_forget_bias(bias), predict_lstm, seen=GATES) for bias in (0, 1)
    },
    "GRU": Carrier("gru", formula=predict_gru, seen=("reset_gate", "update_gate")),
    "Transformer": Carrier("decoder-tiny", into=STREAM[0], out=STREAM[1]),
    "Mamba": Carrier("mamba-130m", formula=predict_mamba, into=STREAM[0], out=STREAM[1], seen=("delta",)),
}


class Gradients(Experiment):
    """Norms of gradients by distance, and their slope beside a formula's."""

    name = "gradients"
    place = 10
    question = "Do gradients vanish?"
    claim = (
        "In a plain RNN they vanish or explode with distance; a forget gate slows that; attention knows no distance."
    )
    method = (
        "Models of one layer and equal width, as they are before training, read random words. We take the norm of "
        "∂h_t/∂h_k and of ∂loss/∂x_k by the distance t - k, fit a line to its logarithm, and put a formula's slope "
        "beside it. Two linear RNNs are the control: their slope is the log of their matrix's spectral radius."
    )
    minutes = 0.5
    full_minutes = 3

    def measure(self, bench: Bench) -> Tables:
        slopes, curves = [], []
        texts, seeds = bench.choose(4, 8), bench.seeds(3, 10)
        with bench.watch("models", len(CARRIERS) * len(seeds)) as advance:
            for name, carrier in CARRIERS.items():
                found, expected = [], []
                for seed in seeds:
                    model = build_model(carrier, seed)
                    found.append(measure_norms(model, carrier, texts, seed))
                    weights = {key: weight.detach() for key, weight in model.named_parameters()}
                    expected.append(carrier.formula(weights, found[-1].values))
                    advance()
                jacobian, loss = (
                    torch.stack([getattr(norms, kind).log() for norms in found]).mean(0)
                    for kind in ("jacobian", "loss")
                )
                slopes.append(
                    {
                        "model": name,
                        "slope": fit_slope(jacobian, carrier.nearest),
                        "by formula": average(expected).value,
                        "slope of loss": fit_slope(loss, carrier.nearest),
                        "at 1": float(jacobian[1].exp()),
                        "longest": carrier.distance,
                        "at longest": float(jacobian[-1].exp()),
                    }
                )
                curves += [
                    {"model": name, "distance": at, "jacobian": float(norm.exp()), "loss": float(loss[at].exp())}
                    for at, norm in enumerate(jacobian)
                ]
        return {SLOPES: slopes, CURVES: curves}

    def conclude(self, tables: Tables) -> Conclusion:
        rows = {row["model"]: row for row in tables[SLOPES]}
        slopes = {name: row["slope"] for name, row in rows.items()}
        small, even, large = (slopes[f"RNN, norm {norm}"] for norm in (0.5, 1.0, 1.5))
        closed, opened = (slopes[f"LSTM, forget bias {bias}"] for bias in (0, 1))
        off = max(abs(slopes[name] / rows[name]["by formula"] - 1) for name in LINEAR)
        flat = slopes["Transformer"]
        vanishing = small < even < 0 < large
        shown = off < 0.01 and vanishing and max(closed, even) < opened < 0 and abs(flat) < -opened
        vanished, exploded = rows["RNN, norm 0.5"], rows["RNN, norm 1.5"]
        told = (
            f"After {vanished['longest']} positions, {vanished['at longest']:.0e} of a change is left in an RNN of "
            f"norm 0.5 and {exploded['at longest']:.3g} in one of norm 1.5 (slopes {small:.2f} and {large:.2f}); a "
            f"forget bias of 1 takes an LSTM from {closed:.2f} to {opened:.2f}, the Transformer's slope is {flat:.1g}, "
            f"and linear RNNs are within {100 * off:.1g} % of log of their spectral radius."
        )
        return Conclusion(shown, told)

    def draw(self, tables: Tables) -> Sequence[Plot]:
        near = [row for row in tables[CURVES] if 0 < row["distance"] <= Carrier.distance]
        slopes = [row for row in tables[SLOPES] if row["by formula"] is not None]
        kinds = {"slope": "measured", "by formula": "by formula"}
        pairs = [
            {"model": row["model"], "kind": told, "slope": row[key]} for row in slopes for key, told in kinds.items()
        ]
        return [
            Plot(
                "How much of a change at k is left at t",
                "distance t - k",
                "norm of ∂h_t/∂h_k",
                make_series(near, "model", "distance", "jacobian"),
                ("down",),
            ),
            Plot(
                "How much an earlier word moves the last one's loss",
                "distance t - k",
                "norm of ∂loss/∂x_k",
                make_series(near, "model", "distance", "loss"),
                ("down",),
            ),
            Plot("Slopes, measured and expected", "", "log norm by step", make_series(pairs, "kind", "model", "slope")),
        ]


def build_model(carrier: Carrier, seed: int) -> Model:
    """One layer in double precision, so that what vanishes is still a number."""
    torch.manual_seed(seed)
    spec = preset(carrier.preset, width=WIDTH, depth=1, vocabulary=VOCABULARY)
    # one start for all: those of GPT-2 and Mamba are meant for widths of a thousand
    model = spec.replace(init=Xavier()).build().double().eval()
    with torch.no_grad():
        carrier.prepare(dict(model.named_parameters()))
    return model


def measure_norms(model: Model, carrier: Carrier, texts: int, seed: int) -> Norms:
    """The norms for the last position of random texts, as geometric means over them."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(VOCABULARY, (texts, carrier.distance + 1), generator=generator)
    answers = torch.randint(VOCABULARY, (texts,), generator=generator)
    jacobians = torch.stack([find_jacobians(model, carrier, text) for text in words])  # (texts, time, width, width)
    told = Tap("decoder.embedded", *(f"{MIX}.{name}" for name in carrier.seen), carrier.out)
    with model.watch(told):
        loss = F.cross_entropy(model(words)[:, -1], answers, reduction="sum")
    (gradient,) = torch.autograd.grad(loss, told.record["decoder.embedded"])
    values = {name.rpartition(".")[2]: told.record[name].detach() for name in told.record}
    norms = (torch.linalg.matrix_norm(jacobians, ord=2), gradient.norm(dim=-1))
    jacobian, reached = (norm.log().mean(0).exp().flip(0) for norm in norms)  # by distance, from the last position
    return Norms(jacobian, reached, values)


def find_jacobians(model: Model, carrier: Carrier, text: Tensor) -> Tensor:
    """∂h_t/∂h_k of one text for the last t and every k: (time, width, width).

    The text stands in as many rows as h has numbers, and each row asks for the gradient of another: one backward pass,
    also through a scan that can't be batched over gradients.
    """
    tap = Tap(carrier.into, carrier.out)
    with model.watch(tap):
        model(text.expand(WIDTH, -1))
    start, end = tap.record[carrier.into], tap.record[carrier.out]
    last = end.reshape(WIDTH, len(text), WIDTH)[:, -1]
    (gradient,) = torch.autograd.grad(last.diagonal().sum(), start)
    return gradient.reshape(WIDTH, len(text), WIDTH).transpose(0, 1)


def fit_slope(logarithms: Tensor, nearest: int) -> float:
    """The slope of a line through logarithms by distance, from the nearest that counts."""
    return fit_line(range(nearest, len(logarithms)), logarithms[nearest:].tolist()).slope
