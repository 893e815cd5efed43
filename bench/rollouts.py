"""How much faster answers are drawn together than one prompt at a time, by the same engine and the same seeds.

Alternating, best of several: `python bench/rollouts.py`. The bar is 5 for each kind of model. Answers end by chance
after about `MEAN` tokens, as they do in training, so rows leave one by one; both ways must draw the very same ones.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Sequence
from random import Random

import torch

from regard.core.model import Model
from regard.host.machine import keep_memory
from regard.models import preset
from regard.tasks.feedback.rollout import Sampling, draw_answers

PROMPTS, SAMPLES, MEAN, MOST, TURNS, BAR = 32, 4, 16, 48, 3, 5.0
VOCABULARY, END = 512, 3
HOW = Sampling(END, 0, MOST)
MODELS = {
    "attention": ("gpt2", {"width": 128, "depth": 4, "heads": 4, "context": 128}),
    "lstm": ("lstm", {"width": 128, "depth": 2}),
    "mamba": ("mamba-130m", {"width": 128, "depth": 2}),
}


def make(name: str) -> Model:
    """A model that ends an answer with a chance of one in `MEAN`, whatever it has written."""
    family, settings = MODELS[name]
    torch.manual_seed(1)
    spec = preset(family, **settings, vocabulary=VOCABULARY)
    assert spec.head is not None
    model = spec.replace(head=spec.head.replace(bias=True)).build()
    with torch.no_grad():
        model.state_dict()["head.bias"][END] = math.log(VOCABULARY / (MEAN - 1))
    return model


def draw_together(model: Model, prompts: Sequence[Sequence[int]], seeds: Sequence[int]) -> list[list[int]]:
    return draw_answers(model, prompts, seeds, HOW, SAMPLES)


def draw_alone(model: Model, prompts: Sequence[Sequence[int]], seeds: Sequence[int]) -> list[list[int]]:
    pairs = ((prompts[row // SAMPLES], seed) for row, seed in enumerate(seeds))
    return [answer for prompt, seed in pairs for answer in draw_answers(model, [prompt], [seed], HOW)]


def measure(name: str) -> tuple[dict[str, float], int]:
    """The best time of each way, in seconds, and how many tokens were drawn."""
    model, chance = make(name), Random(7)
    prompts = [[2, *(chance.randrange(5, VOCABULARY) for _ in range(chance.randint(3, 24)))] for _ in range(PROMPTS)]
    seeds = [chance.getrandbits(62) for _ in range(PROMPTS * SAMPLES)]
    # in double precision, so that no draw is rounded to another token, both draw the very same answers
    precise = copy.deepcopy(model).double()
    drawn = draw_together(precise, prompts, seeds)
    assert drawn == draw_alone(precise, prompts, seeds), "both ways must draw the same answers"
    best = dict.fromkeys(WAYS, float("inf"))
    for _ in range(TURNS):
        for way, draw in WAYS.items():
            started = time.perf_counter()
            draw(model, prompts, seeds)
            best[way] = min(best[way], time.perf_counter() - started)
    return best, sum(map(len, drawn))


WAYS = {"together": draw_together, "one prompt at a time": draw_alone}


def main() -> None:
    keep_memory()
    for name in MODELS:
        found, tokens = measure(name)
        ratio = found["one prompt at a time"] / found["together"]
        rates = "   ".join(f"{way} {tokens / seconds:8,.0f} tokens/s" for way, seconds in found.items())
        print(f"{name:10} {rates}   {ratio:5.1f} ×   {'ok' if ratio >= BAR else f'below {BAR:.0f}'}")


if __name__ == "__main__":
    main()
