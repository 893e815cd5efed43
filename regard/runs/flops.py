"""How much a run computes: floating-point operations of real steps of it, forward, backward and all.

A few steps are trained on the first batches of the run, watched by torch's own counter, and forgotten. It knows
products of matrices, convolutions and attention; what it misses of them on a CPU, or counts wrongly, has formulas here.

Not counted is what works element by element: activations, norms, softmax, gates, the scans of Mamba, the optimizer.
Causal attention is counted in full, as papers do, though kernels skip most of what is hidden.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from regard.runs.folder import Run
from regard.train.trainer import Archive

SAMPLE = 16  # steps that are counted
COMPLEX = 4  # real products that one of complex numbers takes

Shape = Sequence[int]
aten = torch.ops.aten


@dataclass(frozen=True)
class FlopCount:
    """What was counted."""

    flops: int
    tokens: int  # that were predicted
    steps: int

    @property
    def per_token(self) -> float:
        """A mean over what was counted: batches differ in their padding."""
        return self.flops / self.tokens


class FlopTally:
    """The operations so far."""

    def __init__(self, counter: FlopCounterMode) -> None:
        self._counter = counter

    @property
    def flops(self) -> int:
        return int(self._counter.get_total_flops())


@contextmanager
def count() -> Iterator[FlopTally]:
    """Count whatever is computed in this thread."""
    with FlopCounterMode(display=False, custom_mapping=FORMULAS) as counter:
        yield FlopTally(counter)


def count_steps(run: Run, steps: int = SAMPLE) -> FlopCount:
    """Train so many steps of a run from its start, count them, and keep nothing."""
    short = run.spec.train.replace(steps=steps, epochs=None, tokens=None, minutes=None, evaluate=0, patience=0)
    trainer = Run(run.folder, run.spec.replace(train=short), run.prepared()).trainer()
    trainer.archive = Archive()  # the run's own checkpoints stay as they are
    trainer.task.validation = []  # measuring isn't training
    trainer.task.begin(trainer.model, trainer.use_start, lambda: None)  # what is computed once is no step's
    with count() as tally:
        moment = trainer.run().moment
    return FlopCount(tally.flops, moment.tokens, moment.step)


def _use_values(formula: Callable[..., int]) -> Callable[..., int]:
    """Mark a formula that looks at the tensors themselves and not at their shapes alone."""
    formula._get_raw = True  # type: ignore[attr-defined]
    return formula


@_use_values
def _multiply(a: Tensor, b: Tensor, *_: Any, **more: Any) -> int:
    """(…, rows, inner) @ (…, inner, columns), real or complex."""
    whole = 2 * a.numel() * (b.shape[-1] if b.ndim > 1 else 1)
    return whole * (COMPLEX if a.is_complex() else 1)


@_use_values
def _add_product(_: Tensor, a: Tensor, b: Tensor, *rest: Any, **more: Any) -> int:
    return int(_multiply(a, b))


@_use_values
def _transform(x: Tensor, dim: Sequence[int], *_: Any, out_val: Tensor, **more: Any) -> int:
    """A fast Fourier transform of n numbers takes 5 n log2 n operations, of real ones half (Cooley, Tukey 1965)."""
    lengths = [max(x.shape[axis], out_val.shape[axis]) for axis in dim]
    real = not (x.is_complex() and out_val.is_complex())
    rows = max(x.numel() / math.prod(x.shape[axis] for axis in dim), 1)
    total = math.prod(lengths)
    return int(rows * (2.5 if real else 5) * total * math.log2(max(total, 2)))


def _convolve_back(
    slope: Shape,
    x: Shape,
    weight: Shape,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    wanted: Sequence[bool],
    **more: Any,
) -> int:
    """As much as forward for the input's gradient, and as much for the weight's; torch's own forgets the groups."""
    places = x if transposed else slope
    forward = 2 * places[0] * math.prod(places[2:]) * math.prod(weight)
    return forward * sum(wanted[:2])


def _recur(x: Shape, weight: Shape, recurrent: Shape, *_: Any, **more: Any) -> int:
    """A fused LSTM over (time, batch, inputs): each step is a product with both matrices."""
    return 2 * x[0] * x[1] * (math.prod(weight) + math.prod(recurrent))


def _recur_back(x: Shape, weight: Shape, recurrent: Shape, *_: Any, **more: Any) -> int:
    """The gradients of what is read and of the weights: a product for each."""
    return 2 * _recur(x, weight, recurrent)


def _attend(query: Shape, key: Shape, value: Shape, *_: Any, **more: Any) -> int:
    return int(sdpa_flop_count(query, key, value))


def _attend_back(slope: Shape, query: Shape, key: Shape, value: Shape, *_: Any, **more: Any) -> int:
    """Scores are computed again, then come four gradients."""
    return int(sdpa_backward_flop_count(slope, query, key, value))


FORMULAS: dict[Any, Callable[..., int]] = {
    aten.mm: _multiply,
    aten.bmm: _multiply,
    aten.mv: _multiply,
    aten.dot: _multiply,
    aten.addmm: _add_product,
    aten.addmm_: _add_product,  # the loss adds up its gradient in place (tasks/entropy.py)
    aten.addmv: _add_product,
    aten.addmv_: _add_product,
    aten.baddbmm: _add_product,
    aten.baddbmm_: _add_product,
    aten.convolution_backward: _convolve_back,
    aten.mkldnn_rnn_layer: _recur,
    aten.mkldnn_rnn_layer_backward: _recur_back,
    aten._scaled_dot_product_flash_attention_for_cpu: _attend,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: _attend_back,
    aten._fft_r2c: _transform,
    aten._fft_c2r: _transform,
    aten._fft_c2c: _transform,
}
