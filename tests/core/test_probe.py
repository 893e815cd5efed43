"""Looking inside, and changing what is there."""

from __future__ import annotations

import torch

from regard.core.probe import Edit, Record
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
