"""A step that is played from a tape is the step that `forward` computes, and nobody is passed by."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.core.model import Model
from regard.core.packed import pack_model
from regard.core.probe import Record
from regard.core.product import Precision
from regard.kernels import library as kernels
from regard.kernels.library import Library
from regard.mixers.attention import MultiHeadAttention
from regard.models import preset

SMALL: dict[str, Any] = {"vocabulary": 100, "width": 64, "depth": 2}
# family, changes, whether it reads a source
WRITTEN: list[tuple[str, dict[str, Any], bool]] = [
    ("transformer-tiny", {"heads": 4}, True),
    ("marian-base", {"heads": 2, "hidden": 96}, True),  # norms after
    ("gpt2", {"heads": 4, "context": 64}, False),  # an activation by tanh
    ("gpt1", {"heads": 2, "context": 64}, False),
    ("llama-tiny", {"heads": 4, "kv_heads": 2}, False),  # rotations, gates, shared keys
]
ROWS, STEPS = 5, 9


@pytest.fixture(params=[1, 2], ids=["AVX2", "AVX-512"])
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    found = kernels.find_library()
    if not isinstance(found, Library):
        pytest.skip(f"kernels: {found}")
    if request.param > found.level:
        pytest.skip(f"this machine has {kernels.LEVELS[found.level]}")
    monkeypatch.setattr(found, "level", request.param)
    if request.param == 1:  # as on a machine that has no more
        monkeypatch.setattr("regard.core.product.count_levels", lambda: 63)
    return int(request.param)


def find_down(model: Model, block: int) -> Any:
    """The last map of a block's feed-forward."""
    assert model.decoder is not None
    feed: Any = model.decoder.layers()[block].ffn
    return feed.inner.down


def make(name: str, changes: dict[str, Any], precision: Precision = "fp32") -> Model:
    torch.manual_seed(1)
    model = preset(name, **{**SMALL, **changes}).build().eval()
    for weight in model.parameters():  # biases and gains that start at 0 and 1 would hide what is left out
        torch.nn.init.normal_(weight, std=0.1) if weight.dim() < 2 else None
    pack_model(model, precision)
    return model


def find_near(precision: Precision) -> float:
    """Sums may differ in their last digits, and then what stands between two levels is rounded to the other one."""
    return 2e-5 if precision == "fp32" else 5e-3


@torch.no_grad()
def step(model: Model, reads: bool, played: bool) -> Tensor:
    """The logits of some steps, whose rows are re-ordered between them as a beam's are."""
    torch.manual_seed(2)
    source = torch.randint(4, 100, (ROWS, 7))
    valid = torch.arange(7) < torch.tensor([7, 3, 5, 1, 7])[:, None]
    assert model.decoder is not None
    found = []
    with pytest.MonkeyPatch.context() as patch:
        if not played:
            patch.setattr("regard.core.stack.Stack._find_recording", lambda *_: None)
        state = model.start(ROWS, model.encode(source, valid) if reads else None)
        for number in range(STEPS):
            found.append(model.step(torch.randint(4, 100, (ROWS,)), state))
            if number % 3 == 1:
                state = state.hand_on(torch.tensor([1, 1, 0, 3, 4] if not reads else [0, 1, 2, 3, 4]))
    assert model.decoder.recording is not None or not played, "it wasn't written down"
    return torch.stack(found)


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16", "int8"])
@pytest.mark.parametrize("name, changes, reads", WRITTEN, ids=[name for name, _, _ in WRITTEN])
def test_what_is_played_is_what_is_computed(
    name: str, changes: dict[str, Any], reads: bool, precision: Precision, level: int
) -> None:
    model = make(name, changes, precision)
    torch.testing.assert_close(
        step(model, reads, True), step(model, reads, False), rtol=1e-4, atol=find_near(precision)
    )


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16", "int8"])
@pytest.mark.parametrize("name", ["transformer-tiny", "marian-base"])
@torch.no_grad()
def test_a_source_is_read_as_it_is_computed(name: str, precision: Precision, level: int) -> None:
    model = make(name, {"heads": 2, "hidden": 256}, precision)
    assert model.encoder is not None
    source = torch.randint(4, 100, (3, 40))
    for valid in (None, torch.arange(40) < torch.tensor([40, 3, 17])[:, None]):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("regard.core.stack.Stack._find_recording", lambda *_: None)
            plain = model.encode(source, valid)
        played = model.encode(source, valid)
        assert model.encoder.recording is not None and model.encoder.recording.whole
        assert plain is not None and played is not None
        real = slice(None) if valid is None else valid
        torch.testing.assert_close(played.states[real], plain.states[real], rtol=1e-4, atol=find_near(precision))


