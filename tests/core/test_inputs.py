"""One record for a call: the same answers by it, one graph when compiled, and no question to the device."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

from regard.core.edges import Edges
from regard.core.inputs import Inputs
from regard.core.model import Model
from regard.core.padding import Padding, Side
from regard.core.probe import Record
from regard.errors import InputError
from regard.models import preset

WORDS = 40


def build(kind: str) -> Model:
    torch.manual_seed(1)
    return preset(kind, depth=2, width=64, heads=2, vocabulary=WORDS).build().eval()


def rows(*lengths: int, seed: int = 0) -> list[list[int]]:
    luck = torch.Generator().manual_seed(seed)
    return [torch.randint(4, WORDS, (length,), generator=luck).tolist() for length in lengths]


def compiled(model: Model, backend: str = "aot_eager") -> tuple[Any, CompileCounterWithBackend]:
    """A model as one graph, in which any break is an error, and a count of its compilations."""
    torch._dynamo.reset()
    counter = CompileCounterWithBackend(backend)
    return torch.compile(model, backend=counter, fullgraph=True), counter


def agree(found: Tensor, expected: Tensor, real: Tensor) -> None:
    torch.testing.assert_close(found[real], expected[real], atol=1e-5, rtol=0)


@pytest.mark.parametrize("side", ["right", "left"])
@torch.no_grad()
def test_a_padded_gpt2_compiles_to_one_graph(side: Side) -> None:
    model = build("gpt2")
    fast, counter = compiled(model)
    for number, lengths in enumerate([(3, 7, 5), (9, 2, 5), (4, 10, 1), (6, 11, 11), (12, 3, 8)]):
        inputs = Inputs.pad(rows(*lengths, seed=number), 0, side)
        # what it was without the record: a tensor that says where tokens are real
        agree(fast(inputs), model(inputs.tokens, valid=inputs.real), inputs.real)
    assert counter.frame_count <= 2  # one for the first sizes, one for all others: lengths don't matter to a graph


@pytest.mark.parametrize("side", ["right", "left"])
@torch.no_grad()
def test_a_padded_transformer_compiles_to_one_graph(side: Side) -> None:
    """The encoder in the same graph, and with a memory from before."""
    model = build("transformer-tiny")
    fast, _ = compiled(model)
    for lengths in ((3, 7, 5), (9, 2, 5)):
        source, target = Inputs.pad(rows(*lengths), 0, side), Inputs.pad(rows(4, 2, 6), 0)
        expected = model(target.tokens, model.encode(source.tokens, source.real), valid=target.real)
        agree(fast(replace(target, memory=source)), expected, target.real)
        agree(fast(replace(target, memory=model.encode(source))), expected, target.real)


@torch.no_grad()
def test_packed_documents_compile_to_one_graph() -> None:
    model = build("gpt2")
    fast, _ = compiled(model)
    for documents in ([[3, 4], [5], [2, 2, 2]], [[3, 4], [7, 1], [2, 2, 4]]):
        padding = Padding.packed(documents)
        tokens = padding.fill(rows(*padding.lengths), 0)
        expected = model(tokens, valid=padding.valid, documents=padding.documents)
        agree(fast(Inputs(tokens, padding)), expected, padding.valid)


# torch's compiler calls the machine's, and doesn't quote the paths that it hands to it
COMPILES = shutil.which("g++") is not None and " " not in tempfile.gettempdir()


@pytest.mark.skipif(not COMPILES, reason="there is no g++, or the temporary folder has a space in its path")
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch's compiler uses what torch deprecates
@torch.no_grad()
def test_compiled_code_answers_as_the_plain_model() -> None:
    """The same with torch's own compiler, which writes C++ here."""
    model = build("gpt2")
    fast, _ = compiled(model, "inductor")
    for side in ("right", "left"):
        inputs = Inputs.pad(rows(3, 7, 5), 0, side)
        agree(fast(inputs), model(inputs), inputs.real)


