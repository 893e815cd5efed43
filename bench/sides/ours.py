"""Ours: each job as a user of the package does it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

from bench.harness import Missing, serve
from bench.sides.work import draw_rows, rate, slice_rows, tell_in_turn
from regard.core.inputs import Inputs
from regard.core.model import Model
from regard.host.machine import give_way, keep_memory
from regard.runs.load import load_bundle

BEGIN, END = 2, 3


def behave(measure: Callable[[], float], settings: Mapping[str, Any]) -> Callable[[], float]:
    """As the command line does: way is given to others, for as long as it takes; a table asks what that costs."""

    def measure_politely() -> float:
        with give_way():
            return measure()

    return measure_politely if settings.get("gives_way", True) else measure


def load_model(settings: Mapping[str, Any]) -> Model:
    torch.set_num_threads(settings["threads"])
    keep_memory()
    return load_bundle(settings["run"], "cpu", settings["precision"]).model


def translate(settings: Mapping[str, Any]) -> Callable[[], float]:
    """Target tokens a second; the last token is the end, so that there are as many steps as tokens."""
    model, steps = load_model(settings), settings["steps"]
    batches = [Inputs.pad(rows, 0) for rows in slice_rows(draw_rows(settings), settings["batch"])]

    def work() -> int:
        count = 0
        for batch in batches:
            limits = {"min_tokens": steps - 1, "max_tokens": steps - 1, "beam": settings["beam"]}
            found = model.generate(batch, begin=BEGIN, end=END, **limits)
            assert all(len(row) == steps for row in found), "another length than the others have"
            count += steps * len(found)
        return count

    return behave(rate(work, settings), settings)


def write(settings: Mapping[str, Any]) -> Callable[[], float]:
    """New tokens a second after a prompt."""
    model, steps = load_model(settings), settings["steps"]
    prompts = torch.tensor(draw_rows(settings))

    def work() -> int:
        found = model.generate(prompts, max_tokens=steps)
        assert all(len(row) == steps for row in found), "another length than the others have"
        return int(steps * len(found))

    return behave(rate(work, settings), settings)


def prefill(settings: Mapping[str, Any]) -> Callable[[], float]:
    """Tokens a second of a prompt that is read up to its first new token."""
    model = load_model(settings)
    prompts = torch.tensor(draw_rows(settings))

    def work() -> int:
        model.generate(prompts, max_tokens=1)
        return prompts.numel()

    return behave(rate(work, settings), settings)


def encode(settings: Mapping[str, Any]) -> Callable[[], float]:
    """Tokens a second of one forward pass through an encoder."""
    model = load_model(settings)
    tokens = torch.tensor(draw_rows(settings))
    real = torch.ones_like(tokens, dtype=torch.bool)

    @torch.inference_mode()
    def work() -> int:
        model(tokens, valid=real)
        return tokens.numel()

    return behave(rate(work, settings), settings)


def evaluate(settings: Mapping[str, Any]) -> Callable[[], float]:
    """Seconds of an evaluation as `regard eval` does it; then, as often as it is asked, each measure in turn."""
    from regard.runs.evaluate import TestSet
    from regard.runs.evaluate import evaluate as evaluate_run

    torch.set_num_threads(settings["threads"])
    keep_memory()

    def find_all() -> list[float]:
        began = time.perf_counter()
        try:
            found = evaluate_run([settings["run"]], TestSet(), {}, precision=settings["precision"])
        except RuntimeError as error:  # a kernel that this machine or this torch doesn't have
            if settings["precision"] == "fp32":
                raise
            raise Missing(str(error)) from None
        took = time.perf_counter() - began
        return [took, *(float(found.measures[name]) for name in settings["measures"])]

    return behave(tell_in_turn(find_all), settings)


if __name__ == "__main__":
    jobs = {"translate": translate, "write": write, "prefill": prefill, "encode": encode, "evaluate": evaluate}
    serve(jobs, "torch")
