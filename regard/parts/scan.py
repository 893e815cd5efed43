"""The selective scan of Mamba (Gu & Dao 2023): h_t = exp(Δ_t A) h_{t-1} + Δ_t u_t B_t, y_t = C_t h_t.

Whatever doesn't depend on the order is computed for a whole chunk at once; only one multiply-add a position is left to
run in order. A chunk is as long as the processor's cache allows. The backward pass keeps only the state between
chunks and recomputes the rest, so memory grows with time by one state a chunk. Where our own kernel can be had, it does
the same with a chunk's decays and states in the processor's nearest cache.
"""

from __future__ import annotations

import math
from ctypes import Array, c_int64
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.kernels.library import demand, ready

LANES = 16  # channels that our kernel runs together
SPAN = 64  # positions between two states that it keeps
SIDES = 4  # pieces that rows and channels are cut into at least, so that several threads have work
CACHED = 2**20  # numbers in a chunk's working tensor: 4 MB


def selective_scan(u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs (batch, time, inner) and the last state (batch, states, inner).

    u, delta: (batch, time, inner); A: (inner, states), below 0; B, C: (batch, time, states);
    start: (batch, states, inner).
    """
    precise = torch.promote_types(u.dtype, torch.float32)  # a long product of rounded decays drifts
    if can_compile(u, precise):
        whole = (tensor.to(precise).contiguous() for tensor in (u, delta))
        parts = (tensor.to(precise) for tensor in (B, C))
        y, end = CompiledScan.apply(*whole, *parts, A.mT.to(precise).contiguous(), start.to(precise))
        return y.to(u.dtype), end
    ordered = (tensor.transpose(0, 1).to(precise).contiguous() for tensor in (u, delta, B, C))
    y, end = Scan.apply(*ordered, A.mT.to(precise).contiguous(), start.to(precise))
    return y.transpose(0, 1).to(u.dtype), end


class Scan(torch.autograd.Function):
    """Time first: u, delta (time, batch, inner); B, C (time, batch, states); A (states, inner)."""

    @staticmethod
    def forward(
        ctx: Any, u: Tensor, delta: Tensor, B: Tensor, C: Tensor, A: Tensor, start: Tensor
    ) -> tuple[Tensor, Tensor]:
        chunks = Chunks(u, delta, B, A, start)
        y, state = torch.empty_like(u), start
        borders = []
        with torch.autocast(u.device.type, enabled=False):
            for at in chunks.spans():
                borders.append(state)
                _, states = chunks.run(at, state)
                torch.matmul(C[at, :, None], states, out=y[at, :, None])
                state = states[-1].clone()
        ctx.save_for_backward(u, delta, B, C, A, *borders)
        return y, state

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_y: Tensor, grad_end: Tensor) -> tuple[Tensor, ...]:
        u, delta, B, C, A, *borders = ctx.saved_tensors
        chunks = Chunks(u, delta, B, A, borders[0])
        grad_u, grad_delta, grad_B, grad_C = (torch.empty_like(tensor) for tensor in (u, delta, B, C))
        grad_A, carried = torch.zeros_like(A), grad_end
        flows = torch.empty_like(chunks.states)
        product = torch.empty_like(chunks.states)
        for at, border in zip(reversed(chunks.spans()), reversed(borders), strict=True):
            decay, states = chunks.run(at, border)
            n = len(states)
            room = product[:n]
            flow = torch.mul(C[at, :, :, None], grad_y[at, :, None], out=flows[:n])
            torch.sum(torch.mul(states, grad_y[at, :, None], out=room), -1, out=grad_C[at])
            flow[-1] += carried
            for i in range(n - 1, 0, -1):
                flow[i - 1].add_(decay[i].mul_(flow[i]))
            carried = decay[0].mul_(flow[0]).clone()
            # decay now holds decay * flow: what reached the state before each position
            torch.sum(torch.mul(flow, chunks.driven[at, :, None], out=room), -1, out=grad_B[at])
            with torch.autocast(u.device.type, enabled=False):
                torch.matmul(B[at, :, None], flow, out=grad_u[at, :, None])
            decay[0].mul_(border)
            decay[1:].mul_(states[:-1])
            torch.sum(torch.mul(decay, A, out=room), 2, out=grad_delta[at])
            grad_A += decay.mul_(delta[at, :, None]).sum((0, 1))
        grad_delta.addcmul_(grad_u, u)
        return grad_u.mul_(delta), grad_delta, grad_B, grad_C, grad_A, carried


def can_compile(u: Tensor, precise: torch.dtype) -> bool:
    """Whether our kernel serves: it has gradients of its own, so it may be used while they are kept."""
    with torch.no_grad():
        there = ready() is not None
    fits = u.device.type == "cpu" and u.shape[2] % LANES == 0 and u.numel() > 0
    return there and fits and precise == torch.float32


class CompiledScan(torch.autograd.Function):
    """The scan by our own kernel: u, delta (batch, time, inner); B, C (batch, time, states); A (states, inner)."""

    @staticmethod
    def forward(
        ctx: Any, u: Tensor, delta: Tensor, B: Tensor, C: Tensor, A: Tensor, start: Tensor
    ) -> tuple[Tensor, Tensor]:
        library = demand()
        B, C = (tensor if tensor.stride(2) == 1 else tensor.contiguous() for tensor in (B, C))
        y, state = torch.empty_like(u), start.clone(memory_format=torch.contiguous_format)
        keeps = any(ctx.needs_input_grad)
        borders = u.new_empty(u.shape[0], math.ceil(u.shape[1] / SPAN), *A.shape) if keeps else None
        given = (u, delta, B, C, A)
        library.functions.regard_scan(
            *(tensor.data_ptr() for tensor in (*given, y, state)),
            None if borders is None else borders.data_ptr(),
            describe_scan(u, B, C),
            library.level,
        )
        if borders is not None:
            ctx.save_for_backward(*given, borders)
        return y, state

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_y: Tensor, grad_end: Tensor) -> tuple[Tensor, ...]:
        u, delta, B, C, A, borders = ctx.saved_tensors
        library, sizes = demand(), describe_scan(u, B, C)
        grad_u, grad_delta = torch.empty_like(u), torch.empty_like(delta)
        grad_B, grad_C = (u.new_empty(sizes[4], *B.shape) for _ in range(2))
        grad_A = u.new_zeros(u.shape[0], *A.shape)
        carried = grad_end.clone(memory_format=torch.contiguous_format)
        grad_y = grad_y.contiguous()
        asked = (u, delta, B, C, A, borders, grad_y, grad_u, grad_delta, grad_B, grad_C, grad_A, carried)
        library.functions.regard_scan_back(*(tensor.data_ptr() for tensor in asked), sizes, library.level)
        return grad_u, grad_delta, grad_B.sum(0), grad_C.sum(0), grad_A.sum(0), carried


def describe_scan(u: Tensor, B: Tensor, C: Tensor) -> Array[c_int64]:
    """What the kernel is told of its arrays; in how many parts follows from the sizes alone, so that sums do too."""
    rows, time, inner = u.shape
    parts = min(max(1, SIDES // rows), inner // LANES)
    return (c_int64 * 9)(rows, time, inner, B.shape[2], parts, *B.stride()[:2], *C.stride()[:2])


class Chunks:
    """A scan's inputs, and room for one chunk's decays and states: (positions, batch, states, inner)."""

    def __init__(self, u: Tensor, delta: Tensor, B: Tensor, A: Tensor, start: Tensor) -> None:
        self.delta, self.B = delta, B
        self.A = A * math.log2(math.e)  # 2^x is computed twice as fast as e^x
        self.driven = delta * u
        self.time = u.shape[0]
        self.length = max(1, min(self.time, CACHED // max(start.numel(), 1)))
        self.decay = u.new_empty(self.length, *start.shape)
        self.states = torch.empty_like(self.decay)

    def spans(self) -> list[slice]:
        return [slice(at, min(at + self.length, self.time)) for at in range(0, self.time, self.length)]

    def run(self, at: slice, state: Tensor) -> tuple[Tensor, Tensor]:
        """The decays and states of one chunk, from the state before it."""
        n = at.stop - at.start
        decay = torch.mul(self.delta[at, :, None], self.A, out=self.decay[:n]).exp2_()
        states = torch.mul(self.driven[at, :, None], self.B[at, ..., None], out=self.states[:n])
        for step, now in zip(decay, states, strict=True):
            now.addcmul_(step, state)
            state = now
        return decay, states
