"""Looking inside, and changing what is there."""

from __future__ import annotations

import pytest
import torch

from regard.core.inputs import Inputs
from regard.core.probe import Both, Edit, Record
from regard.errors import InputError
from regard.mixers.attention import MultiHeadAttention
from regard.models import preset

TOKENS = torch.randint(9, (2, 6), generator=torch.Generator().manual_seed(0))


def test_names_are_parameter_paths() -> None:
    model = preset("transformer-tiny", depth=2, vocabulary=9).build().eval()
    record = Record("decoder.blocks.*.cross.weights")
    model(TOKENS, model.encode(TOKENS), probe=record)
    assert set(record) == {"decoder.blocks.0.cross.weights", "decoder.blocks.1.cross.weights"}
    weights = [name for name, _ in model.named_parameters()]
    for name in record:
        assert any(weight.startswith(name.removesuffix("weights")) for weight in weights)


@torch.no_grad()
def test_the_stream_is_the_embedding_and_what_each_sublayer_adds() -> None:
    model = preset("llama-tiny", depth=3, vocabulary=9).build().eval()
    record = Record("*.output", "*.stream")
    model(TOKENS, probe=record)
    assert model.decoder is not None
    table = model.decoder.embedding.table
    total = table(TOKENS)  # type: ignore[operator]
    for number in range(3):
        total = total + record[f"decoder.blocks.{number}.mix.output"] + record[f"decoder.blocks.{number}.ffn.output"]
        torch.testing.assert_close(record[f"decoder.blocks.{number}.stream"], total)


@torch.no_grad()
def test_ablating_a_sublayer_is_leaving_it_out() -> None:
    model = preset("gpt2", width=64, depth=2, vocabulary=9).build().eval()
    ablated = model(TOKENS, probe=Edit({"decoder.blocks.1.*.output": torch.zeros_like}))
    shallow = preset("gpt2", width=64, depth=1, vocabulary=9).build().eval()
    shallow.load_state_dict(model.state_dict(), strict=False)
    torch.testing.assert_close(ablated, shallow(TOKENS))


@torch.no_grad()
def test_patching_one_run_into_another_moves_its_answer() -> None:
    model = preset("gpt2", width=64, depth=2, vocabulary=9).build().eval()
    other = (TOKENS + 1) % 9
    record = Record("decoder.blocks.1.stream")
    expected = model(other, probe=record)
    patched = model(TOKENS, probe=Edit({"decoder.blocks.1.stream": lambda _: record["decoder.blocks.1.stream"]}))
    torch.testing.assert_close(patched, expected)


def test_watching_an_output_does_not_open_the_softmax() -> None:
    model = preset("gpt2", width=64, depth=1, vocabulary=9).build().eval()

    class Outputs(Record):
        def __call__(self, name: str, value: torch.Tensor) -> torch.Tensor:
            assert not name.endswith("weights")
            return super().__call__(name, value)

    record = Outputs("*.mix.output")
    model(TOKENS, probe=record)
    assert set(record) == {"decoder.blocks.0.mix.output"}


@torch.no_grad()
def test_steps_recorded_one_by_one_join_into_the_whole_map() -> None:
    model = preset("gpt2", width=64, depth=1, vocabulary=9).build().eval()
    once, stepwise = Record("*.weights"), Record("*.weights")
    model(TOKENS, probe=once)
    state = model.start(2)
    for word in TOKENS.unbind(1):
        model.step(word, state, probe=stepwise)
    torch.testing.assert_close(stepwise["decoder.blocks.0.mix.weights"], once["decoder.blocks.0.mix.weights"])


@torch.no_grad()
def test_hypotheses_that_share_a_sentence_are_reported_row_by_row() -> None:
    model = preset("transformer-tiny", depth=1, vocabulary=9).build().eval()
    memory = model.encode(TOKENS)
    assert memory is not None
    state, record = model.start(4, memory), Record("*.cross.weights")
    model.step(torch.tensor([1, 2, 3, 4]), state, probe=record)
    name = "decoder.blocks.0.cross.weights"
    assert record[name].shape == (4, 4, 1, 6)
    alone, single = model.start(2, memory), Record("*.cross.weights")
    model.step(torch.tensor([2, 4]), alone, probe=single)
    torch.testing.assert_close(record[name][[1, 3]], single[name])


def test_a_model_lists_all_that_can_be_seen() -> None:
    """And a record of everything holds just that."""
    for name in (
        "transformer-tiny",
        "bahdanau",
        "luong",
        "deepseek-tiny",
        "hybrid",
        "lstm",
        "elmo",
        "ntm",
        "convs2s-tiny",
    ):
        model = preset(name, width=64, vocabulary=9).build().eval()
        record = Record()
        memory = None if model.encoder is None or model.decoder is None else model.encode(TOKENS, probe=record)
        with torch.no_grad():
            model(TOKENS, memory, probe=record)
        assert set(record) == set(model.names()), name
        assert len(set(model.names())) == len(model.names())


