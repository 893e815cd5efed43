"""Context: the loss by what is visible, where it stops to fall, and what is concluded."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

import regard
from regard.core.model import Model
from regard.errors import DataError
from regard.lab.context import CURVES, MODELS, SUMMARY, Reach, count_state, cut_windows, find_reach, list_contexts
from regard.lab.context import score_contexts as score

SMALL: dict[str, Any] = {"width": 16, "depth": 1, "vocabulary": 20}


def make_model(kind: str, **settings: Any) -> Model:
    with torch.random.fork_rng():
        torch.manual_seed(2)
        return regard.preset(kind, **SMALL, **settings).build().eval()


def make_windows(rows: int = 6, time: int = 17) -> torch.Tensor:
    return torch.randint(20, (rows, time), generator=torch.Generator().manual_seed(4))


def test_a_loss_is_that_of_the_next_token_after_what_is_visible() -> None:
    model, windows = make_model("lstm"), make_windows()
    found = score(model, windows, [5])[5]
    logits = model(windows[:, -6:-1])[:, -1]
    assert torch.allclose(found, F.cross_entropy(logits, windows[:, -1], reduction="none").double(), atol=1e-5)


@pytest.mark.parametrize("mix", [{"kind": "convolution", "kernel": 4}, {"kind": "attention", "window": 4}])
def test_what_ignores_all_but_the_last_four_has_a_flat_curve_beyond(mix: dict[str, Any]) -> None:
    model = make_model("decoder-tiny", heads=2, position="none", mix=mix)
    found = score(model, make_windows(), [1, 2, 4, 8, 16])
    assert torch.allclose(found[4], found[8], atol=1e-5) and torch.allclose(found[4], found[16], atol=1e-5)
    assert (found[2] - found[4]).abs().max() > 1e-4  # within its reach more is more


@pytest.mark.parametrize("kind", ["rnn", "lstm"])
def test_a_recurrence_feels_every_token(kind: str) -> None:
    found = score(make_model(kind), make_windows(), [2, 4])
    assert (found[2] - found[4]).abs().max() > 1e-4


def test_reach_is_where_the_rest_is_worth_less_than_a_share() -> None:
    loss = {1: 5.0, 2: 4.0, 4: 3.02, 8: 3.0, 16: 3.0}
    assert find_reach(loss) == 4
    assert find_reach(loss, 0.001) == 8
    assert find_reach({1: 3.0, 2: 3.0}) == 1


def test_attention_remembers_each_token_and_a_recurrence_the_same_bytes() -> None:
    tokens = make_windows(1, 16)
    attention, lstm = make_model("decoder-tiny", heads=2), make_model("lstm")
    # a key and a value of 16 numbers of 4 bytes for each token; an LSTM's two vectors
    assert [count_state(attention, tokens[:, :time]) for time in (4, 16)] == [4 * 2 * 16 * 4, 16 * 2 * 16 * 4]
    assert [count_state(lstm, tokens[:, :time]) for time in (4, 16)] == [2 * 16 * 4] * 2


def test_windows_come_from_one_document_each() -> None:
    rows = [list(range(10)), list(range(100, 105)), [7]]
    windows = cut_windows(rows, 3, 8 + 3, seed=1)  # all that there are
    assert sorted(map(tuple, windows.tolist())) == sorted(
        (first, first + 1, first + 2) for first in (*range(8), *range(100, 103))
    )
    with pytest.raises(DataError, match="11 windows of 3"):
        cut_windows(rows, 3, 12, seed=1)


def test_contexts_double() -> None:
    assert list_contexts(16) == [1, 2, 4, 8, 12, 16]


def make_tables(recurrent: int, attention: int) -> dict[str, Any]:
    summary = [{"model": name, "used": attention if name == "attention" else recurrent} for name in MODELS]
    curves = [
        {"model": name, "visible": visible, "loss": 3.0, "state": 100 * (visible if name == "attention" else 1)}
        for name in MODELS
        for visible in (16, 256)
    ]
    return {SUMMARY: summary, CURVES: curves}


def test_the_claim_needs_a_recurrence_that_ends_before_attention() -> None:
    found = Reach().conclude(make_tables(64, 128))
    assert found.shown and "LSTM 64" in found.sentence and "attention 128" in found.sentence
    assert "grows 16 times" in found.sentence
    assert not Reach().conclude(make_tables(256, 256)).shown  # no end was seen
    assert not Reach().conclude(make_tables(64, 32)).shown


def test_tables_are_drawn() -> None:
    assert len(Reach().draw(make_tables(64, 128))) == 2
