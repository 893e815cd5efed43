"""Every filter against its definition, by a plain loop."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from regard.data.tokenizer import TokenizerSpec
from regard.decode.filters.shapes import MinP, Temperature, TopK, TopP, Typical
from regard.decode.filters.usual import (
    Banned,
    Context,
    Demands,
    Filter,
    Maximum,
    Minimum,
    Never,
    NoRepeat,
    Owed,
    Prefix,
    Repetition,
    rules,
    special_tokens,
)
from regard.decode.search import Search
from regard.errors import SpecError

WORDS = 7
SCORES = torch.randn(40, WORDS, generator=torch.Generator().manual_seed(0)).mul(2).log_softmax(-1)
TOKENS = torch.randint(WORDS, (40, 9), generator=torch.Generator().manual_seed(1))


def kept(rule: Filter, tokens: Tensor = TOKENS, owners: list[int] | None = None) -> list[set[int]]:
    scores = rule(SCORES, Context(tokens, owners or [0] * 40))
    for row, before in zip(scores, SCORES, strict=True):
        assert (row.isneginf() | (row == before)).all()  # a ban changes nothing else
    return [set((~row.isneginf()).nonzero()[:, 0].tolist()) for row in scores]


def by_probability(row: Tensor) -> list[int]:
    return sorted(range(WORDS), key=lambda word: -float(row[word]))


def test_temperature() -> None:
    found = Temperature(0.5)(SCORES, Context(TOKENS, [0] * 40))
    power = SCORES.exp() ** 2
    torch.testing.assert_close(found.exp(), power / power.sum(-1, keepdim=True))


@pytest.mark.parametrize("k", [1, 3, 7, 50])
def test_top_k(k: int) -> None:
    assert kept(TopK(k)) == [set(by_probability(row)[:k]) for row in SCORES]


@pytest.mark.parametrize("p", [0.01, 0.5, 0.9, 0.999])
def test_top_p(p: float) -> None:
    for found, row in zip(kept(TopP(p)), SCORES.exp().tolist(), strict=True):
        expected, total = set(), 0.0
        for word in sorted(range(WORDS), key=lambda word: -row[word]):
            expected.add(word)
            total += row[word]
            if total >= p:
                break
        assert found == expected


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_min_p(p: float) -> None:
    rows = SCORES.exp().tolist()
    assert kept(MinP(p)) == [{word for word in range(WORDS) if row[word] >= p * max(row)} for row in rows]


@pytest.mark.parametrize("p", [0.2, 0.7])
def test_typical(p: float) -> None:
    for found, row in zip(kept(Typical(p)), SCORES.exp().tolist(), strict=True):
        entropy = -sum(q * math.log(q) for q in row)
        expected, total = set(), 0.0
        for word in sorted(range(WORDS), key=lambda word: abs(-math.log(row[word]) - entropy)):
            expected.add(word)
            total += row[word]
            if total >= p:
                break
        assert found == expected


def test_repetition() -> None:
    found = Repetition(1.5)(SCORES, Context(TOKENS, [0] * 40))
    for row in range(40):
        for word in range(WORDS):
            factor = 1.5 if word in TOKENS[row].tolist() else 1.0
            assert float(found[row, word]) == pytest.approx(factor * float(SCORES[row, word]))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_repeat(n: int) -> None:
    for found, row in zip(kept(NoRepeat(n)), TOKENS.tolist(), strict=True):
        runs = {tuple(row[i : i + n]) for i in range(len(row) - n + 1)}
        assert found == {word for word in range(WORDS) if tuple([*row, word][-n:]) not in runs}
    assert kept(NoRepeat(3), TOKENS[:, :2]) == [set(range(WORDS))] * 40


def test_banned() -> None:
    sequences = [[3], [1, 2], [0, 5, 6]]
    for found, row in zip(kept(Banned(sequences)), TOKENS.tolist(), strict=True):
        ends = {word for word in range(WORDS) if any([*row, word][-len(s) :] == s for s in sequences)}
        assert found == set(range(WORDS)) - ends


def test_special_tokens_are_never_written() -> None:
    assert kept(Never([0, 5])) == [set(range(WORDS)) - {0, 5}] * 40
    tokenizer = TokenizerSpec(pieces="word").train(["a b"], ["[SEP]", "[MASK]"])
    specials = {"[PAD]", "[UNK]", "[BOS]", "[SEP]", "[MASK]"}
    assert set(tokenizer.pieces(special_tokens(tokenizer))) == specials  # all but the end


def test_no_end_while_words_are_owed_and_there_is_room() -> None:
    rule, every = Owed([10, 9], ends=[2]), set(range(WORDS))
    found = rule(SCORES, Context(TOKENS, [0, 1] * 20, [0, 1, 2]))
    ends = [not bool(row[2].isneginf()) for row in found]
    assert ends == [False, True, False, *[True] * 37]
    assert kept(rule) == [every] * 40


def test_minimum_and_maximum() -> None:
    assert kept(Minimum(10, ends=[2, 4])) == [set(range(WORDS)) - {2, 4}] * 40
    assert kept(Minimum(9, ends=[2])) == [set(range(WORDS))] * 40
    owners = [row % 2 for row in range(40)]
    assert kept(Maximum([10, 9], end=2), owners=owners) == [set(range(WORDS)), {2}] * 20


def test_prefix_is_each_sentences_own() -> None:
    owners = [row % 3 for row in range(40)]
    prefixes = [[0] * 9 + [4], [], [1] * 20]
    expected = [{4}, set(range(WORDS)), {1}]
    assert kept(Prefix(prefixes), owners=owners) == [expected[owner] for owner in owners]


def test_a_search_names_filters_by_their_kind() -> None:
    """They are built for the tokenizer of what is written, and come before what a prefix or a limit forces."""
    tokenizer = TokenizerSpec(pieces="character").train(["abc"])
    settings = Search.parse({"filters": [{"kind": "bias", "pieces": {"b": -100, "c": 3}}]})
    built = [chosen.build(tokenizer) for chosen in settings.filters]
    found = rules(settings, Demands(filters=built), [9], tokenizer.ends)
    scores = torch.zeros(1, len(tokenizer)).log_softmax(-1)
    context = Context(torch.zeros(1, 2, dtype=torch.long), [0])
    for rule in found:
        scores = rule(scores, context)
    a, b, c = (tokenizer.engine.token_to_id(letter) for letter in "abc")
    assert float(scores[0, c] - scores[0, a]) == pytest.approx(3)
    assert float(scores[0, b] - scores[0, a]) == pytest.approx(-100)
    assert float(scores.exp().sum()) == pytest.approx(1)


def test_a_filter_that_cannot_be_built_is_not_left_out_in_silence() -> None:
    settings = Search.parse({"filters": [{"kind": "bias", "pieces": {"b": 1}}]})
    with pytest.raises(SpecError, match="bias must be built for a tokenizer"):
        rules(settings, Demands(), [9], [0])
    with pytest.raises(SpecError, match="no piece 'b'"):
        settings.filters[0].build(TokenizerSpec(pieces="character").train(["a"]))
