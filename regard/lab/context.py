"""How far back does it reach? The loss of a language model by how many tokens before the predicted one it may see.

The same tokens are predicted from the last 1, 2, 4, … tokens before them. Where more of them stop to help, the model's
use of context ends, whatever its state could hold (Khandelwal et al. 2018: an LSTM uses about 200 tokens).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.core.model import Model
from regard.errors import DataError
from regard.host.meter import Advance, ignore
from regard.lab.apparatus.bench import Bench
from regard.lab.apparatus.experiment import Conclusion, Experiment, Tables
from regard.lens.plot import Plot, make_series
from regard.runs.folder import Run
from regard.runs.load import load_bundle
from regard.tasks.entropy import losses
from regard.tasks.measures import average

SUMMARY, CURVES = "context that is used", "loss by visible context"
LEAST = 0.01  # a loss that falls by less than this share doesn't count as better
LECTURES = 200  # tokens, as the lectures have it
CHUNK = 16_384  # tokens that are read at once
RECURRENT = ("RNN", "LSTM")
# 263,000 to 334,000 weights outside of the tables of words.
MODELS: dict[str, dict[str, Any]] = {
    "RNN": {"kind": "rnn", "width": 256, "depth": 2, "dropout": 0.0},
    "LSTM": {"kind": "lstm", "width": 144, "depth": 2, "dropout": 0.0},
    "Mamba": {"kind": "mamba-130m", "width": 112, "depth": 3},
    "attention": {"kind": "decoder-tiny", "width": 112, "depth": 2, "heads": 4, "position": "rotary"},
}
# each the better of two by its validation loss, with other seeds: 0.004 and 0.01; for the RNN the best of 0.0003, 0.001
# and 0.003 over two of them, since with 0.003 it learns nothing in one of two
RATES = {"RNN": 0.001, "LSTM": 0.01, "Mamba": 0.01, "attention": 0.004}


class Reach(Experiment):
    """Small language models, and their loss by the context that they may see."""

    name = "context"
    place = 160
    question = "How far back does it reach?"
    claim = (
        "A recurrent language model uses the last 100 to 200 tokens at most; attention can reach all that it keeps, "
        "and its state grows with every token."
    )
    method = (
        "Trains four small language models on Python's standard library, on as many tokens each; then predicts the "
        "same tokens of unseen files from the last 1, 2, 4, … tokens before them. A context is used as far as the loss "
        "falls by 1 % or more."
    )
    minutes = 3
    full_minutes = 25

    def measure(self, bench: Bench) -> Tables:
        tokens, farthest, count = bench.choose(500_000, 4_000_000), bench.choose(256, 512), bench.choose(800, 2000)
        contexts = list_contexts(farthest)
        seeds = bench.seeds(1, 2)
        runs = bench.train(
            {
                f"{name}-{seed}": describe_run(name, tokens, farthest) | {"seed": seed}
                for name in MODELS
                for seed in seeds
            }
        )
        summary, curves = [], []
        with bench.watch("predicting from less context", len(runs) * len(contexts)) as advance:
            for name in MODELS:
                found: list[Mapping[int, float]] = []
                for seed in seeds:
                    model, windows = open_run(runs[f"{name}-{seed}"], farthest, count, bench.seed)
                    scored = score_contexts(model, windows, contexts, advance)
                    found.append({visible: float(lost.mean()) for visible, lost in scored.items()})
                loss = {visible: average([one[visible] for one in found]).value for visible in contexts}
                held = {visible: count_state(model, windows[:1, :visible]) for visible in contexts}
                curves += [
                    {"model": name, "visible": visible, "loss": loss[visible], "state": held[visible]}
                    for visible in contexts
                ]
                summary.append(
                    {
                        "model": name,
                        "parameters": model.parameter_count(),
                        "used": find_reach(loss),
                        **{f"loss at {visible}": loss[visible] for visible in (1, 16, farthest)},
                        "state at 16": held[16],
                        f"state at {farthest}": held[farthest],
                    }
                )
        return {SUMMARY: summary, CURVES: curves}

    def conclude(self, tables: Tables) -> Conclusion:
        used = {row["model"]: row["used"] for row in tables[SUMMARY]}
        farthest = max(row["visible"] for row in tables[CURVES])
        held = {(row["model"], row["visible"]): row["state"] for row in tables[CURVES]}
        growth = {name: held[name, farthest] / held[name, 16] for name in used}
        reached = ", ".join(f"{name} {tokens}" for name, tokens in used.items())
        sentence = (
            f"Of {farthest} tokens that they were trained with, more than these make the loss less than {LEAST:.0%} "
            f"better: {reached}; from 16 to {farthest} tokens the state of attention grows {growth['attention']:.0f} "
            f"times to {held['attention', farthest] / 1000:.0f} kB, and an LSTM's stays at "
            f"{held['LSTM', farthest] / 1000:.1f} kB."
        )
        recurrent = max(used[name] for name in RECURRENT)
        steady = all(growth[name] == 1 for name in RECURRENT) and growth["attention"] > 2
        # a reach that ends where the measurement does isn't known to end
        return Conclusion(recurrent <= LECTURES < farthest and used["attention"] >= recurrent and steady, sentence)

    def draw(self, tables: Tables) -> Sequence[Plot]:
        curves = tables[CURVES]
        loss, state = (make_series(curves, "model", "visible", name) for name in ("loss", "state"))
        return [
            Plot("Loss by visible context", "tokens that are visible", "nats a token", loss, ("across",)),
            Plot("What is remembered", "tokens that were read", "bytes", state, ("across", "down")),
        ]


def list_contexts(farthest: int) -> list[int]:
    """Powers of two up to the farthest, and what lies between the last two of them."""
    powers = [2**n for n in range(farthest.bit_length()) if 2**n <= farthest]
    return sorted({*powers, 3 * farthest // 4, farthest})


def score_contexts(
    model: Model, windows: Tensor, contexts: Sequence[int], advance: Advance = ignore
) -> dict[int, Tensor]:
    """What predicting the last token of each window costs from so many tokens before it, in nats.

    `windows`, (rows, time): one token more than the largest context at least.
    """
    found = {}
    with torch.no_grad():
        for visible in contexts:
            parts = []
            for part in windows.split(max(1, CHUNK // visible)):
                features = model.features(part[:, -1 - visible : -1])[:, -1]  # (rows, width)
                parts.append(losses(model.scored(features), part[:, -1]))
            found[visible] = torch.cat(parts)
            advance()
    return found


def find_reach(loss: Mapping[int, float], least: float = LEAST) -> int:
    """The fewest visible tokens whose loss all that came before them would make better by less than this share."""
    best = loss[max(loss)]
    return min(visible for visible, value in loss.items() if value * (1 - least) < best)


def count_state(model: Model, tokens: Tensor) -> int:
    """Bytes that a model remembers of one row after reading it; no more room is made than it takes."""
    with torch.no_grad():
        state = model.start(1, room=tokens.shape[1])
        model.advance(tokens, state)
    return state.nbytes


def cut_windows(rows: Sequence[Sequence[int]], size: int, count: int, seed: int) -> Tensor:
    """So many windows of rows, drawn from all that there are: (count, size)."""
    places = [(number, first) for number, row in enumerate(rows) for first in range(len(row) - size + 1)]
    if len(places) < count:
        raise DataError(f"{len(places)} windows of {size} tokens are in the test files, and {count} are needed")
    chosen = torch.randperm(len(places), generator=torch.Generator().manual_seed(seed))[:count]
    return torch.tensor([rows[number][first : first + size] for number, first in (places[n] for n in chosen.tolist())])


def open_run(run: Run, farthest: int, count: int, seed: int) -> tuple[Model, Tensor]:
    """A trained model, and windows of the test files in its tokens, the same for every model."""
    bundle = load_bundle(str(run.folder))
    assert bundle.lexicon is not None
    texts = [str(sample["text"]) for sample in run.prepared().samples("test")]
    windows = cut_windows(bundle.lexicon.tokenizer.encode(texts), farthest + 1, count, seed)
    return bundle.model.eval(), windows.to(bundle.model.device)


def describe_run(name: str, tokens: int, context: int) -> dict[str, Any]:
    """A language model of Python's own code; models differ, and their rates."""
    return {
        "task": {"kind": "language", "context": context, "stride": context},  # the loss at the end is seen by nobody
        "corpus": {"kind": "python-stdlib", "most": 200},
        "tokenizer": {"pieces": "byte-bpe", "vocabulary": 1000},
        "batches": {"rows": 4},
        "model": MODELS[name],
        "train": {
            "tokens": tokens,
            "optimizer": {"kind": "adamw", "rate": RATES[name], "decay": 0.01},
            "schedule": {"kind": "linear"},
            "evaluate": 0,
            "save": 100_000,
        },
    }
