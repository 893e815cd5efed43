"""Laws of learning: gradients are finite, right, the same in pieces, and the same when a layer is computed twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.core.block import Block
from regard.core.edges import Edges
from regard.core.stack import Stack
from regard.core.view import View
from regard.laws.case import Padded, Whole
from regard.laws.law import AXES, LOOSE, Breach, Close, agree, insist, insist_finite, law, tell_place
from regard.laws.player import Chance, Player
from regard.laws.reading import (
    fill,
    keep_rows_apart,
    keep_shape,
    keep_type,
    look_back_only,
    refuse_lookers_ahead,
    repeat,
)
from regard.laws.script import Read, Script
from regard.laws.stepping import (
    BEGUN,
    LENGTHS,
    join,
    join_parts,
    live_through,
    play,
    read_in_chunks,
    refuse_states,
    refuse_steps,
)
from regard.laws.subject import GRID, Subject, connect, seed_weights, view_of, whole
from regard.laws.watching import wrap_in_block

STEP = 1e-6  # of finite differences, in double
SHARE = 1e-5  # of a gradient's length that it may be off by
INPUT = "the input"
LEAST = 1e-7  # what rounding does to a difference, divided by so small a step


def name_axes(name: str, tensor: Tensor) -> tuple[str, ...]:
    """What the axes of a tensor are called: those of the input, or those of a weight."""
    return AXES if name == INPUT else tuple(f"axis {n}" for n in range(tensor.dim()))


def list_weights(module: nn.Module) -> dict[str, nn.Parameter]:
    """The weights that learn."""
    return {name: weight for name, weight in module.named_parameters() if weight.requires_grad}


@law("gradients are finite and reach everything", Whole(), rests_on=[keep_shape], gradients=True)
def carry_gradients(subject: Subject, case: Whole) -> None:
    """Every position and every weight gets a gradient, and finite ones, beside pads too: or else it never learns."""
    mixer, memory = subject.make(), subject.remember(case.rows)
    x = subject.draw(case.rows, case.time).requires_grad_()
    loss = whole(mixer, x, memory).square().sum()
    if not subject.plain:
        padded = Padded("left", tuple(min(length, case.time) for length in LENGTHS[: case.rows]))
        _, filled = fill(subject, padded)
        loss = loss + whole(mixer, filled, memory, padded.valid)[padded.valid].square().sum()
    loss.backward()
    if subject.blind:
        insist(x.grad is None or not x.grad.any(), "its spec says that it ignores its input, and yet a gradient comes")
    else:
        insist(x.grad is not None, "no gradient reaches the input")
        assert x.grad is not None
        insist_finite(x.grad, "the gradient")
        dead = (x.grad == 0).all(-1).nonzero().tolist()
        insist(not dead, f"no gradient reaches row {dead[0][0]}, position {dead[0][1]}" if dead else "")
    for name, weight in list_weights(mixer).items():
        insist(weight.grad is not None, f"no gradient reaches the weight {name}")
        assert weight.grad is not None
        insist(bool(weight.grad.isfinite().all()), f"the gradient of {name} isn't finite")


@law(
    "no gradient comes from a later position",
    Whole(1),
    excuse=refuse_lookers_ahead,
    rests_on=[look_back_only],
    gradients=True,
)
def learn_from_the_past(subject: Subject, case: Whole) -> None:
    """No output has a slope by a later input, for each pair of them: one that leaks makes likelihoods impossible."""
    mixer, memory = subject.make(), subject.remember(case.rows)
    x = subject.draw(case.rows, case.time).requires_grad_()
    y = whole(mixer, x, memory)
    if not y.requires_grad:
        return
    names = ("its slope by a later input", "none")
    for time in range(case.time - 1):
        (slope,) = torch.autograd.grad(y[:, time].sum(), x, retain_graph=True, allow_unused=True)
        if slope is not None:
            later = slope[:, time + 1 :]
            near = Close(subject.allow(slope, slope), 0.0)
            agree(later, torch.zeros_like(later), names, near)


def compare_gradients(player: Player) -> None:
    """Insist that what was read in pieces gets the gradients that whole runs give it."""
    step_by_step, at_once = (sum_squares(side) for side in zip(*player.pairs, strict=True))
    mine = torch.autograd.grad(step_by_step, player.pieces, retain_graph=True, allow_unused=True)
    yours = torch.autograd.grad(at_once, player.pieces, allow_unused=True)
    for number, (x, one, other) in enumerate(zip(player.pieces, mine, yours, strict=True)):
        names = (f"the gradient of chunk {number} in steps", "whole")
        zero = torch.zeros_like(x)
        try:
            agree(zero if one is None else one, zero if other is None else other, names, LOOSE)
        except Breach as breach:
            breach.case = player.script
            raise


def sum_squares(tensors: Sequence[Tensor]) -> Tensor:
    return torch.stack([tensor.square().sum() for tensor in tensors]).sum()


def refuse_blind_steps(subject: Subject) -> str:
    return refuse_steps(subject) or ("it ignores its input, so none has a gradient" if subject.blind else "")


@law(
    "gradients in steps equal those of the whole",
    Script.read(3, 1, 4, 2),
    excuse=refuse_blind_steps,
    rests_on=[read_in_chunks, carry_gradients, learn_from_the_past],
    gradients=True,
)
def step_gradients(subject: Subject, case: Script) -> None:
    """What is read in pieces learns as the whole does: a detach inside would cut what happened long ago."""
    for player in play(subject, case):
        compare_gradients(player)


@law(
    "gradients go through a join",
    join_parts(*BEGUN[:3], after=(Read(2),)),
    excuse=lambda subject: refuse_states(subject) or refuse_blind_steps(subject),
    rests_on=[step_gradients, join],
    gradients=True,
)
def join_gradients(subject: Subject, case: Script) -> None:
    """Joined rows learn as they do alone, back to what was read before they were joined."""
    for player in play(subject, case):
        compare_gradients(player)


@law(
    "whatever is done to a state, gradients are right",
    Chance((50, 51)),
    excuse=refuse_steps,
    rests_on=[live_through, step_gradients],
    gradients=True,
)
def live_with_gradients(subject: Subject, case: Script | Chance) -> None:
    """With the graph on, states are made otherwise, and rows must be as if alone there too, gradients included."""
    for player in play(subject, case, LOOSE, strict=True):
        if not subject.blind and player.pairs:
            compare_gradients(player)


def refuse_estimates(subject: Subject) -> str:
    return "its gradient is an estimate, as it says" if subject.sample.estimates else ""


@law(
    "gradients equal finite differences in double",
    Whole(2, 3),
    excuse=refuse_estimates,
    rests_on=[carry_gradients, repeat, keep_type],
    gradients=True,
)
def match_differences(subject: Subject, case: Whole) -> None:
    """The gradient is the slope of what is computed: or else training goes another way than the loss says."""
    mixer, memory = subject.make().double(), subject.remember(case.rows)
    memory = None if memory is None else memory.map(Tensor.double)
    x = subject.draw(case.rows, case.time).double().requires_grad_()
    noise = torch.Generator().manual_seed(5)
    shares = torch.randn(x.shape, generator=noise, dtype=torch.float64)

    def compute() -> Tensor:
        return (whole(mixer, x, memory) * shares).sum()

    weights: dict[str, Tensor] = {} if subject.blind else {INPUT: x}
    weights |= list_weights(mixer)
    grads = torch.autograd.grad(compute(), list(weights.values()), allow_unused=True)
    for (name, weight), grad in zip(weights.items(), grads, strict=True):
        slope = torch.zeros_like(weight) if grad is None else grad
        way = torch.randn(weight.shape, generator=noise, dtype=torch.float64)
        compare_slope(name, weight, slope, way, compute)


def compare_slope(name: str, weight: Tensor, slope: Tensor, way: Tensor, compute: Callable[[], Tensor]) -> None:
    """Go a little to and fro along a random way; where the slope is wrong, halve the way until one number is left."""

    def differ(way: Tensor) -> tuple[float, float]:
        begun = weight.detach().clone()
        with torch.no_grad():
            ends = []
            for sign in (1, -1):
                weight.copy_(begun + sign * STEP * way)
                ends.append(compute().item())
            weight.copy_(begun)
        return (slope * way).sum().item(), (ends[0] - ends[1]) / (2 * STEP)

    def right(way: Tensor) -> bool:
        found, expected = differ(way)
        return abs(found - expected) <= SHARE * (slope.norm() * way.norm()).item() + LEAST

    if right(way):
        return
    mine, yours = differ(way)
    numbers = list(range(weight.numel()))
    while len(numbers) > 1:
        half = numbers[: len(numbers) // 2]
        part = torch.zeros_like(way).flatten()
        part[half] = way.flatten()[half]
        numbers = numbers[len(half) :] if right(part.view_as(way)) else half
    one = torch.zeros_like(way).flatten()
    one[numbers] = 1.0
    found, expected = differ(one.view_as(way))
    index = [int(n) for n in torch.unravel_index(torch.tensor(numbers[0]), weight.shape)]
    place = dict(zip(name_axes(name, weight), index, strict=True))
    told = tell_place(place) if name == INPUT else f"{name}{index}"
    raise Breach(
        f"{told}: the gradient {found:.6g}, finite differences {expected:.6g}, "
        f"a gap of {abs(found - expected):.3g} (along a random way {mine:.6g} and {yours:.6g})",
        place=place,
        found=found,
        expected=expected,
        most=abs(mine - yours),
    )


class Unchanged(nn.Module):
    """An embedding of vectors that are there already."""

    grid = GRID

    def describe_edges(self, edges: Edges) -> Edges:
        return edges

    def forward(self, inputs: Tensor, view: View) -> Tensor:
        return inputs


@law(
    "a layer that is computed again finds the same",
    Whole(2, 3),
    rests_on=[carry_gradients, keep_rows_apart],
    gradients=True,
)
def recompute(subject: Subject, case: Whole) -> None:
    """With activation checkpointing (`train.recompute`) gradients stay: or else what saves memory changes a model."""
    module = subject.make() if subject.plain else wrap_in_block(subject)
    results = []
    for again in (False, True):
        module.zero_grad()
        x = subject.draw(case.rows, case.time).requires_grad_()
        seed_weights(6)  # dropout draws the same both times
        y = run_training(module.train(), x, subject, again)
        y.square().sum().backward()
        grads = {INPUT: x.grad} | {name: weight.grad for name, weight in list_weights(module).items()}
        results.append((y, grads))
    (y, grads), (other, anew) = results
    agree(other, y, ("computed again", "kept"))
    for name, grad in grads.items():
        mine = anew[name]
        insist((mine is None) == (grad is None), f"{name} has a gradient only one of the two ways")
        if mine is not None and grad is not None:
            names = (f"the gradient of {name}, computed again,", "kept")
            agree(mine, grad, names, LOOSE, name_axes(name, grad))


def run_training(module: nn.Module, x: Tensor, subject: Subject, again: bool) -> Tensor:
    """The module as a trainer runs it, with or without keeping what it computes inside."""
    view = connect(view_of(x, memory=subject.remember(len(x))), subject.sample)
    if isinstance(module, Block):
        stack = Stack(Unchanged(), [module], None, None).train()
        stack.recompute = again
        found: Tensor = stack(x, view)
        return found
    y: Tensor = checkpoint(module, x, view, use_reentrant=False) if again else module(x, view)
    return y