def test_what_nobody_computes_is_an_error_with_the_nearest_names() -> None:
    model = preset("gpt2", width=64, depth=2, vocabulary=9).build().eval()
    with pytest.raises(
        InputError, match=r"nothing here is called decoder.blocks.1.mix.weight; near it: decoder.blocks.1.m"
    ):
        model(TOKENS, probe=Record("decoder.blocks.1.mix.weight"))
    with pytest.raises(InputError, match=r"nothing here is called decoder\.blocks\.7"):
        model(TOKENS, probe=Edit.zero("decoder.blocks.7.mix.output"))
    with pytest.raises(InputError, match="cross"), model.watch(Record("*.cross.weights")):
        pass


def test_a_name_that_is_not_wanted_is_not_reported() -> None:
    model = preset("ntm", vocabulary=9).build().eval()
    record = Record("*.read_weights")
    model(TOKENS, probe=record)
    assert all(name.endswith("read_weights") for name in record)


@torch.no_grad()
def test_a_head_is_zeroed_in_rows_of_several_lengths_as_in_each_alone() -> None:
    model = preset("gpt2", width=64, depth=2, heads=4, vocabulary=9).build().eval()
    edit = Edit.zero("decoder.blocks.0.mix.context", head=1)
    rows = [[1, 2, 3, 4], [5, 6]]
    with model.watch(edit):
        together = model(Inputs.pad(rows, 0))
    for n, row in enumerate(rows):
        torch.testing.assert_close(together[n, : len(row)], model(torch.tensor([row]), probe=edit)[0])


@torch.no_grad()
def test_zeroing_a_head_is_zeroing_its_rows_of_the_last_projection() -> None:
    model = preset("gpt2", width=64, depth=2, heads=4, vocabulary=9).build().eval()
    edited = model(TOKENS, probe=Edit.zero("decoder.blocks.1.mix.context", head=2))
    by_weights = model(TOKENS, probe=Edit.zero("decoder.blocks.1.mix.weights", head=2))
    assert model.decoder is not None
    mixer = model.decoder.layers()[1].mixer
    assert isinstance(mixer, MultiHeadAttention)
    mixer.output.weight[:, 32:48] = 0
    torch.testing.assert_close(edited, model(TOKENS))
    torch.testing.assert_close(by_weights, model(TOKENS))


@torch.no_grad()
def test_edits_are_the_same_in_steps_as_in_one_piece() -> None:
    model = preset("transformer-tiny", depth=2, vocabulary=9).build().eval()
    edit = (
        Edit.scale("decoder.blocks.0.mix.context", 0.3, head=1, positions=[1, 4])
        | Edit.zero("decoder.blocks.1.cross.output", positions=[2])
        | Edit.scale("decoder.blocks.1.cross.key", -1.0)
        | Edit.replace("encoder.blocks.0.stream", torch.zeros(1), positions=[0])
    )
    with model.watch(edit):
        memory = model.encode(TOKENS)
        whole = model(TOKENS, memory)
        state = model.start(2, memory)
        steps = torch.stack([model.step(word, state) for word in TOKENS.unbind(1)], 1)
    torch.testing.assert_close(steps, whole)
    assert not torch.allclose(whole, model(TOKENS, model.encode(TOKENS)))


@pytest.mark.parametrize("name", ["bahdanau", "luong-feed", "ntm"])
@torch.no_grad()
def test_positions_are_those_of_the_text_where_a_loop_reports_one_by_one(name: str) -> None:
    """A step knows its position, so an edit of steps is right, and that of a whole text must be the same."""
    model = preset(name, width=16, vocabulary=9).build().eval()
    memory = None if model.encoder is None else model.encode(TOKENS)
    value = "decoder.blocks.0.mix.read_weights" if name == "ntm" else "decoder.blocks.0.mix.context"
    record = Record(value)
    model(TOKENS.flip(1), memory, probe=record)
    edits = [
        Edit.zero(value, positions=[2]),
        Edit.patch(value, record, positions=[1, 4]),
        Edit.patch(value, record),
        Edit.patch(value, record, head=0),
    ]
    for edit in edits:
        state = model.start(2, memory)
        steps = torch.stack([model.step(word, state, probe=edit) for word in TOKENS.unbind(1)], 1)
        found = model(TOKENS, memory, probe=edit)
        torch.testing.assert_close(found, steps)
        assert not torch.allclose(found, model(TOKENS, memory))
    first = model(TOKENS, memory, probe=edits[0])
    torch.testing.assert_close(first[:, :2], model(TOKENS, memory)[:, :2])
    with pytest.raises(InputError, match=r"has 6 positions, counted from 0, and 6 is asked for"):
        model(TOKENS, memory, probe=Edit.zero(value, positions=[6]))