@pytest.mark.parametrize("kind", ["gpt2", "llama-tiny", "bert-tiny", "transformer-tiny"])
def test_a_call_with_lengths_asks_the_device_nothing(kind: str) -> None:
    """On the device `meta` there is nothing to ask: a value that is looked at is an error."""
    sizes: dict[str, Any] = {"depth": 2, "width": 64, "vocabulary": WORDS}
    model = preset(kind, **sizes).build("meta")
    for side in ("right", "left"):
        inputs = Inputs.pad(rows(3, 7, 5), 0, side).to("meta")
        memory = inputs if model.encoder is not None and model.decoder is not None else None
        assert model.features(replace(inputs, memory=memory)).shape == (3, 7, 64)


@pytest.mark.parametrize("kind", ["gpt2", "lstm", "mamba-130m"])
@torch.no_grad()
def test_a_step_reads_the_record_too(kind: str) -> None:
    torch.manual_seed(1)
    model = preset(kind, depth=1, width=16, vocabulary=WORDS, **({"heads": 2} if kind == "gpt2" else {})).build().eval()
    inputs = Inputs.pad(rows(3, 5), 0, "left")
    one, other, third = (model.start(2) for _ in range(3))
    expected = model.step(inputs.tokens, one, valid=inputs.real)
    assert torch.equal(model.step(inputs, other), expected)
    assert torch.equal(model.scored(model.advance(inputs, third)[:, -1]).table(), expected)
    assert one.length == other.length == third.length == 5
    again = torch.tensor([4, 5])
    assert torch.equal(model.step(Inputs(again), other), model.step(again, one))
    with pytest.raises(InputError, match="memory that its state began with"):
        model.step(Inputs(again, memory=inputs), one)


@torch.no_grad()
def test_what_is_typed_out_makes_the_same_record() -> None:
    model, inputs = build("gpt2"), Inputs.pad(rows(3, 5), 0)
    record = Record("*.stream")
    assert torch.equal(model(inputs.tokens, valid=inputs.valid), model(replace(inputs, probe=record)))
    assert len(record) == 2
    assert torch.equal(model(inputs.tokens, valid=inputs.real), model(inputs))
    assert Inputs.of(inputs) is inputs
    with pytest.raises(InputError, match="something beside it"):
        model(inputs, valid=inputs.real)


def test_a_record_moves_and_is_cut_as_one() -> None:
    source = Inputs(torch.zeros(2, 4, dtype=torch.long), Padding([4, 2]), extras={"segments": torch.ones(2, 4)})
    moved = Inputs(source.tokens, source.real, memory=source, extras=source.extras).to("meta")
    assert isinstance(moved.memory, Inputs) and isinstance(moved.memory.valid, Padding)
    parts = (moved.tokens, moved.real, moved.memory.tokens, moved.memory.real, moved.memory.extras["segments"])
    assert all(part.is_meta for part in parts)
    assert moved.memory.valid.lengths == (4, 2)  # what the host knows stays where it is
    assert Inputs(source.tokens, source.real).without_last().real.tolist() == source.without_last().real.tolist()
    assert Inputs(source.tokens).without_last().real.all()


def test_what_would_not_be_read_is_refused() -> None:
    model, inputs = build("gpt2"), Inputs.pad(rows(3, 5), 0)
    with pytest.raises(InputError, match="edges"):
        model(replace(inputs, edges=Edges(torch.zeros(2, 5, dtype=torch.long))))
    with pytest.raises(InputError, match="this model has one stack"):
        model(replace(inputs, memory=inputs))
    with pytest.raises(InputError, match=r"shape \(2, 5\)"):
        model(Inputs(inputs.tokens, Padding([3, 4])))
    packed = Padding.packed([[1, 2], [5]])
    with pytest.raises(InputError, match="leave one out"):
        Inputs(inputs.tokens, packed, documents=packed.documents)