def test_beams_of_a_sentence_share_its_memory(level: int) -> None:
    model = make("transformer-tiny", {"heads": 4})
    settings: dict[str, Any] = {"begin": 2, "end": 3, "beam": 3, "max_tokens": 12}
    source = torch.randint(4, 100, (4, 6))
    played = model.generate(source, **settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.core.stack.Stack._find_recording", lambda *_: None)
        assert model.generate(source, **settings) == played


def count_plays(model: Model, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    from regard.core.tape import Recording

    played, play = [0], Recording.play

    def count(self: Recording, *words: Any) -> Tensor:
        played[0] += 1
        return play(self, *words)

    monkeypatch.setattr(Recording, "play", count)
    return played


def test_who_watches_hooks_or_keeps_gradients_is_never_passed_by(level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make("gpt2", {"heads": 4, "context": 64})
    played, tokens = count_plays(model, monkeypatch), torch.tensor([5, 6])
    assert model.decoder is not None
    with torch.no_grad():
        state = model.start(2)
        model.step(tokens, state)
        assert played == [1]
        record = Record("decoder.blocks.0.mix.weights")
        model.step(tokens, state, probe=record)
        assert played == [1] and len(list(record)) == 1
        heard: list[Tensor] = []
        hook = find_down(model, 0).register_forward_hook(lambda *words: heard.append(words[-1]))
        model.step(tokens, state)
        assert played == [1] and len(heard) == 1
        hook.remove()
        with torch.autocast("cpu", torch.bfloat16):
            model.step(tokens, state)
        assert played == [1]
        model.step(tokens, state)
        assert played == [2]
    assert model.step(tokens, model.start(2)).requires_grad
    assert played == [2]


def test_weights_that_change_are_heard(level: int) -> None:
    model = make("gpt2", {"heads": 4, "context": 64})
    first = step(model, False, True)
    with torch.no_grad():
        find_down(model, 0).weight.mul_(2.0)
    second = step(model, False, True)
    assert not torch.allclose(first, second)
    torch.testing.assert_close(second, step(model, False, False), rtol=1e-4, atol=2e-5)
    pack_model(model, "int8")
    torch.testing.assert_close(step(model, False, True), step(model, False, False), rtol=1e-4, atol=2e-5)


def test_copies_write_their_own_tape(level: int) -> None:
    model = make("gpt2", {"heads": 4, "context": 64})
    before = step(model, False, True)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other.decoder is not None and other.decoder.recording is None
        torch.testing.assert_close(step(other, False, True), before)


def test_who_does_something_else_is_not_written_down(level: int) -> None:
    class Mine(MultiHeadAttention):
        def forward(self, x: Tensor, *words: Any) -> Tensor:
            return x

    model = make("gpt2", {"heads": 4, "context": 64})
    assert model.decoder is not None
    mixer: Any = model.decoder.layers()[0].mixer
    mixer.__class__ = Mine
    with torch.no_grad():
        model.step(torch.tensor([5]), model.start(1))
    assert model.decoder.recording is None
    patched = make("gpt2", {"heads": 4, "context": 64})
    before = step(patched, False, True)
    assert patched.decoder is not None and patched.decoder.recording is not None
    find_down(patched, 1).forward = lambda x: torch.zeros(*x.shape[:-1], 64)  # after it was written down
    assert not torch.allclose(step(patched, False, False), before)
    with torch.no_grad():
        patched.step(torch.tensor([5]), patched.start(1))
    assert patched.decoder.recording is None
    other = make("llama-tiny", {"heads": 4, "kv_heads": 2, "window": 4})
    with torch.no_grad():
        other.step(torch.tensor([5]), other.start(1))
    assert other.decoder is not None and other.decoder.recording is None


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16", "int8"])
@torch.no_grad()
def test_tokens_are_fetched_from_any_table(precision: Precision, level: int) -> None:
    torch.manual_seed(1)  # a table that is large enough to be packed
    changes = {"vocabulary": 300, "width": 64, "depth": 1, "heads": 4}
    model = preset("transformer-tiny", **changes).build().eval()
    pack_model(model, precision)
    assert model.decoder is not None and model.encoder is not None
    source = torch.randint(4, 300, (ROWS, 7), dtype=torch.int32)
    memory = model.encode(source)
    state = model.start(ROWS, memory)
    tokens = torch.tensor([0, 299, 5, 5, 17])
    found = model.step(tokens, state)
    assert all(stack.recording is not None and stack.recording.fetches for stack in (model.encoder, model.decoder))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.core.stack.Stack._find_recording", lambda *_: None)
        again = model.encode(source)
        assert memory is not None and again is not None
        torch.testing.assert_close(memory.states, again.states, rtol=1e-4, atol=find_near(precision))
        plain = model.step(tokens, model.start(ROWS, memory))
    torch.testing.assert_close(found, plain, rtol=1e-4, atol=find_near(precision))


@torch.no_grad()
def test_a_token_that_there_is_not_is_told_and_moves_nothing(level: int) -> None:
    model = make("transformer-tiny", {"heads": 4})
    state = model.start(2, model.encode(torch.tensor([[5, 6], [7, 8]])))
    model.step(torch.tensor([4, 4]), state)
    for wrong in (100, -1, 2**40):
        with pytest.raises(IndexError):
            model.step(torch.tensor([4, wrong]), state)
        assert state.length == 1
    model.step(torch.tensor([4, 99]), state)
    assert state.length == 2


@torch.no_grad()
def test_who_hooks_an_embedding_or_its_table_is_heard(level: int) -> None:
    model = make("transformer-tiny", {"heads": 4})
    memory = model.encode(torch.tensor([[5, 6], [7, 8]]))
    assert model.decoder is not None
    embedding: Any = model.decoder.embedding
    for module in (embedding, embedding.table):
        state = model.start(2, memory)
        model.step(torch.tensor([4, 4]), state)
        heard: list[Tensor] = []
        hook = module.register_forward_hook(lambda *words, heard=heard: heard.append(words[-1]))
        model.step(torch.tensor([4, 4]), state)
        assert len(heard) == 1
        hook.remove()
