"""Ours at any size: a GPT-2 of so many rows, positions, layers, channels and words, learning or writing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F

from bench.harness import serve
from regard.core.model import Model
from regard.host.machine import keep_memory, peak_memory
from regard.models import preset


def build(settings: Mapping[str, Any]) -> tuple[Model, torch.Tensor]:
    torch.set_num_threads(settings["threads"])
    torch.manual_seed(1)
    if settings["what"] == "time":  # kept blocks would hide what memory is needed
        keep_memory()
    sizes = {name: settings[name] for name in ("depth", "width", "vocabulary")}
    model = preset("gpt2", **sizes, context=2 * settings["length"], dropout=0.0).build()
    return model, torch.randint(settings["vocabulary"], (settings["batch"], settings["length"]))


def choose(settings: Mapping[str, Any], work: Callable[[], object]) -> Callable[[], float]:
    """Seconds that it takes, once it has been done; or megabytes that the process holds at most."""
    if settings["what"] == "time":
        work()

    def measure() -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began if settings["what"] == "time" else peak_memory() / 2**20

    return measure


def train(settings: Mapping[str, Any]) -> Callable[[], float]:
    model, tokens = build(settings)
    model.train()

    def work() -> None:
        model.zero_grad()
        logits = model(tokens[:, :-1])
        F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()

    return choose(settings, work)


def write(settings: Mapping[str, Any]) -> Callable[[], float]:
    """As many new tokens as there were in the prompt."""
    model, tokens = build(settings)
    return choose(settings, lambda: model.generate(tokens, max_tokens=settings["length"]))


if __name__ == "__main__":
    serve({"train": train, "write": write}, "torch")
