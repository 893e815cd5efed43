"""Laws of reading a whole sequence: shape, repetition, rows, the future, padding, the type of numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.laws.case import Cut, Padded, Sourced, Typed, Whole
from regard.laws.law import USUAL, Breach, Close, agree, insist, insist_finite, law
from regard.laws.subject import Subject, connect, pick_row, view_of, whole

JUNK = 7.0  # how large the numbers are that stand where nothing is real


def refuse_plain(subject: Subject) -> str:
    """A module of somebody else's has no view that tells it of pads and probes, and no state."""
    return "a plain module" if subject.plain else ""


@law("it gives back the shape that it was given", Whole(), Whole(1, 1))
def keep_shape(subject: Subject, case: Whole) -> None:
    """(batch, time, width) gives (batch, time, width) and finite numbers at any size: so layers can stand on it."""
    x = subject.draw(case.rows, case.time)
    y = whole(subject.make(), x, subject.remember(case.rows))
    insist(isinstance(y, Tensor), f"it gives a {type(y).__name__} and not a tensor")
    insist(y.shape == x.shape, f"the shape {tuple(x.shape)} gives {tuple(y.shape)}")
    insist(y.dtype == x.dtype, f"{x.dtype} gives {y.dtype}")
    insist_finite(y, "the output")


@law("the same input gives the same output", Whole(), rests_on=[keep_shape])
def repeat(subject: Subject, case: Whole) -> None:
    """Two calls outside of training agree: or else dropout was left on, or the module remembers what a state should."""
    mixer, x, memory = subject.make(), subject.draw(case.rows, case.time), subject.remember(case.rows)
    first = whole(mixer, x, memory)
    agree(whole(mixer, x, memory), first, ("the second time", "the first"))


@law("rows don't mix", Whole(), rests_on=[repeat])
def keep_rows_apart(subject: Subject, case: Whole) -> None:
    """Each row of a batch is as if it were alone: or else an answer depends on who else is asking."""
    mixer, x, memory = subject.make(), subject.draw(case.rows, case.time), subject.remember(case.rows)
    together = whole(mixer, x, memory)
    alone = torch.cat([whole(mixer, x[row : row + 1], pick_row(memory, row)) for row in range(case.rows)])
    try:
        agree(together, alone, ("in the batch", "alone"))
    except Breach as breach:
        if subject.plain and reads_time_first(subject, x):
            breach.args = (f"{breach.message}; with time as the first axis rows don't mix: batch_first=True?",)
            breach.message = str(breach)
        raise


def reads_time_first(subject: Subject, x: Tensor) -> bool:
    """Whether a module keeps rows apart if these are its second axis, as in torch's own unless told otherwise."""
    mixer = subject.make()
    together = whole(mixer, x.transpose(0, 1), None)
    alone = torch.cat([whole(mixer, x[row : row + 1].transpose(0, 1), None) for row in range(len(x))], 1)
    return together.shape == alone.shape and torch.allclose(together, alone, *USUAL[::-1])


def refuse_lookers_ahead(subject: Subject) -> str:
    if subject.causal is False:
        return "it may look ahead, as it says" if not subject.plain else "it may look ahead, as you say"
    seen = subject.causal is None and subject.looks_ahead
    return "it was seen to look ahead, and may unless you say --causal" if seen else ""


@law(
    "no position sees a later one",
    Cut(),
    excuse=refuse_lookers_ahead,
    rests_on=[repeat],
    remark=lambda subject: "seen, not said" if subject.causal is None else "",
)
def look_back_only(subject: Subject, case: Cut) -> None:
    """What comes later changes nothing before it: or else a model learns to copy the answer, and can't be stepped."""
    mixer, x, memory = subject.make(), subject.draw(case.rows, case.time), subject.remember(case.rows)
    before = whole(mixer, x, memory)
    changed = torch.cat((x[:, : case.at], x[:, case.at :] + 10), 1)
    after = whole(mixer, changed, memory)
    near = Close(subject.allow(before, after), 0.0)
    agree(after[:, : case.at], before[:, : case.at], ("with what follows changed", "as it was"), near)
    still = torch.allclose(after[:, case.at :], before[:, case.at :])
    insist(still <= subject.blind, f"positions from {case.at} on are changed, and nothing comes out otherwise")
    insist(still >= subject.blind, "its spec says that it ignores its input, and yet it doesn't")


def refuse_who_may_not(subject: Subject) -> str:
    return refuse_plain(subject) or ("it says that it is causal" if subject.causal else "")


@law("who may look ahead does", Cut(), excuse=refuse_who_may_not, rests_on=[repeat])
def look_ahead(subject: Subject, case: Cut) -> None:
    """What isn't causal sees later positions: or else it could say `causal = True`, and be stepped."""
    mixer, x, memory = subject.make(), subject.draw(case.rows, case.time), subject.remember(case.rows)
    changed = torch.cat((x[:, : case.at], x[:, case.at :] + 10), 1)
    before, after = (whole(mixer, each, memory)[:, : case.at] for each in (x, changed))
    insist(not torch.allclose(before, after), "causal is False, and what follows changes nothing: causal = True")


