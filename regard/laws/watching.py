"""Laws of looking: who watches changes nothing, and sees what the mixer says can be seen."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.core.block import Block, Sublayer
from regard.core.probe import Record
from regard.core.view import View
from regard.laws.case import Packed, Whole
from regard.laws.law import Breach, Close, agree, insist, law
from regard.laws.player import Player
from regard.laws.reading import ignore_padding, refuse_plain, repeat
from regard.laws.script import Script
from regard.laws.stepping import read_in_chunks, refuse_steps
from regard.laws.subject import Subject, connect, view_of, whole


def check_names(record: Record, path: str, declared: tuple[str, ...]) -> None:
    """Insist that what was reported is what was declared, no less and no more."""
    wanted, seen = {f"{path}.{name}" for name in declared}, set(record)
    insist(not wanted - seen, f"names declares {', '.join(sorted(wanted - seen))}, and a probe never sees it")
    insist(not seen - wanted, f"a probe sees {', '.join(sorted(seen - wanted))}, which names doesn't declare")


def check_weights(name: str, weights: Tensor) -> None:
    """Insist that something called weights is a share for each key."""
    if (weights < 0).any():
        raise Breach(f"{name} has a weight of {weights.min().item():.4g}, below 0", kind="words")
    total = weights.sum(-1)
    axes = ("row", "head", "position")
    try:
        agree(total, torch.ones_like(total), (f"{name} sum up to", "and should to"), Close(1e-5, 1.3e-6), axes)
    except Breach as breach:
        raise Breach(f"{breach.message} (over the keys, which are the last axis)", place=breach.place) from None


@law("watching changes nothing and shows the declared names", Whole(), excuse=refuse_plain, rests_on=[repeat])
def watch(subject: Subject, case: Whole) -> None:
    """A probe that only looks changes nothing and sees every name: or else what one looks at isn't what computes."""
    mixer, x, memory = subject.make(), subject.draw(case.rows, case.time), subject.remember(case.rows)
    record = Record("*")
    found = whole(mixer, x, memory, probe=record)
    agree(found, whole(mixer, x, memory), ("watched", "unwatched"))
    check_names(record, mixer.path, mixer.names)
    for name in record:
        if name.endswith("weights"):
            weights = record[name]
            insist(
                weights.dim() == 4 and weights.shape[2] == case.time,
                f"{name} has the shape {tuple(weights.shape)}, and should be (rows, heads, {case.time} queries, keys)",
            )
            check_weights(name, weights)


@law("watching a step changes nothing", Script.read(3, 1, 4, 2), excuse=refuse_steps, rests_on=[watch, read_in_chunks])
def watch_steps(subject: Subject, case: Script) -> None:
    """A probe that looks at steps changes nothing: or else one can't look at a model while it writes."""
    record = Record("*")
    Player(subject, case, probe=record).run(case.events)
    for name, pieces in record.pieces.items():
        if name.endswith("weights"):
            for weights in pieces:
                check_weights(name, weights)


def refuse_packing(subject: Subject) -> str:
    return refuse_plain(subject) or (
        "it looks at a memory, which belongs to one sentence" if subject.over_memory else ""
    )


def wrap_in_block(subject: Subject) -> Block:
    """The mixer and nothing else, inside the sublayer that keeps documents apart."""
    return Block(Sublayer(subject.make(), None, None, residual=False, dropout=0.0), None, None).eval()


def look_at(block: Block, x: Tensor, valid: Tensor | None = None, **more: Any) -> View:
    """The view of a block, with edges if its mixer reads them."""
    assert block.mixer is not None
    return connect(view_of(x, valid, **more), block.mixer)


def draw_packed(subject: Subject, case: Packed) -> Tensor:
    """Rows of documents, with junk where a row is filled up."""
    x = subject.draw(len(case.documents), case.time)
    return torch.where(case.valid[..., None], x, 7 * x.flip(0, 1))


@law("packed documents are as if alone", Packed(), excuse=refuse_packing, rests_on=[ignore_padding], gradients=True)
def pack(subject: Subject, case: Packed) -> None:
    """Documents in one row give what each gives alone, gradients too: or else a text is learned with its neighbours."""
    block, x = wrap_in_block(subject), draw_packed(subject, case).requires_grad_()
    found = block(x, look_at(block, x, case.valid, documents=case.numbers))
    insist(bool(found.isfinite().all()), "the output isn't finite where documents are packed")
    expected = [block(document[None], look_at(block, document[None]))[0] for document in case.split(x)]
    rows = [row for row, sizes in enumerate(case.documents) for _ in sizes]
    for number, (row, one, other) in enumerate(zip(rows, case.split(found), expected, strict=True)):
        names = (f"packed (document {number})", "alone")
        agree(one, other, names, rows=[row])
    weights = [x, *(weight for weight in block.parameters() if weight.requires_grad)]
    grads = torch.autograd.grad(found[case.valid].square().sum(), weights, allow_unused=True)
    alone = torch.autograd.grad(torch.cat(expected).square().sum(), weights, allow_unused=True)
    for mine, yours in zip(grads, alone, strict=True):
        if mine is not None and yours is not None:
            axes = tuple(f"axis {n}" for n in range(mine.dim()))
            agree(mine, yours, ("the gradient packed", "alone"), Close(1e-4, 1e-3), axes)


@law("nothing of a document reaches its neighbours", Packed(), excuse=refuse_packing, rests_on=[pack], gradients=True)
def leak_nothing(subject: Subject, case: Packed) -> None:
    """The gradient of one document is exactly 0 in every other: or else texts that are packed know of each other."""
    block, x = wrap_in_block(subject), draw_packed(subject, case).requires_grad_()
    found = case.split(block(x, look_at(block, x, case.valid, documents=case.numbers)))
    chosen = min(1, len(found) - 1)
    (grad,) = torch.autograd.grad(found[chosen].square().sum(), x)
    for number, piece in enumerate(case.split(grad)):
        insist(bool(piece.any()) == (number == chosen), f"document {number} has a share in document {chosen}")
    insist(not grad[~case.valid].any(), f"pads have a share in document {chosen}")


@law("watching packed documents changes nothing", Packed(), excuse=refuse_packing, rests_on=[watch, pack])
def watch_packed(subject: Subject, case: Packed) -> None:
    """A probe that looks at packed documents changes nothing and sees every name."""
    block, x, record = wrap_in_block(subject), draw_packed(subject, case), Record("mixer.*")
    found = block(x, look_at(block, x, case.valid, documents=case.numbers, probe=record))
    unwatched = block(x, look_at(block, x, case.valid, documents=case.numbers))
    axes = ("position", "channel")
    agree(found[case.valid], unwatched[case.valid], ("watched", "unwatched"), axes=axes)
    assert block.mixer is not None
    check_names(record, block.mixer.path, block.mixer.names)
