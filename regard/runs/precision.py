"""In which precision a model is used: as one says, or as a second of measurement on this machine says (`auto`).

What is fastest depends on the processor and on the sizes of the matrices, so it is tried: all products of one step for
a few rows, one after the other as in use, in each precision. The choice is kept in the run's folder, with all that it
depends on.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.hint import suggest
from regard.core.matrix import linear
from regard.core.packed import (
    PackedShare,
    find_precision,
    list_matrices,
    list_multiplied,
    pack_model,
    unpack_model,
)
from regard.core.product import PRECISIONS, PRODUCTS, Precision, describe_kernels, has_brain_floats, multiply
from regard.errors import RegardError, SpecError, warn
from regard.host.files import replace
from regard.host.machine import describe_machine
from regard.runs.resolve import CHOICE, is_run, split_noun

TRIED: tuple[Precision, ...] = ("fp32", "fp16", "bf16", "int8")  # 4 bits change too much to be chosen unasked
ROWS = 8  # that are multiplied at a time while measuring: a few sentences, or a small beam
ENOUGH = 2**21  # products of a matrix that take longer than asking for them
PIECE = 2**22  # weights of a larger matrix that are multiplied at once
# weights that are measured at most: half a second to pack, and in 8 bits still more than most caches hold
SAMPLE = 48 * 2**20
SECONDS = 0.1  # for the passes of each precision
LONGEST = 1.0  # seconds for packing and a first pass: what takes longer isn't chosen
LITTLE = 0.5  # below this share of packed weights it is told
WORTH = 0.9  # a precision must take less than this share of the time of fp32 to be chosen

Size = tuple[int, int]  # outputs, inputs


@dataclass(frozen=True)
class PrecisionChoice:
    """Which precision is fastest, and what each took."""

    precision: Precision
    milliseconds: Mapping[str, float]

    def __str__(self) -> str:
        told = ", ".join(
            f"{name} {f'{value:.0f}' if value >= 10 else f'{value:.2g}'} ms"
            for name, value in self.milliseconds.items()
        )
        why = f"all matrices on {ROWS} rows take {told}" if told else "nothing in this model would be packed"
        return f"precision {self.precision}: {why}"


def check_precision(wish: str | None) -> None:
    """Refuse what isn't a precision."""
    if wish not in (None, *PRECISIONS, "auto"):
        raise SpecError(f"--precision {wish}: unknown{suggest(wish, (*PRECISIONS, 'auto'))}")


def spell_precision(used: str) -> str:
    """The option that brings a precision about, for a command that is recorded; nothing for fp32."""
    if used == "fp32":
        return ""
    return f" --precision {'auto' if '+' in used else used}"  # models that differ were chosen for one by one


def use_precision(model: nn.Module, wish: str | None, noun: str) -> PackedShare | None:
    """Bring a model to a precision where it stands, or leave it in its own (None); what was packed, if anything was."""
    check_precision(wish)
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
    """Try the products of a step in each precision, with the model's own weights; what can't be had isn't chosen.

    Of a large model a sample is measured, some of each size, and counted as often as that size is there.
    """
    pieces = [piece for matrix in list_multiplied(model) for piece in cut_matrix(matrix.detach())]
    if not pieces:
        return PrecisionChoice("fp32", {})
    describe_kernels()  # which builds them where they aren't there yet: that isn't to be timed
    counts, sample = Counter(map(read_size, pieces)), draw_sample(pieces)
    taken: dict[str, float] = {}
    for precision in (name for name in TRIED if name != "bf16" or has_brain_floats()):
        with suppress(RuntimeError, RegardError):  # no kernel for this machine, or a number that fp16 can't say
            milliseconds = time_step(sample, counts, precision)
            if milliseconds is not None:
                taken[precision] = milliseconds
    return PrecisionChoice(find_fastest(taken), taken)