def refuse_but_backward_lookers(subject: Subject) -> str:
    if not subject.plain:
        return "for plain modules"
    return "it looks ahead" if subject.looks_ahead else ""


@law(
    "padding at the end changes nothing before it",
    Cut(),
    excuse=refuse_but_backward_lookers,
    rests_on=[look_back_only, keep_rows_apart],
)
def ignore_what_follows(subject: Subject, case: Cut) -> None:
    """A beginning is as if nothing followed: or else a shorter row in a batch is answered otherwise than alone."""
    mixer, x = subject.make(), subject.draw(case.rows, case.time)
    padded = torch.cat((x[:, : case.at], JUNK * x[:, case.at :]), 1)
    agree(whole(mixer, padded, None)[:, : case.at], whole(mixer, x[:, : case.at], None), ("padded", "without pads"))


def fill(subject: Subject, case: Padded) -> tuple[Tensor, Tensor]:
    """Rows as long as they are, and the same with junk around them: (rows, longest, width), (rows, time, width)."""
    x = subject.draw(len(case.lengths), max(case.lengths))
    filled = JUNK * subject.draw(len(case.lengths), case.time, seed=4)
    for row, (length, real) in enumerate(zip(case.lengths, case.valid, strict=True)):
        filled[row, real] = x[row, :length]
    return x, filled


@law(
    "padding changes nothing", Padded("left"), Padded("right"), excuse=refuse_plain, rests_on=[repeat, keep_rows_apart]
)
def ignore_padding(subject: Subject, case: Padded) -> None:
    """A padded row gives what it gives without pads, on either side: or else an answer depends on the batch."""
    mixer, memory = subject.make(), subject.remember(len(case.lengths))
    x, filled = fill(subject, case)
    found = whole(mixer, filled, memory, case.valid)
    insist_finite(found, "the output")
    for row, length in enumerate(case.lengths):
        expected = whole(mixer, x[row : row + 1, :length], pick_row(memory, row))
        agree(found[row, case.valid[row]], expected[0], ("padded", "without pads"), rows=[row])


def refuse_orderly(subject: Subject) -> str:
    return refuse_plain(subject) or ("it sees an order" if subject.sample.ordered else "")


@law(
    "who takes positions for a set doesn't see their order",
    Whole(),
    excuse=refuse_orderly,
    rests_on=[repeat, keep_rows_apart],
)
def ignore_order(subject: Subject, case: Whole) -> None:
    """Positions that change places, and their edges with them, change answers and nothing else: or else what is said of
    a graph depends on how its nodes happen to be numbered.
    """
    mixer, x, memory = subject.make(), subject.draw(case.rows, case.time), subject.remember(case.rows)
    order = torch.randperm(case.time, generator=torch.Generator().manual_seed(5))  # who stands at each place
    view = connect(view_of(x, memory=memory), mixer)
    before: Tensor = mixer(x, view)
    moved = view_of(x, memory=memory)
    if view.edges is not None:
        places = (torch.arange(case.rows)[:, None] * case.time + order.argsort()).flatten()
        moved.edges = view.edges.move(places)
    after: Tensor = mixer(x[:, order], moved)
    agree(after, before[:, order], ("in another order", "in the first"), Close(1e-5, 1e-5))


def refuse_without_memory(subject: Subject) -> str:
    return "" if subject.over_memory else "it looks at no memory"


@law("padding of the memory changes nothing", Sourced(), excuse=refuse_without_memory, rests_on=[ignore_padding])
def ignore_padding_of_memory(subject: Subject, case: Sourced) -> None:
    """Who looks at a memory sees its real keys alone: or else a source is understood otherwise in a batch."""
    rows = len(case.keys)
    mixer, x, memory = subject.make(), subject.draw(rows, case.time), subject.remember(rows, max(case.keys))
    assert memory is not None
    memory.valid = case.valid
    found = whole(mixer, x, memory)
    for row, keys in enumerate(case.keys):
        alone = memory.select(torch.tensor([row]))
        alone.tensors, alone.valid = (alone.states[:, :keys],), None
        expected = whole(mixer, x[row : row + 1], alone)
        agree(found[row], expected[0], ("with padded keys", "without"), rows=[row])


@law(
    "numbers keep their type",
    Typed(dtype="bfloat16"),
    Typed(dtype="float64"),
    rests_on=[keep_shape],
)
def keep_type(subject: Subject, case: Typed) -> None:
    """A model in bfloat16 or double gives numbers of that type: or else the next layer refuses them."""
    dtype: torch.dtype = getattr(torch, case.dtype)
    memory = subject.remember(case.rows)
    memory = None if memory is None else memory.map(lambda tensor: tensor.to(dtype))
    y = whole(subject.make().to(dtype), subject.draw(case.rows, case.time).to(dtype), memory)
    insist(y.dtype == dtype, f"{dtype} gives {y.dtype}")
    insist_finite(y, "the output")
