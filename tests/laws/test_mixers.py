"""What every mixer must keep, whatever it computes."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.core.block import Block, BlockSpec
from regard.core.mixer import MixerSpec
from regard.core.probe import Record
from regard.core.state import State
from regard.core.view import View
from regard.errors import InputError, NotRewindable, SpecError
from tests.laws.cases import (
    SPECS,
    TIME,
    WIDTH,
    blind,
    build,
    causal,
    every,
    follow,
    fresh,
    inputs,
    is_causal,
    law,
    memory,
    whole,
)

CLOSE: Any = {"atol": 2e-5, "rtol": 1e-4}


def test_every_file_in_the_folder_is_covered() -> None:
    assert {spec.kind for spec in SPECS} == set(MixerSpec.kinds)
    assert len(SPECS) > 2 * len(MixerSpec.kinds)


@causal
@pytest.mark.parametrize("sizes", [[1] * TIME, [3, 1, 4, 2], [9, 1], [TIME]], ids=str)
@torch.no_grad()
def test_stepping_equals_chunks_equals_whole(spec: MixerSpec, sizes: list[int]) -> None:
    mixer, x, source = build(spec), inputs(), memory(spec)
    expected = whole(mixer, x, source)
    state = fresh(mixer, x, source)
    assert state is not None
    pieces = [follow(mixer, chunk, state, source) for chunk in x.split(sizes, 1)]
    torch.testing.assert_close(torch.cat(pieces, 1), expected, **CLOSE)
    assert state.length == TIME


@causal
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
@torch.no_grad()
def test_a_state_has_the_type_of_its_model(spec: MixerSpec, dtype: torch.dtype) -> None:
    mixer, x, source = build(spec).to(dtype), inputs().to(dtype), memory(spec)
    source = None if source is None else source.map(lambda tensor: tensor.to(dtype))
    state = fresh(mixer, x, source)
    assert state is not None
    precise = torch.promote_types(dtype, torch.float32)  # a state that adds up all that came before would drift
    allowed = {dtype, precise, precise.to_complex()} if mixer.accumulates else {dtype}

    def types(state: State) -> set[torch.dtype]:
        found: list[Tensor] = []
        state.map(lambda tensor: found.append(tensor) or tensor)  # type: ignore[func-returns-value]
        return {tensor.dtype for tensor in found}

    first = types(state)
    y = torch.cat([follow(mixer, chunk, state, source) for chunk in x.split([3, 1, 1, 5], 1)], 1)
    assert types(state) == first <= allowed
    assert y.dtype == dtype
    assert y.isfinite().all()
    if dtype == torch.float64:
        torch.testing.assert_close(y, whole(mixer, x, source), atol=1e-9, rtol=1e-9)


@causal
def test_stepping_with_gradients_equals_whole(spec: MixerSpec) -> None:
    mixer, x, source = build(spec), inputs().requires_grad_(), memory(spec)
    state = fresh(mixer, x, source)
    assert state is not None
    if blind(spec):
        return
    (expected,) = torch.autograd.grad(whole(mixer, x, source).square().sum(), x)
    pieces = [follow(mixer, chunk, state, source) for chunk in x.split([3, 1, 4, 2], 1)]
    (found,) = torch.autograd.grad(torch.cat(pieces, 1).square().sum(), x)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-3)


@causal
@pytest.mark.parametrize("rows", [[0, 1, 2], [2, 0, 0], [1], [0, 0, 1, 1, 2, 2], [2, 2]], ids=str)
@torch.no_grad()
def test_selecting_rows_equals_running_those_rows(spec: MixerSpec, rows: list[int]) -> None:
    mixer, x, source, index = build(spec), inputs(), memory(spec), torch.tensor(rows)
    kept = source.select(index) if source else None
    expected = whole(mixer, x[index], kept)
    state = fresh(mixer, x, source)
    assert state is not None
    follow(mixer, x[:, :4], state, source)
    state = state.select(index)
    torch.testing.assert_close(follow(mixer, x[index, 4:], state, kept), expected[:, 4:], **CLOSE)


@causal
@torch.no_grad()
def test_beams_of_one_sentence_share_its_memory(spec: MixerSpec) -> None:
    """Repeat for a beam, reorder within the sentences, drop a sentence: as if each row had run alone."""
    mixer, x, source = build(spec), inputs(), memory(spec)
    state = fresh(mixer, x, source)
    assert state is not None
    follow(mixer, x[:, :3], state, source)
    rows = torch.arange(3)
    for index in (torch.tensor([0, 0, 1, 1, 2, 2]), torch.tensor([1, 0, 2, 2, 5, 4]), torch.tensor([4, 5, 0, 1])):
        state, rows = state.select(index), rows[index]
        source = source.select(index) if source else None
        step = x[rows, state.length : state.length + 1]
        found = follow(mixer, step, state, source)
        alone = whole(mixer, x[rows], memory(spec).select(rows) if source else None)  # type: ignore[union-attr]
        torch.testing.assert_close(found[:, 0], alone[:, state.length - 1], **CLOSE)
    if source is not None:
        assert source.states.shape[0] == 2


def padded(x: Tensor, lengths: list[int], side: str) -> tuple[Tensor, Tensor]:
    """Rows cut to their lengths and filled with junk on one side."""
    time = max(lengths) + 2
    valid = torch.zeros(len(lengths), time, dtype=torch.bool)
    filled = 7 * torch.randn(len(lengths), time, WIDTH, generator=torch.Generator().manual_seed(4))
    for row, length in enumerate(lengths):
        place = slice(0, length) if side == "right" else slice(time - length, time)
        valid[row, place] = True
        filled[row, place] = x[row, :length]
    return filled, valid


LENGTHS = [5, 8, 2]


@every
@pytest.mark.parametrize("side", ["left", "right"])
@torch.no_grad()
def test_padding_changes_nothing(spec: MixerSpec, side: str) -> None:
    mixer, x, source = build(spec), inputs(), memory(spec)
    filled, valid = padded(x, LENGTHS, side)
    found = whole(mixer, filled, source, valid)
    assert found.isfinite().all()
    for row, length in enumerate(LENGTHS):
        alone = source.select(torch.tensor([row])) if source else None
        expected = whole(mixer, x[row : row + 1, :length], alone)
        torch.testing.assert_close(found[row, valid[row]], expected[0], **CLOSE)


@causal
@pytest.mark.parametrize("side", ["left", "right"])
@torch.no_grad()
def test_a_padded_prompt_decodes_as_if_alone(spec: MixerSpec, side: str) -> None:
    mixer, x, source = build(spec), inputs(), memory(spec)
    filled, valid = padded(x, LENGTHS, side)
    state = fresh(mixer, x, source)
    assert state is not None
    follow(mixer, filled, state, source, valid)
    later = [x[[row], [length]] for row, length in enumerate(LENGTHS)]
    first = follow(mixer, torch.cat(later)[:, None], state, source)
    chunk = torch.stack([x[row, length + 1 : length + 2] for row, length in enumerate(LENGTHS)])
    second = follow(mixer, chunk, state, source)
    for row, length in enumerate(LENGTHS):
        alone = source.select(torch.tensor([row])) if source else None
        expected = whole(mixer, x[row : row + 1, : length + 2], alone)[0, length:]
        torch.testing.assert_close(torch.cat((first[row], second[row])), expected, **CLOSE)


PACKED = [[2, 5, 3], [10], [6, 1]]  # the lengths of each row's documents

inward = law(lambda spec: not spec.over_memory)


def block_of(spec: MixerSpec) -> Block:
    """The mixer and nothing else, inside the sublayer that keeps documents apart."""
    torch.manual_seed(1)
    return BlockSpec(mix=spec, residual=False).build(WIDTH).eval()


def packed() -> tuple[Tensor, Tensor, Tensor]:
    """Rows of documents, the last row filled up with junk; which tokens are real; and whose each token is."""
    numbers = [[number for number, length in enumerate(row) for _ in range(length)] for row in PACKED]
    valid = torch.tensor([[place < len(row) for place in range(TIME)] for row in numbers])
    documents = torch.tensor([row + [0] * (TIME - len(row)) for row in numbers])  # whose a pad is doesn't matter
    x = inputs()
    return torch.where(valid[..., None], x, 7 * x.flip(0)), valid, documents


def each_document(x: Tensor) -> list[Tensor]:
    return [piece for row, sizes in zip(x, PACKED, strict=True) for piece in row[: sum(sizes)].split(sizes)]


@inward
def test_documents_packed_in_one_row_are_as_if_alone(spec: MixerSpec) -> None:
    block, (x, valid, documents) = block_of(spec), packed()
    x.requires_grad_()
    found = block(x, View.of(x, valid, documents=documents))
    assert found.isfinite().all()
    expected = [block(document[None], View.of(document[None]))[0] for document in each_document(x)]
    for one, other in zip(each_document(found), expected, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)
    weights = [x, *block.parameters()]
    grads = torch.autograd.grad(found[valid].square().sum(), weights)
    for one, other in zip(grads, torch.autograd.grad(torch.cat(expected).square().sum(), weights), strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-3)


@inward
def test_nothing_of_a_document_reaches_its_neighbours(spec: MixerSpec) -> None:
    block, (x, valid, documents) = block_of(spec), packed()
    x.requires_grad_()
    found = block(x, View.of(x, valid, documents=documents))
    (grad,) = torch.autograd.grad(each_document(found)[1].square().sum(), x)
    assert [bool(piece.any()) for piece in each_document(grad)] == [False, True, False, False, False, False]
    assert not grad[~valid].any()


@inward
@torch.no_grad()
def test_watching_packed_documents_changes_nothing(spec: MixerSpec) -> None:
    block, (x, valid, documents), record = block_of(spec), packed(), Record("mixer.*")
    found = block(x, View.of(x, valid, documents=documents, probe=record))
    torch.testing.assert_close(found[valid], block(x, View.of(x, valid, documents=documents))[valid], **CLOSE)
    assert block.mixer is not None
    assert set(record) == {f"mixer.{name}" for name in block.mixer.names}


@law(lambda spec: is_causal(spec) and not spec.over_memory)
def test_packed_documents_leave_no_state(spec: MixerSpec) -> None:
    block, (x, valid, documents) = block_of(spec), packed()
    state = block.start(len(x), View.of(x[:, :0]))
    with pytest.raises(InputError, match="pack documents"):
        block(x, View.of(x, valid, documents=documents), state)


@law(lambda spec: spec.over_memory)
@torch.no_grad()
def test_padding_of_the_memory_changes_nothing(spec: MixerSpec) -> None:
    if spec.kind == "recurrent" and spec.fields()["start"] in ("final", "bridge"):
        return  # it reads the end of the source, not its positions
    mixer, x, source = build(spec), inputs(), memory(spec)
    assert source is not None
    valid = torch.ones(3, 6, dtype=torch.bool)
    valid[0, 4:] = valid[2, 1:] = False
    source.valid = valid
    found = whole(mixer, x, source)
    for row in range(3):
        alone = source.select(torch.tensor([row]))
        alone.tensors, alone.valid = (alone.states[:, valid[row]],), None
        torch.testing.assert_close(found[row : row + 1], whole(mixer, x[row : row + 1], alone), **CLOSE)


@every
@torch.no_grad()
def test_watching_changes_nothing_and_reports_the_declared_names(spec: MixerSpec) -> None:
    mixer, x, source, record = build(spec), inputs(), memory(spec), Record("*")
    found = whole(mixer, x, source, probe=record)
    torch.testing.assert_close(found, whole(mixer, x, source), **CLOSE)
    assert mixer.names
    assert set(record) == {f"{mixer.path}.{name}" for name in mixer.names}
    for name in record:
        if name.endswith("weights"):
            weights = record[name]
            assert weights.shape[2] == TIME
            assert (weights >= 0).all()
            torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))


@causal
@torch.no_grad()
def test_watching_a_step_changes_nothing(spec: MixerSpec) -> None:
    mixer, x, source = build(spec), inputs(), memory(spec)
    expected = whole(mixer, x, source)
    state, record = fresh(mixer, x, source), Record("*")
    assert state is not None
    pieces = [follow(mixer, chunk, state, source, probe=record) for chunk in x.split([3, 1, 4, 2], 1)]
    torch.testing.assert_close(torch.cat(pieces, 1), expected, **CLOSE)
    for name, values in record.pieces.items():
        if name.endswith("weights"):
            for weights in values:
                assert (weights >= 0).all()
                torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))


@causal
@torch.no_grad()
def test_no_position_sees_the_future(spec: MixerSpec) -> None:
    mixer, x, source = build(spec), inputs(), memory(spec)
    before = whole(mixer, x, source)
    changed = x.clone()
    changed[:, 6:] += 10
    after = whole(mixer, changed, source)
    # a Fourier transform regroups all sums of a sequence, so there the past is equal within rounding only
    torch.testing.assert_close(after[:, :6], before[:, :6], atol=1e-6 if spec.kind == "ssm" else 0, rtol=0)
    assert torch.allclose(after[:, 6:], before[:, 6:]) == blind(spec)


@law(lambda spec: not is_causal(spec))
@torch.no_grad()
def test_who_may_see_the_future_does(spec: MixerSpec) -> None:
    mixer, x = build(spec), inputs()
    changed = x.clone()
    changed[:, 6:] += 10
    assert not torch.allclose(whole(mixer, changed, None)[:, :6], whole(mixer, x, None)[:, :6])


@every
def test_gradients_flow_and_are_finite(spec: MixerSpec) -> None:
    mixer, x, source = build(spec), inputs().requires_grad_(), memory(spec)
    filled, valid = padded(x, LENGTHS, "left")
    (whole(mixer, x, source).square().sum() + whole(mixer, filled, source, valid)[valid].square().sum()).backward()
    if blind(spec):
        assert x.grad is None
    else:
        assert x.grad is not None
        assert x.grad.isfinite().all()
        assert (x.grad.abs().sum(-1) > 0).all()
    for name, weight in mixer.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.isfinite().all(), name


@every
def test_a_spec_survives_json(spec: MixerSpec) -> None:
    text = spec.model_dump_json()
    assert MixerSpec.parse(json.loads(text)) == spec
    assert json.loads(text)["kind"] == spec.kind


@pytest.mark.parametrize("kind", sorted(MixerSpec.kinds))
def test_a_misspelt_setting_is_an_error_with_a_suggestion(kind: str) -> None:
    for name in MixerSpec.kinds[kind].model_fields:
        if name != "kind" and len(name) > 3:
            typo = name[:-2] + name[-1] + name[-2] if name[-1] != name[-2] else name + "x"
            with pytest.raises(SpecError, match=f"{typo}: unknown setting; did you mean '{name}'"):
                MixerSpec.parse({"kind": kind, typo: 1})


@pytest.mark.parametrize("kind", sorted(MixerSpec.kinds))
def test_an_ill_typed_or_negative_setting_is_an_error_that_names_it(kind: str) -> None:
    for name, info in MixerSpec.kinds[kind].model_fields.items():
        if name == "kind":
            continue
        with pytest.raises(SpecError, match=name):
            MixerSpec.parse({"kind": kind, name: object()})
        if "int" in str(info.annotation):
            with pytest.raises(SpecError, match=rf"{name}: .*-3"):
                MixerSpec.parse({"kind": kind, name: -3})


@causal
@torch.no_grad()
def test_nbytes_is_what_the_tensors_hold(spec: MixerSpec) -> None:
    mixer, x, source = build(spec), inputs(), memory(spec)
    state = fresh(mixer, x, source)
    assert state is not None
    follow(mixer, x[:, :5], state, source)
    each = {id(tensor): tensor.numel() * tensor.element_size() for tensor in tensors(state)}
    assert state.nbytes == sum(each.values())
    assert state.nbytes > 0


def tensors(value: object) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, State):
        value = tuple(vars(value).values())
    return [tensor for item in value for tensor in tensors(item)] if isinstance(value, tuple) else []


@causal
@torch.no_grad()
def test_rewinding_is_right_or_refused(spec: MixerSpec) -> None:
    mixer, x, source = build(spec), inputs(), memory(spec)
    expected = whole(mixer, x, source)
    state = fresh(mixer, x, source)
    assert state is not None
    follow(mixer, x[:, :6], state, source)
    try:
        state.rewind(4)
    except NotRewindable:
        assert state.length == 6
        torch.testing.assert_close(follow(mixer, x[:, 6:], state, source), expected[:, 6:], **CLOSE)
    else:
        assert state.length == 4
        torch.testing.assert_close(follow(mixer, x[:, 4:], state, source), expected[:, 4:], **CLOSE)


@causal
def test_detaching_cuts_the_graph(spec: MixerSpec) -> None:
    mixer, x, source = build(spec), inputs().requires_grad_(), memory(spec)
    state = fresh(mixer, x, source)
    assert state is not None
    if blind(spec):
        return
    follow(mixer, x[:, :5], state, source)
    state = state.detach()
    assert not any(tensor.requires_grad for tensor in tensors(state))
    (grad,) = torch.autograd.grad(follow(mixer, x[:, 5:], state, source).sum(), x)
    assert (grad[:, :5] == 0).all()