@torch.no_grad()
def test_a_patched_prompt_writes_on_as_the_other_one() -> None:
    """All of the other run's streams at the last position of the prompt, and the same tokens before it."""
    model = preset("gpt2", width=64, depth=2, vocabulary=9).build().eval()
    one, other = torch.tensor([[1, 2, 3, 4]]), torch.tensor([[1, 2, 3, 7]])
    record = Record("decoder.embedded")
    model(other, probe=record)
    with model.watch(Edit.patch("decoder.embedded", record, positions=[3])):
        patched = model.generate(one, max_tokens=6)
    assert patched == model.generate(other, max_tokens=6)


def test_an_edit_that_does_not_fit_is_refused() -> None:
    model = preset("gpt2", width=64, depth=2, heads=4, vocabulary=9).build().eval()
    record = Record("decoder.blocks.0.stream")
    model(TOKENS, probe=record)
    for edit, message in (
        (Edit.zero("decoder.blocks.0.stream", head=0), "has no heads"),
        (Edit.zero("decoder.blocks.0.mix.context", head=4), "has 4 heads, counted from 0, and head 4"),
        (Edit.zero("decoder.blocks.0.stream", positions=[6]), "has 6 positions, counted from 0, and 6"),
        (Edit.replace("decoder.blocks.0.stream", torch.zeros(5)), r"shape \(5,\) can't stand for one of \(2, 6, 64\)"),
        (Edit.patch("decoder.blocks.0.stream", record, positions=[0]), None),
    ):
        if message is None:
            model(TOKENS, probe=edit)
            continue
        with pytest.raises(InputError, match=message):
            model(TOKENS, probe=edit)
    with pytest.raises(InputError, match=r"the other run has no decoder\.blocks\.1\.stream"):
        Edit.patch("decoder.blocks.1.stream", record)
    with pytest.raises(InputError, match="has 6 positions, and 9 is asked for"):
        Edit.patch("decoder.blocks.0.stream", record, positions=[9])


@torch.no_grad()
def test_positions_are_replaced_in_the_order_in_which_they_are_given() -> None:
    model = preset("gpt2", width=64, depth=1, vocabulary=9).build().eval()
    rows, record = torch.randn(2, 64), Record("decoder.embedded")
    edit = Edit.replace("decoder.embedded", rows, positions=[3, 1])
    model(TOKENS, probe=Both(edit, record))
    torch.testing.assert_close(record["decoder.embedded"][:, [3, 1]], rows.expand(2, -1, -1))
    state, stepwise = model.start(2), Record("decoder.embedded")
    for word in TOKENS.unbind(1):
        model.step(word, state, probe=Both(edit, stepwise))
    torch.testing.assert_close(stepwise["decoder.embedded"], record["decoder.embedded"])
    with pytest.raises(InputError, match="one of them is there twice"):
        Edit.zero("decoder.embedded", positions=[1, 1])


def test_what_a_step_does_not_compute_is_refused_there() -> None:
    """A memory's keys are projected once, when the state is started."""
    model = preset("transformer-tiny", depth=1, vocabulary=9).build().eval()
    state = model.start(2, model.encode(TOKENS))
    for probe in (Edit.zero("decoder.blocks.0.cross.value"), Record("*.cross.key")):
        with pytest.raises(InputError, match="computed when the state was started"):
            model.step(TOKENS[:, 0], state, probe=probe)


def test_a_value_of_a_whole_call_has_no_positions() -> None:
    model = preset("deepseek-tiny", width=64, vocabulary=9).build().eval()
    name = next(name for name in model.names() if name.endswith(".load"))
    with pytest.raises(InputError, match="has neither heads nor positions"):
        model(TOKENS, probe=Edit.scale(name, 0.3, positions=[1]))


@torch.no_grad()
def test_who_watches_within_another_watch_does_not_end_it() -> None:
    model = preset("gpt2", width=64, depth=2, vocabulary=9).build().eval()
    first, second = Edit.zero("decoder.blocks.0.mix.output"), Edit.zero("decoder.blocks.1.ffn.output")
    with model.watch(first), model.watch(second):
        both = model(TOKENS)
    torch.testing.assert_close(both, model(TOKENS, probe=first | second))
    assert model.watcher is None
