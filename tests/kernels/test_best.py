"""The compiled search for the best continuations against torch's, by every path of the kernel."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from regard.decode import best
from regard.decode.best import Options, add_up, find_best, list_best

# sentences, rows of each, words, how many are wanted
SIZES = [(1, 1, 1, 1), (1, 1, 7, 3), (2, 3, 5, 9), (3, 5, 100, 10), (1, 5, 8000, 10), (7, 1, 1000, 2), (4, 2, 333, 40)]


@pytest.fixture(autouse=True)
def no_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def ask_both(monkeypatch: pytest.MonkeyPatch, *given: object, normal: bool = False) -> tuple[Options, Options]:
    """What our kernel finds, and what torch does."""
    ours = list_best(*given, normal=normal)  # type: ignore[arg-type]
    with monkeypatch.context() as plain:
        plain.setattr(best, "ready", lambda: None)
        theirs = list_best(*given, normal=normal)  # type: ignore[arg-type]
    return ours, theirs


def define(scores: Tensor, sums: Tensor, sentences: int, count: int, barred: tuple[int, ...]) -> Options:
    """All continuations that aren't ruled out, sorted in Python: the best first, then by row and by token."""
    fan, found = len(scores) // sentences, []
    for sentence in range(sentences):
        rows = range(sentence * fan, sentence * fan + fan)
        totals = (sums[:, None] + scores).tolist()
        all_of_it = [(-totals[row][word], row, word) for row in rows for word in range(scores.shape[1])]
        found += sorted(item for item in all_of_it if item[2] not in barred)[:count]
    logs = [float(scores[row, word]) for _, row, word in found]
    return Options([-total for total, _, _ in found], [row for _, row, _ in found], [word for *_, word in found], logs)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_the_best_are_found_by_both(level: int, sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    sentences, fan, words, count = sizes
    torch.manual_seed(words)
    wide = torch.randn(sentences * fan, words + 3)
    scores, sums = wide[:, :words], torch.randn(sentences * fan)
    for part in (scores, scores.contiguous()):
        ours, theirs = ask_both(monkeypatch, part, sums, sentences, count)
        assert ours == theirs == define(scores, sums, sentences, count, ())
    ours, theirs = ask_both(monkeypatch, scores, sums, sentences, count, normal=True)
    assert (ours.rows, ours.tokens) == (theirs.rows, theirs.tokens)
    torch.testing.assert_close(ours.totals, theirs.totals, rtol=1e-6, atol=1e-5)
    assert ours.logs == (scores - add_up(scores))[ours.rows, ours.tokens].tolist()


@pytest.mark.parametrize("seed", range(5))
def test_of_equals_the_lower_row_and_token_come_first(level: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(seed)
    sentences, fan, words, count = 3, 4, 500 * seed + 20, 11
    scores, sums = (
        torch.randint(-3, 4, (sentences * fan, words)).float(),
        torch.randint(-1, 2, (sentences * fan,)).float(),
    )
    ours, theirs = ask_both(monkeypatch, scores, sums, sentences, count)
    assert ours == theirs == define(scores, sums, sentences, count, ())


@pytest.mark.parametrize("words", [6, 40, 1000])
def test_what_is_barred_is_not_found(level: int, words: int, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(words)
    scores, sums = torch.randn(4, words), torch.randn(4)
    barred = (*scores[:2].argmax(1).tolist(), 3, words - 1)
    for count in (2, 8):
        ours, theirs = ask_both(monkeypatch, scores, sums, 2, count, barred)
        expected = define(scores, sums, 2, count, barred)
        for found in (ours, theirs):
            left = found.pick([at for places in found.split(2) for at in places])
            assert left == expected


def test_where_all_is_barred_nothing_is_found(level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for found in ask_both(monkeypatch, torch.randn(2, 3), torch.zeros(2), 2, 2, (0, 1, 2)):
        assert found.split(2) == [[], []]


def test_what_is_no_number_is_above_all_and_dropped(level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    scores, sums = torch.randn(5, 900), torch.tensor([0.0, 1.0, -math.inf, 0.0, 0.0])
    scores[0, 450] = math.nan
    scores[1, 899] = math.inf
    scores[3] = -math.inf
    scores[4, :897] = -math.inf
    for normal in (False, True):
        ours, theirs = ask_both(monkeypatch, scores, sums, 5, 4, normal=normal)
        torch.testing.assert_close(ours.totals, theirs.totals, rtol=1e-6, atol=1e-5, equal_nan=True)
        kept = ours.split(5)
        assert kept == theirs.split(5)
        assert ours.pick(kept[4]).tokens == theirs.pick(kept[4]).tokens
        assert [len(places) for places in kept] == ([0, 0, 0, 0, 3] if normal else [3, 4, 0, 0, 3])
    together, _ = ask_both(monkeypatch, scores[:2], sums[:2], 1, 4)
    assert math.isnan(together.totals[0]) and together.totals[1] == math.inf


def test_a_row_of_nothing_but_no_numbers_ends(level: int) -> None:
    found = list_best(torch.full((1, 70), math.nan), None, 1, 3)
    assert all(math.isnan(total) for total in found.totals) and found.tokens == [0, 1, 2]


def test_rising_scores_are_all_looked_at(level: int) -> None:
    found = list_best(torch.arange(1000.0)[None], None, 1, 5)
    assert found.tokens == [999, 998, 997, 996, 995] and found.rows == [0] * 5


def test_other_numbers_take_torchs_way(level: int) -> None:
    scores = torch.randn(3, 50)
    expected = list_best(scores, None, 3, 4)
    assert list_best(scores.double(), None, 3, 4).tokens == expected.tokens
    assert list_best(torch.stack((scores, scores), 2)[..., 0], None, 3, 4) == expected


@pytest.mark.parametrize("words", [9, 640, 5000])
def test_torch_has_equals_in_order_too(words: int) -> None:
    torch.manual_seed(words)
    scores = torch.randint(0, 4, (6, words)).float()
    values, places = find_best(scores, 7)
    expected = scores.sort(dim=1, descending=True, stable=True)
    assert torch.equal(values, expected.values[:, :7]) and torch.equal(places, expected.indices[:, :7])
