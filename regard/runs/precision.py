"""In which precision a model is used: as one says, or as a second of measurement on this machine says (`auto`).

What is fastest depends on the processor and on the sizes of the matrices, so it is tried: all products of one step for
a few rows, in each precision. The choice is kept in the run's folder, for this machine and these sizes.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from regard.core.dense import Dense
from regard.core.hint import suggest
from regard.core.packed import PackedShare, find_precision, list_matrices, pack_model, unpack_model
from regard.core.product import PRECISIONS, PRODUCTS, Precision
from regard.errors import RegardError, SpecError, warn
from regard.host.files import replace
from regard.host.machine import describe_machine
from regard.runs.resolve import CHOICE, is_run, split_noun

TRIED: tuple[Precision, ...] = ("fp32", "fp16", "bf16", "int8")  # 4 bits change too much to be chosen unasked
ROWS = 8  # that are multiplied at a time while measuring: a few sentences, or a small beam
SECONDS = 0.05  # of each precision and size
LITTLE = 0.5  # below this share of packed weights it is told
WORTH = 0.9  # a precision must take less than this share of the time of fp32 to be chosen


@dataclass(frozen=True)
class PrecisionChoice:
    """Which precision is fastest, and what each took."""

    precision: Precision
    milliseconds: Mapping[str, float]

    def __str__(self) -> str:
        told = ", ".join(f"{name} {value:.2g} ms" for name, value in self.milliseconds.items())
        return f"precision {self.precision}: all matrices on {ROWS} rows take {told}"


def use_precision(model: nn.Module, wish: str | None, noun: str) -> PackedShare | None:
    """Bring a model to a precision where it stands, or leave it in its own (None); what was packed, if anything was."""
    if wish not in (None, *PRECISIONS, "auto"):
        raise SpecError(f"--precision {wish}: unknown{suggest(wish, (*PRECISIONS, 'auto'))}")
    kept = find_precision(model)
    if kept != "fp32":
        keep_precision(model, kept, wish, noun)
        return None
    if wish == "auto":
        if next(model.parameters()).device.type != "cpu":
            return None
        choice = recall_choice(noun, model) or keep_choice(noun, model, choose_precision(model))
        warn(str(choice))
        wish = choice.precision
    precision: Precision = next((name for name in PRECISIONS if name == wish), "fp32")
    if precision == "fp32":
        return None
    packed = pack_model(model, precision)
    if packed.share < LITTLE:
        warn(f"precision {precision}: {packed.share:.0%} of the weights are packed; small ones and experts aren't")
    return packed


def keep_precision(model: nn.Module, kept: Precision, wish: str | None, noun: str) -> None:
    """Use weights that were packed before as they are, or as whole numbers; to round twice would be neither."""
    if wish == "fp32":
        warn(f"{noun} holds {kept}: fp32 computes with those numbers, not with those from before they were rounded")
        unpack_model(model)
        return
    if wish not in (None, "auto", kept):
        raise SpecError(
            f"--precision {wish}: {noun} holds {kept}", f"--precision {kept} or fp32, or the run that it was made from"
        )
    if (where := next(model.parameters()).device.type) != "cpu":
        raise SpecError(f"{noun} holds {kept}, which is for CPUs, and this model is on {where}", "--precision fp32")


def choose_precision(model: nn.Module) -> PrecisionChoice:
    """Try all products of a step in each precision; one that can't be had here isn't chosen."""
    taken: dict[str, float] = {}
    counts = Counter((matrix.shape[0], matrix.shape[1]) for matrix in list_matrices(model))
    for precision in TRIED:
        try:
            taken[precision] = sum(count * time_product(*size, precision) for size, count in counts.items())
        except RuntimeError:  # a kernel that this machine or this torch doesn't have
            continue
    return PrecisionChoice(find_fastest(taken), taken)


def find_fastest(milliseconds: Mapping[str, float]) -> Precision:
    """The precision that takes the least time; fp32 unless another is clearly faster."""
    best = min(milliseconds, key=lambda name: milliseconds[name] * (WORTH if name == "fp32" else 1.0))
    return next(name for name in PRECISIONS if name == best)


@torch.inference_mode()
def time_product(outputs: int, inputs: int, precision: Precision) -> float:
    """Milliseconds that a product of some rows and a matrix takes, at its best."""
    weight, x = torch.randn(outputs, inputs), torch.randn(ROWS, inputs)
    multiply = Dense(inputs, outputs, bias=False).score if precision == "fp32" else PRODUCTS[precision](weight)
    multiply(x)  # the first time, memory is found and kernels are made
    began, taken = time.perf_counter(), list[float]()
    while not taken or time.perf_counter() - began < SECONDS:
        first = time.perf_counter()
        multiply(x)
        taken.append(time.perf_counter() - first)
    return min(taken) * 1000


def recall_choice(noun: str, model: nn.Module) -> PrecisionChoice | None:
    """The choice that was made for a run on this machine; None where there is none, or it was for another model."""
    try:
        kept = json.loads((Path(split_noun(noun)[0]) / CHOICE).read_bytes())
        if kept["machine"] != describe_machine() or kept["sizes"] != list_sizes(model):
            return None
        precision = next(name for name in PRECISIONS if name == kept["precision"])
        return PrecisionChoice(precision, {str(name): float(value) for name, value in kept["milliseconds"].items()})
    except (OSError, ValueError, TypeError, KeyError, AttributeError, StopIteration):
        return None  # nothing that can be used is kept there


def keep_choice(noun: str, model: nn.Module, choice: PrecisionChoice) -> PrecisionChoice:
    """Note a choice in the folder of a run; what isn't ours, or can't be written to, is left alone."""
    folder = Path(split_noun(noun)[0])
    if is_run(folder):
        told = {"precision": choice.precision, "milliseconds": dict(choice.milliseconds)}
        content = {"machine": describe_machine(), "sizes": list_sizes(model), **told}
        with suppress(OSError, RegardError):  # it is measured again the next time
            replace(folder / CHOICE, (json.dumps(content, indent=1) + "\n").encode())
    return choice


def list_sizes(model: nn.Module) -> list[list[int]]:
    """The shapes of what would be packed."""
    return sorted(list(matrix.shape) for matrix in list_matrices(model))