def cut_matrix(matrix: Tensor) -> list[Tensor]:
    """A matrix, or groups of the outputs of a large one."""
    return list(matrix.split(max(1, PIECE // matrix.shape[1])))


def read_size(piece: Tensor) -> Size:
    return piece.shape[0], piece.shape[1]


def draw_sample(pieces: Sequence[Tensor]) -> list[Tensor]:
    """The pieces in their order, or the same share of each size where all of them would take too long."""
    counts, drawn = Counter(map(read_size, pieces)), Counter[Size]()
    share = min(1.0, SAMPLE / sum(piece.numel() for piece in pieces))
    found = list[Tensor]()
    for piece in pieces:
        size = read_size(piece)
        if drawn[size] < math.ceil(share * counts[size]):
            drawn[size] += 1
            found.append(piece)
    return found


@torch.inference_mode()
def time_step(sample: Sequence[Tensor], counts: Mapping[Size, int], precision: Precision) -> float | None:
    """Milliseconds that all products of a step take at their best; None where already the first pass takes too long.

    Each piece has memory of its own and they come in turn, so what one finds in the caches is what others left there.
    Small ones get more rows, which count for as many: to ask for eight takes longer than to multiply them, whatever the
    precision, and a step of a model that is written down doesn't ask.
    """
    began, products = time.perf_counter(), list[tuple[Size, Callable[[], object]]]()
    rows = {size: torch.randn(count_rows(size), size[1]) for size in set(map(read_size, sample))}
    for piece in sample:
        product = prepare_product(piece, rows[read_size(piece)], precision)
        product()  # the first time, what a kernel reads is made of the weights
        products.append((read_size(piece), product))
        if precision != "fp32" and time.perf_counter() - began > LONGEST:
            return None
    drawn = Counter(size for size, _ in products)
    began, best = time.perf_counter(), math.inf
    while best == math.inf or time.perf_counter() - began < SECONDS:
        total = 0.0
        for size, product in products:
            first = time.perf_counter()
            product()
            total += (time.perf_counter() - first) * counts[size] / drawn[size] * ROWS / len(rows[size])
        best = min(best, total)
    return best * 1000


def count_rows(size: Size) -> int:
    """How many rows to multiply by a matrix."""
    return max(ROWS, ENOUGH // (size[0] * size[1]))


def prepare_product(weight: Tensor, x: Tensor, precision: Precision) -> Callable[[], object]:
    """What multiplies rows by a matrix, as a model does it."""
    if precision == "fp32":
        return partial(linear, x.to(weight.dtype), weight)
    return partial(multiply, PRODUCTS[precision](weight), x, None)


def find_fastest(milliseconds: Mapping[str, float]) -> Precision:
    """The precision that takes the least time; fp32 unless another is clearly faster."""
    best = min(milliseconds, key=lambda name: milliseconds[name] * (WORTH if name == "fp32" else 1.0))
    return next(name for name in PRECISIONS if name == best)


def recall_choice(noun: str, model: nn.Module) -> PrecisionChoice | None:
    """The choice that was made for a run as things are; None where there is none, or it was made otherwise."""
    try:
        kept = json.loads((Path(split_noun(noun)[0]) / CHOICE).read_bytes())
        if kept["conditions"] != describe_conditions(model):
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
        content = {"conditions": describe_conditions(model), **told}
        with suppress(OSError, RegardError):  # it is measured again the next time
            replace(folder / CHOICE, (json.dumps(content, indent=1) + "\n").encode())
    return choice


def describe_conditions(model: nn.Module) -> dict[str, Any]:
    """All that a choice depends on: where one of these is another, another precision may be faster."""
    return {
        "machine": describe_machine(),
        "torch": torch.__version__,
        "instructions": torch.backends.cpu.get_cpu_capability(),  # that torch uses, which may be told to use fewer
        "kernels": describe_kernels(),
        "threads": torch.get_num_threads(),
        "sizes": sorted(list(matrix.shape) for matrix in list_matrices(model)),
    }
