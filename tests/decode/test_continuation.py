"""Generation for a model in hand: rows of tokens, no text."""

from __future__ import annotations

import pytest
import torch

from regard.core.inputs import Inputs
from regard.core.model import CHUNK, Model
from regard.errors import InputError
from regard.models import preset
from tests.largest import Largest

SIZES = {"width": 32, "depth": 2, "heads": 2, "vocabulary": 50}


def build(kind: str, **changes: object) -> Model:
    torch.manual_seed(1)
    without_heads = {name: size for name, size in SIZES.items() if name != "heads"}
    return preset(kind, **((without_heads if kind in ("lstm", "mamba-130m") else SIZES) | changes)).build()


@torch.no_grad()
def write_slowly(model: Model, row: list[int], count: int) -> list[int]:
    """The oracle: the whole row is read again for each token."""
    written: list[int] = []
    model.eval()
    for _ in range(count):
        written.append(int(model(torch.tensor([[*row, *written]]))[0, -1].argmax()))
    return written


@pytest.mark.parametrize("kind", ["gpt2", "llama-tiny", "lstm", "mamba-130m"])
def test_rows_of_any_lengths_go_on_as_each_would_alone(kind: str) -> None:
    model = build(kind)
    rows = [[5], [6, 7, 8, 9], [10, 11]]
    found = model.generate(Inputs.pad(rows, 0), max_tokens=6)
    assert found == [write_slowly(model, row, 6) for row in rows]


@pytest.mark.parametrize("kind", ["mistral-7b", "lstm"])
def test_prompts_longer_than_a_chunk_go_on_as_each_would_alone(kind: str) -> None:
    model = build(kind, **({"window": 40, "kv_heads": 1, "hidden": 32} if kind == "mistral-7b" else {}))
    luck = torch.Generator().manual_seed(3)
    rows = [torch.randint(50, (length,), generator=luck).tolist() for length in (2, CHUNK, 2 * CHUNK + 9)]
    found = model.generate(Inputs.pad(rows, 0), max_tokens=3)
    assert found == [write_slowly(model, row, 3) for row in rows]
    alone = [model.generate(torch.tensor([row]), max_tokens=3)[0] for row in rows]
    assert found == alone


def test_a_long_prompt_takes_no_more_room_than_a_chunk() -> None:
    model, found = build("mistral-7b", window=40, kv_heads=1, hidden=32), list[int]()
    for time in (3 * CHUNK, 6 * CHUNK):
        with Largest() as largest:
            model.generate(torch.ones(1, time, dtype=torch.long), max_tokens=2)
        found.append(largest.numbers)
    assert found[0] == found[1]


def test_padding_on_the_left_is_the_same() -> None:
    model = build("gpt2")
    tokens = torch.tensor([[0, 0, 5, 6], [7, 8, 9, 10]])
    valid = torch.tensor([[False, False, True, True], [True] * 4])
    found = model.generate(tokens, valid=valid, max_tokens=5)
    assert found == [write_slowly(model, [5, 6], 5), write_slowly(model, [7, 8, 9, 10], 5)]


def test_an_end_is_the_last_token() -> None:
    model = build("gpt2")
    whole = write_slowly(model, [5, 6], 8)
    end = whole[3]
    [written] = model.generate(torch.tensor([[5, 6]]), max_tokens=8, end=end)
    assert written == whole[: whole.index(end) + 1]


def test_without_an_end_a_minimum_forbids_nothing() -> None:
    model = build("gpt2")
    [written] = model.generate(torch.tensor([[5, 6]]), max_tokens=5, min_tokens=3)
    assert written == write_slowly(model, [5, 6], 5)


def test_a_table_of_positions_ends_it() -> None:
    model = build("gpt2", context=8)
    [written] = model.generate(torch.tensor([[1, 2, 3]]), max_tokens=50)
    assert len(written) == 6  # the last one is written and never read


def test_samples_follow_from_the_seed_and_not_from_the_neighbours() -> None:
    model = build("gpt2")
    both = model.generate(torch.tensor([[5, 6], [7, 8]]), sample=True, seed=3, max_tokens=9)
    assert both == model.generate(torch.tensor([[5, 6], [7, 8]]), sample=True, seed=3, max_tokens=9)
    assert both[:1] == model.generate(torch.tensor([[5, 6]]), sample=True, seed=3, max_tokens=9)
    assert both != model.generate(torch.tensor([[5, 6], [7, 8]]), sample=True, seed=4, max_tokens=9)


def test_an_encoder_reads_the_row_and_the_decoder_must_know_where_to_begin() -> None:
    model = build("transformer-tiny")
    source = torch.tensor([[5, 6, 7], [8, 9, 10]])
    with pytest.raises(InputError, match="first token"):
        model.generate(source, end=3)
    found = model.generate(source, begin=2, end=3, beam=4, max_tokens=7)
    assert [written[-1] for written in found] == [3, 3]


def test_the_mode_of_the_model_stays_as_it_was() -> None:
    model = build("gpt2").train()
    model.generate(torch.tensor([[5]]), max_tokens=2)
    assert model.training


def test_a_beam_of_rows_is_refused() -> None:
    with pytest.raises(InputError, match="beam 4"):
        build("gpt2").generate(torch.tensor([[5]]), beam=4)


def test_an_encoder_alone_has_nothing_to_write() -> None:
    with pytest.raises(InputError):
        build("bert-tiny").generate(torch.tensor([[5]]), begin=1, end=2)
