"""Whole models where layers differ, rows differ, or a call doesn't fit."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.core.block import BlockSpec
from regard.core.factors import Factors
from regard.core.inputs import Inputs
from regard.core.model import CHUNK, Model, ModelSpec
from regard.core.padding import Side
from regard.core.probe import Edit, Record
from regard.core.stack import StackSpec
from regard.core.view import View
from regard.errors import InputError, SpecError
from regard.mixers.attention import Attention
from regard.mixers.recurrent import Recurrent
from regard.models import preset
from regard.parts.embedding import Tokens
from regard.parts.feedforward import FeedForward
from regard.parts.head import Vocabulary
from regard.parts.initial import Xavier
from tests.largest import Largest


def language_model(*mixers: Any, bias: Any = None) -> Model:
    torch.manual_seed(0)
    stack = StackSpec(
        width=16,
        depth=len(mixers),
        embedding=Tokens(vocabulary=9),
        blocks=tuple(BlockSpec(mix=mixer) for mixer in mixers),
        bias=bias,
    )
    return ModelSpec(decoder=stack, head=Vocabulary(), init=Xavier()).build().eval()


def attention(**settings: Any) -> Attention:
    return Attention(heads=2, causal=True, **settings)


BIASED = {
    "alibi then window": language_model(attention(position="alibi"), attention(position="alibi", window=4)),
    "window then alibi": language_model(attention(position="alibi", window=4), attention(position="alibi")),
    "two windows": language_model(attention(position="alibi", window=4), attention(position="alibi", window=2)),
    "shared": language_model(attention(), attention(window=3), bias={"kind": "bucketed", "heads": 2}),
    "shared and own": language_model(attention(position="alibi"), bias={"kind": "bucketed", "heads": 2}),
}


@pytest.mark.parametrize("name", [*BIASED, "t5"])
def test_recomputing_changes_no_gradient_where_layers_share_positions(name: str) -> None:
    torch.manual_seed(0)
    sizes = {"width": 8, "heads": 2, "size": 4, "hidden": 16, "depth": 2, "vocabulary": 9, "dropout": 0.1}
    model = (preset("t5-small", **sizes).build() if name == "t5" else copy.deepcopy(BIASED[name])).train()
    tokens = torch.randint(9, (2, 7), generator=torch.Generator().manual_seed(1))
    found: list[list[Tensor]] = []
    for recompute in (False, True):
        for stack in (model.encoder, model.decoder):
            if stack is not None:
                stack.recompute = recompute
        torch.manual_seed(5)
        memory = model.encode(tokens)
        found.append(list(torch.autograd.grad(model(tokens, memory).square().sum(), list(model.parameters()))))
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


@torch.no_grad()
def test_a_decoder_of_feed_forwards_alone_steps() -> None:
    torch.manual_seed(0)
    stack = StackSpec(width=8, depth=2, embedding=Tokens(vocabulary=9), blocks=(BlockSpec(ffn=FeedForward(hidden=9)),))
    model = ModelSpec(decoder=stack, head=Vocabulary(), init=Xavier()).build().eval()
    tokens = torch.randint(9, (3, 5), generator=torch.Generator().manual_seed(1))
    state = model.start(3)
    steps = [model.step(column, state) for column in tokens.T]
    torch.testing.assert_close(torch.stack(steps, 1), model(tokens))
    kept = state.select(torch.tensor([2, 0]))
    torch.testing.assert_close(model.step(tokens[:2, 0], kept), model(tokens[:2, :1])[:, 0])


@torch.no_grad()
@pytest.mark.parametrize("padded", [False, True])
def test_directions_that_never_meet_leave_each_layer_as_it_ended(padded: bool) -> None:
    torch.manual_seed(0)
    mixer = Recurrent(cell="lstm", direction="apart", layers=2)
    stack = StackSpec(width=8, depth=1, embedding=Tokens(vocabulary=9), blocks=(BlockSpec(mix=mixer),))
    model = ModelSpec(encoder=stack, head=Vocabulary(), init=Xavier()).build().eval()
    tokens = torch.randint(9, (1, 5), generator=torch.Generator().manual_seed(1))
    valid = torch.tensor([[True] * 3 + [False] * 2]) if padded else None
    memory = model.encode(tokens, valid)
    assert memory is not None and memory.final is not None
    assert model.encoder is not None
    x = model.encoder.embedding(tokens[:, :3] if padded else tokens, View.of(tokens))
    recurrence: Any = model.encoder.layers()[0].mixer
    _, ahead = recurrence.cell.fused(x[..., :4])  # (layers, rows, size), hidden and cell
    _, back = recurrence.other.fused(x[..., 4:].flip(1))
    expected = torch.stack([torch.cat((one, other), -1) for one, other in zip(ahead, back, strict=True)])
    torch.testing.assert_close(memory.final[0], expected[:, :, 0])  # (pieces, layers, width)


@pytest.mark.parametrize("name", BIASED)
@pytest.mark.parametrize("chunk", [1, 3])
@torch.no_grad()
def test_layers_that_look_differently_far_keep_their_own_biases(name: str, chunk: int) -> None:
    """Rows of different lengths put a ring's keys and a buffer's at different positions."""
    model = BIASED[name]
    tokens = torch.randint(9, (2, 9), generator=torch.Generator().manual_seed(1))
    valid = torch.tensor([[True] * 4, [True] * 2 + [False] * 2])
    state = model.start(2)
    model.step(tokens[:, :4], state, valid=valid)
    found = model.step(tokens[:, 4 : 4 + chunk], state)
    for row, length in enumerate((4, 2)):
        alone = torch.cat((tokens[row, :length], tokens[row, 4 : 4 + chunk]))[None]
        torch.testing.assert_close(found[row], model(alone)[0, -1], atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_a_window_is_recorded_by_position_while_stepping() -> None:
    model = language_model(attention(window=3))
    tokens, once, stepwise = torch.randint(9, (2, 7)), Record("*.weights"), Record("*.weights")
    model(tokens, probe=once)
    state = model.start(2)
    for chunk in tokens.split([1, 1, 3, 1, 1], 1):
        model.step(chunk, state, probe=stepwise)
    name = "decoder.blocks.0.mix.weights"
    torch.testing.assert_close(stepwise[name], once[name])


@pytest.mark.parametrize("name", ["mean-pool", "llama-tiny", "luong", "deepseek-tiny"])
@torch.no_grad()
def test_an_edit_changes_a_step_as_it_changes_the_whole(name: str) -> None:
    torch.manual_seed(0)
    model = preset(name, width=16, vocabulary=9, depth=2).build().eval()
    tokens = torch.randint(9, (2, 5))
    memory = model.encode(tokens)
    for change in (torch.zeros_like, lambda weights: weights * 0.5):
        edit = Edit({"decoder.*.weights": change})
        whole = model(tokens, memory, probe=edit)
        assert not torch.allclose(whole, model(tokens, memory))
        state = model.start(2, memory)
        steps = [model.step(word, state, probe=edit) for word in tokens.unbind(1)]
        torch.testing.assert_close(torch.stack(steps, 1), whole, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_an_idle_row_may_stand_at_the_end_of_its_context() -> None:
    model = preset("gpt2", width=64, depth=1, vocabulary=9, context=4).build().eval()
    state = model.start(2)
    model.step(torch.randint(9, (2, 4)), state, valid=torch.tensor([[True] * 4, [True] * 2 + [False] * 2]))
    assert model.step(torch.tensor([1, 1]), state, valid=torch.tensor([[False], [True]])).isfinite().all()
    with pytest.raises(InputError, match="5 positions"):
        model.step(torch.tensor([1, 1]), state)


@torch.no_grad()
def test_a_running_mean_counts_past_what_half_precision_can() -> None:
    model = preset("mean-pool", width=16, depth=1, vocabulary=9).build().eval().to(torch.bfloat16)
    state = model.start(1, model.encode(torch.tensor([[1, 2]])))
    for _ in range(300):
        model.step(torch.tensor([3]), state)
    mixed = state.blocks.parts[0].parts[0]  # type: ignore[union-attr]
    assert int(mixed.count) == 300


@torch.no_grad()
def test_a_copied_state_goes_its_own_way() -> None:
    model = preset("llama-tiny", vocabulary=9).build().eval()
    state = model.start(1, room=8)
    model.step(torch.tensor([[1, 2, 3]]), state)
    other = state.copy()
    expected = model.step(torch.tensor([4]), state.copy())
    model.step(torch.tensor([5]), other)
    torch.testing.assert_close(model.step(torch.tensor([4]), state), expected)


def test_dropout_on_the_weights_is_unbiased_and_only_in_training() -> None:
    torch.manual_seed(0)
    model = language_model(attention(dropout=0.5))
    tokens = torch.randint(9, (1, 6))
    calm = model(tokens)
    torch.testing.assert_close(model(tokens), calm)
    model.train()
    draws = torch.stack([model(tokens) for _ in range(3000)])
    assert not torch.equal(draws[0], draws[1])
    torch.testing.assert_close(draws.mean(0), calm, atol=0.05, rtol=0.05)


LENGTHS = [[4, 1, 5], [10], [2, 6]]  # of the documents of each row
PACKABLE: dict[str, dict[str, Any]] = {
    "gpt2": {"heads": 2, "context": 10},
    "llama-tiny": {"heads": 2, "kv_heads": 1, "hidden": 24},
    "deepseek-tiny": {},
    "lstm": {},
    "mamba-130m": {},
    "hybrid": {"every": 2, "heads": 2},
    "ssm": {},
    "ntm": {},
}


def documents_of(lengths: list[list[int]], time: int) -> tuple[Tensor, Tensor]:
    """Which document each token of the rows belongs to, and which tokens are real."""
    numbers = [[number for number, length in enumerate(row) for _ in range(length)] for row in lengths]
    valid = [[place < len(row) for place in range(time)] for row in numbers]
    return torch.tensor([row + [0] * (time - len(row)) for row in numbers]), torch.tensor(valid)


def assert_as_if_alone(model: Model) -> None:
    """Packed rows give what each of their documents gives in a row of its own."""
    tokens = torch.randint(9, (3, 10), generator=torch.Generator().manual_seed(1))
    documents, valid = documents_of(LENGTHS, 10)
    found = model(tokens, valid=valid, documents=documents)
    for row, lengths in enumerate(LENGTHS):
        for number in range(len(lengths)):
            mine = (documents[row] == number) & valid[row]
            torch.testing.assert_close(found[row, mine], model(tokens[row, mine][None])[0], atol=2e-5, rtol=1e-4)
    features = model.features(Inputs(tokens, valid=valid, documents=documents))
    torch.testing.assert_close(model.answer(features, valid=valid), found)


@pytest.mark.parametrize("name", PACKABLE)
@torch.no_grad()
def test_packed_documents_are_read_as_if_alone(name: str) -> None:
    torch.manual_seed(0)
    assert_as_if_alone(preset(name, width=16, depth=2, vocabulary=9, **PACKABLE[name]).build().eval())


@pytest.mark.parametrize("name", BIASED)
@torch.no_grad()
def test_packed_documents_keep_their_distances(name: str) -> None:
    assert_as_if_alone(BIASED[name])


@torch.no_grad()
def test_packed_documents_are_read_both_ways_as_if_alone() -> None:
    torch.manual_seed(0)
    assert_as_if_alone(preset("bert-base", width=16, heads=2, depth=2, vocabulary=9, head="masking").build().eval())


@torch.no_grad()
def test_a_row_may_be_longer_than_the_context_when_its_documents_are_not() -> None:
    model = preset("gpt2", width=16, heads=2, depth=1, vocabulary=9, context=4).build().eval()
    tokens = torch.randint(9, (1, 8))
    assert model(tokens, documents=torch.tensor([[0] * 4 + [1] * 4])).shape == (1, 8, 9)
    with pytest.raises(InputError, match="5 positions"):
        model(tokens, documents=torch.tensor([[0] * 3 + [1] * 5]))


def test_packed_documents_learn_as_if_alone_when_blocks_are_recomputed() -> None:
    torch.manual_seed(0)
    model = preset("hybrid", width=16, heads=2, every=2, depth=2, vocabulary=9).build()
    tokens, (documents, valid) = torch.randint(9, (3, 10)), documents_of(LENGTHS, 10)
    grads = []
    for recompute in (False, True):
        model.decoder.recompute = recompute  # type: ignore[union-attr]
        loss = model(tokens, valid=valid, documents=documents)[valid].square().sum()
        grads.append(torch.autograd.grad(loss, list(model.parameters())))
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other)


@torch.no_grad()
def test_the_factors_of_packed_documents_are_those_of_their_scores() -> None:
    model = preset("lstm", width=16, depth=1, vocabulary=9).build().eval()
    tokens, (documents, valid) = torch.randint(9, (3, 10)), documents_of(LENGTHS, 10)
    found = model.factors(Inputs(tokens, valid=valid, documents=documents), valid)
    assert isinstance(found, Factors)
    bias = 0 if found.bias is None else found.bias
    expected = model(tokens, valid=valid, documents=documents)[valid]
    torch.testing.assert_close(found.vectors @ found.words.T + bias, expected)


@torch.no_grad()
def test_a_head_answers_from_features_that_were_computed_before() -> None:
    model = preset("bert-base", width=16, heads=2, depth=1, vocabulary=9).build().eval()
    tokens, valid = torch.randint(9, (2, 4)), torch.tensor([[False, True, True, True], [True] * 4])
    features = model.features(Inputs(tokens, valid=valid))
    torch.testing.assert_close(model.answer(features, valid=valid), model(tokens, valid=valid))
    assert not torch.allclose(model.answer(features), model(tokens, valid=valid))
    with pytest.raises(InputError, match=r"shape \(2, 4\)"):
        model.answer(features, valid=valid[:, 1:])


class TestWhatDoesNotFit:
    model = preset("gpt2", width=64, depth=1, vocabulary=9).build().eval()

    def test_rows_that_are_not_the_states(self) -> None:
        state = self.model.start(3)
        with pytest.raises(InputError, match="1 rows of tokens for a state of 3 rows"):
            self.model.step(torch.tensor([1]), state)

    def test_nothing_at_all(self) -> None:
        for shape in ((0, 3), (3, 0)):
            with pytest.raises(InputError, match="nothing to read"):
                self.model(torch.zeros(shape, dtype=torch.long))

    def test_a_mask_with_holes_or_of_numbers(self) -> None:
        with pytest.raises(InputError, match="holes"):
            self.model(torch.zeros(1, 3, dtype=torch.long), valid=torch.tensor([[True, False, True]]))
        with pytest.raises(InputError, match=r"mask\.bool"):
            self.model(torch.zeros(1, 3, dtype=torch.long), valid=torch.ones(1, 3, dtype=torch.long))

    def test_packed_documents_and_a_head_that_sums_up_a_row(self) -> None:
        model = preset("bert-base", width=16, heads=2, depth=1, vocabulary=9).build().eval()
        tokens = torch.tensor([[3, 5, 7]])
        found = model(tokens, documents=torch.tensor([[0, 0, 1]]))  # each document is answered by itself
        alone = torch.cat((model(tokens[:, :2]), model(tokens[:, 2:])))
        torch.testing.assert_close(found, alone)

    def test_packed_documents_and_a_head_of_two_tokens(self) -> None:
        spec = preset("bert-base", width=16, heads=2, depth=1, vocabulary=9)
        model = spec.replace(head={"kind": "distilled", "classes": 3}).build().eval()
        with pytest.raises(InputError, match="one answer a row"):
            model(torch.zeros(1, 3, dtype=torch.long), documents=torch.tensor([[0, 0, 1]]))

    def test_packed_documents_and_a_memory(self) -> None:
        model = preset("transformer-base", width=16, heads=2, depth=1, vocabulary=9).build().eval()
        tokens = torch.zeros(1, 3, dtype=torch.long)
        with pytest.raises(InputError, match="belongs to one sentence"):
            model(tokens, model.encode(tokens), documents=torch.tensor([[0, 0, 1]]))


def stack(width: int = 16, vocabulary: int = 9, **block: Any) -> StackSpec:
    return StackSpec(width=width, depth=1, embedding=Tokens(vocabulary=vocabulary), blocks=(BlockSpec(**block),))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {
                "encoder": stack(width=32, mix=Attention()),
                "decoder": stack(mix=attention(), cross=Attention(over="memory")),
            },
            "decoder.blocks.0 reads a memory of width 16, and the encoder leaves one of 32",
        ),
        (
            {"encoder": stack(cross=Attention(over="memory")), "decoder": stack(mix=attention())},
            "encoder.blocks.0 reads a memory of width 16, and there is none",
        ),
        (
            {"encoder": stack(vocabulary=30, mix=Attention()), "decoder": stack(mix=attention()), "share": True},
            "a table of 9 words of 16 can't serve a vocabulary of 30 words of 16",
        ),
    ],
    ids=["widths", "cross in the encoder", "vocabularies"],
)
def test_stacks_that_do_not_fit_are_refused(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        ModelSpec(**spec, head=Vocabulary(), init=Xavier()).build()


def test_a_shared_bias_for_other_heads_is_refused() -> None:
    with pytest.raises(SpecError, match="serves 3 heads, and a block's mix has heads 2"):
        language_model(attention(), bias={"kind": "bucketed", "heads": 3})


def test_a_memory_of_another_width_is_read_when_told() -> None:
    spec = ModelSpec(
        encoder=stack(width=32, mix=Attention()),
        decoder=stack(mix=attention(), cross=Attention(over="memory", memory=32)),
        head=Vocabulary(),
        init=Xavier(),
    )
    model, tokens = spec.build(), torch.randint(9, (2, 4))
    assert model(tokens, model.encode(tokens)).shape == (2, 4, 9)


@pytest.mark.parametrize(
    "position",
    [
        {"kind": "rotary", "base": 1.0},
        {"kind": "rotary", "scaling": {"kind": "dynamic", "factor": 2.0, "context": 8}},
        {"kind": "bucketed", "buckets": 1},
        {"kind": "bucketed", "farthest": 16},
    ],
    ids=str,
)
def test_positions_that_cannot_be_computed_are_refused(position: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        Attention.parse({"heads": 8, "position": position}).build(16)


def test_sizes_beyond_any_machine_are_refused() -> None:
    with pytest.raises(SpecError, match="no machine"):
        preset("mixtral-8x7b", experts=2**24, hidden=2**24, width=2**24, heads=1, kv_heads=1).build()


DYNAMIC = {"factor": 2.0, "context": 64}
LONG = {
    "attention": language_model(attention(position="rotary"), attention(position="alibi")),
    "windows": language_model(attention(window=5, position="rotary"), attention(window=600)),
    "recurrence": language_model(Recurrent(cell="gru")),
    # past its context the angles of all positions depend on how many there are
    "drifting": language_model(attention(position={"kind": "rotary", "scaling": {"kind": "dynamic", **DYNAMIC}})),
}


def draw_rows(*lengths: int) -> list[list[int]]:
    return [torch.randint(9, (n,), generator=torch.Generator().manual_seed(n)).tolist() for n in lengths]


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("name", LONG)
@torch.no_grad()
def test_long_rows_are_read_in_chunks_as_each_would_be_whole(name: str, side: Side) -> None:
    """One ends in the first chunk, one with the second, and one in the third."""
    model, rows = LONG[name], draw_rows(3, 2 * CHUNK, 2 * CHUNK + 7)
    if name == "drifting":
        rows = rows[-1:]  # how many there are is asked of all rows together
    given = Inputs.pad(rows, 0, side)
    state = model.start(len(rows))
    said = [model.step(given, state), model.step(torch.ones(len(rows), dtype=torch.long), state)]
    for number, row in enumerate(rows):
        alone = model(torch.tensor([[*row, 1]]))
        torch.testing.assert_close(said[0][number], model(torch.tensor([row]))[0, -1], atol=1e-4, rtol=0)
        if name != "drifting":  # the rest of it stands as it was turned before
            torch.testing.assert_close(said[1][number], alone[0, -1], atol=1e-4, rtol=0)


@pytest.mark.parametrize(("name", "growth"), [("recurrence", 1.0), ("windows", 1.0), ("attention", 2.0)])
@torch.no_grad()
def test_chunks_of_a_long_prompt_take_no_more_room_than_one(name: str, growth: float) -> None:
    """Beside what is remembered and, of attention, a table of one chunk by all positions."""
    model, found = LONG[name], list[int]()
    for time in (4 * CHUNK, 8 * CHUNK):
        state = model.start(1, room=time)
        with Largest() as largest:
            model.step(torch.ones(1, time, dtype=torch.long), state)
        found.append(largest.numbers)
    assert found[1] <= growth * found[0]


@torch.no_grad()
def test_what_does_not_fit_the_positions_is_refused_before_the_state_moves() -> None:
    model = preset("gpt2", width=8, heads=2, depth=1, vocabulary=9, context=CHUNK + 3).build().eval()
    state = model.start(1)
    with pytest.raises(InputError, match=f"{CHUNK + 4} positions"):
        model.step(torch.ones(1, CHUNK + 4, dtype=torch.long), state)
    assert state.length == 0


@torch.no_grad()
def test_a_hole_between_two_chunks_is_refused() -> None:
    model, valid = LONG["recurrence"], torch.ones(1, 2 * CHUNK, dtype=torch.bool)
    valid[:, CHUNK - 1 : CHUNK + 1] = False
    with pytest.raises(InputError, match="holes"):
        model.step(torch.ones(1, 2 * CHUNK, dtype=torch.long), model.start(1), valid=valid)


@torch.no_grad()
def test_who_watches_a_step_sees_a_long_prompt_in_one_piece() -> None:
    model, look, tokens = LONG["recurrence"], Record("decoder.features"), torch.ones(1, CHUNK + 1, dtype=torch.long)
    seen = model.step(tokens, model.start(1), probe=look)
    assert [piece.shape[1] for piece in look.pieces["decoder.features"]] == [CHUNK + 1]
    torch.testing.assert_close(model.step(tokens, model.start(1)), seen)
