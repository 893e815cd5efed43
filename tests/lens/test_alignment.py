"""Words and their tokens, weights between them, and tables of tokens that are linked again and again."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.core.model import Model
from regard.data.corpora.english_french import pairs
from regard.data.tokenizer import Kind, Tokenizer, TokenizerSpec
from regard.decode.translator import Translator
from regard.errors import InputError
from regard.lens.aligner import link_words, make_aligner, pick_columns, pick_rows, read_head
from regard.lens.alignment import (
    CutText,
    HeadChoice,
    WordedText,
    cut_text,
    find_excess,
    list_choices,
    list_layers,
    merge_words,
    watch_pairs,
)
from regard.lens.lexical import learn_table, make_prior, measure_consistency
from regard.models import preset

TEXTS = [
    "The old  woman's cat, isn't  there.",
    "l'homme qu'il voit dort ?",
    "naïve cafe\u0301 日本 — “quoted” (words)…",
    "x",
]


def learn(pieces: Kind, **more: object) -> Tokenizer:
    spec = TokenizerSpec.parse({"pieces": pieces, "vocabulary": 90, **more})
    return spec.train([*TEXTS, *TEXTS], ["[SEP]"])


@pytest.mark.parametrize("pieces", ["bpe", "byte-bpe", "unigram", "wordpiece", "word", "given", "character", "byte"])
@pytest.mark.parametrize("text", TEXTS)
def test_every_token_belongs_to_the_words_whose_letters_it_has(pieces: Kind, text: str) -> None:
    tokenizer = learn(pieces)
    given = WordedText.split(text)
    cut = cut_text(tokenizer, given)
    assert cut.shares.shape == (len(text.split()), len(cut.tokens))
    assert cut.tokens == tokenizer.encode([text])[0]
    assert np.allclose(cut.shares.sum(0), 1)  # all of it belongs to somebody
    assert (cut.shares.sum(1) > 0).all()  # every word has something
    # words come in order, so their tokens do
    owners = cut.shares.argmax(0)
    assert (np.diff(owners) >= 0).all()
    offsets = tokenizer.engine.encode(text, add_special_tokens=False).offsets
    for word, (begin, end) in enumerate(given.spans):
        for token in np.flatnonzero(cut.shares[word] == 1):
            left, right = offsets[token]
            assert not text[left:right].strip() or (begin < right and left < end)


def test_words_without_spaces_between_them_are_located() -> None:
    given = WordedText.locate("I cannot see l'ami.", ["I", "can", "not", "see", "l'", "ami", "."])
    assert given.words == ["I", "can", "not", "see", "l'", "ami", "."]
    cut = cut_text(learn("character"), given)
    assert cut.shares[1].sum() == 3 + 1 and cut.shares[2].sum() == 3  # a space goes to the word that follows
    with pytest.raises(InputError, match="'dog' doesn't stand"):
        WordedText.locate("the cat", ["the", "dog"])


def test_a_token_of_two_words_is_shared() -> None:
    cut = cut_text(learn("given"), WordedText.locate("cannot", ["can", "not"]))
    assert cut.shares.tolist() == [[0.5], [0.5]]


def test_rewritten_text_keeps_its_words() -> None:
    tokenizer = learn("bpe", rewrite={"n't": " not", r"(?<=\b[lq])'": "e "}, lowercase=True)
    text = "isn't l'homme"
    assert tokenizer.decode(tokenizer.encode([text])) == ["is not le homme"]
    cut = cut_text(tokenizer, WordedText.split(text))
    assert np.allclose(cut.shares.sum(0), 1) and cut.shares.shape[0] == 2
    first = "".join(tokenizer.pieces([n for n, share in zip(cut.tokens, cut.shares[0], strict=True) if share]))
    assert first.replace("▁", " ").strip() == "is not"


def test_merging_adds_over_keys_and_averages_over_queries() -> None:
    source = CutText([1, 2, 3], np.array([[1, 1, 0], [0, 0, 1]], np.float32))
    target = CutText([4, 5, 6], np.array([[1, 0, 0], [0, 1, 1]], np.float32))
    weights = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0], [0.0, 0.2, 0.8]], np.float32)
    assert np.allclose(merge_words(weights, source, target), [[0.3, 0.7], [0.6, 0.4]])


def test_a_head_is_known_by_its_name() -> None:
    heads = {0: 2, 1: 1}
    assert {choice.name for choice in list_choices(heads)} == {"0.0", "0.1", "0", "1", "mean"}
    assert [choice.name for choice in read_head("0.1", heads)] == ["0.1", "0.1"]
    assert {choice.step for choice in read_head("mean", heads)} == {"writing", "reading"}
    for wrong in ("2", "0.2", "1.1", "best", "0.", "-1"):
        with pytest.raises(InputError, match=r"0 \(2 heads\), 1 \(1 head\)"):
            read_head(wrong, heads)


def test_steps_and_means_are_taken_of_the_right_rows() -> None:
    look = {layer: np.random.default_rng(layer).random((2, 4, 5), np.float32) for layer in (0, 3)}
    assert np.array_equal(HeadChoice(3, 1, "writing").take(look), look[3][1, :-1])
    assert np.array_equal(HeadChoice(0, None, "reading").take(look), look[0].mean(0)[1:])
    assert np.allclose(HeadChoice(None, None, "reading").take(look), (look[0].mean(0) + look[3].mean(0))[1:] / 2)


def build(kind: str, **settings: object) -> Translator:
    """A small translator with fresh weights."""
    torch.manual_seed(1)
    tokenizer = learn("bpe")
    spec = preset(kind, width=16, vocabulary=len(tokenizer), **settings)
    return Translator(spec.build().eval(), tokenizer, tokenizer)


DECODER: dict[str, object] = {"depth": 2, "heads": 2}
TRANSFORMER: dict[str, object] = {**DECODER, "hidden": 16}


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("transformer-tiny", TRANSFORMER),
        ("luong", {}),
        ("bahdanau", {}),
        ("gpt2", {"depth": 2, "heads": 2, "context": 64}),
    ],
)
def test_weights_are_those_of_a_pair_alone(kind: str, settings: dict[str, object]) -> None:
    """A batch changes nothing; what is watched is what the model computes for that pair, step by step."""
    translator = build(kind, **settings)
    model = translator.model
    assert isinstance(model, Model)
    layers = list_layers(translator)
    texts = [("the cat", "x"), ("an old man's", "l'homme voit"), ("x", "isn't there cat the")]
    sources, targets = (translator.source.encode([pair[side] for pair in texts]) for side in (0, 1))
    cut = list(zip(sources, targets, strict=True))
    found = dict(watch_pairs(translator, cut, layers))
    for n, (source, target) in enumerate(cut):
        alone = dict(watch_pairs(translator, [(source, target)], layers))[0]
        for layer in layers:
            assert found[n][layer].shape[1:] == (len(target) + 1, len(source))
            assert np.allclose(found[n][layer], alone[layer], atol=1e-5)
            assert (found[n][layer].sum(-1) <= 1 + 1e-5).all()


def test_what_does_not_attend_or_does_not_fit_is_told() -> None:
    with pytest.raises(InputError, match="sees its source as one vector"):
        list_layers(build("seq2seq"))
    short = build("gpt2", depth=1, heads=2, context=8)
    assert find_excess(short, ([5] * 4, [5] * 4)) == "9 tokens, and its decoder has positions for 8"
    assert find_excess(short, ([5] * 3, [5] * 4)) == ""
    assert find_excess(short, ([], [5])) == "the source is empty"
    assert find_excess(short, ([5], [])) == "the target is empty"


def test_rows_and_columns_are_picked_and_an_empty_row_is_not() -> None:
    weights = np.array([[0.9, 0.1, 0.0], [0.6, 0.3, 0.1], [0, 0, 0]], np.float32)
    assert pick_rows(weights) == {(0, 0), (0, 1)}
    assert pick_columns(weights) == {(0, 0), (1, 1), (2, 1)}
    assert link_words(weights, how="none") == {(0, 0), (0, 1)}
    assert link_words(weights, how="union") == {(0, 0), (0, 1), (1, 1), (2, 1)}
    assert link_words(weights, weights.T, how="intersection") == {(0, 0)}


def toy(count: int = 60) -> tuple[list[tuple[list[int], list[int]]], list[list[int]]]:
    """A language whose word n is n + 100 in the other, in the other order; and which token each belongs to."""
    chance = np.random.default_rng(3)
    sources = [chance.permutation(12)[:5].tolist() for _ in range(count)]
    return [(source, [word + 100 for word in reversed(source)]) for source in sources], [[4, 3, 2, 1, 0]] * count


def test_links_that_repeat_are_consistent_and_others_are_not() -> None:
    texts, places = toy()
    right = [np.eye(5, dtype=np.float32)[place] for place in places]
    wrong = [np.eye(5, dtype=np.float32) for _ in places]
    blurred = [0.7 * one + 0.3 * other for one, other in zip(right, wrong, strict=True)]
    even = [np.full((5, 5), 0.2, np.float32) for _ in places]
    best, middle, worst = (measure_consistency(texts, each) for each in (right, wrong, even))
    assert measure_consistency(texts, blurred) == best > 1.5
    assert max(middle, worst) < 0.5
    assert measure_consistency(texts[:1], right[:1]) == 0


def test_a_table_corrects_what_attention_has_wrong_now_and_then() -> None:
    texts, places = toy()
    chance = np.random.default_rng(4)
    looks = []
    for place in places:
        right = np.eye(5, dtype=np.float32)[place]
        off = np.roll(right, 1, 1)
        looks.append(np.where(chance.random((5, 1)) < 0.35, off, right).astype(np.float32) + 0.05)
    table = learn_table(texts, looks)
    sharp = [table.sharpen(look, pair) for look, pair in zip(looks, texts, strict=True)]
    assert all(np.allclose(each.sum(1), 1) for each in sharp)
    before = np.mean([look.argmax(1) == place for look, place in zip(looks, places, strict=True)])
    after = np.mean([each.argmax(1) == place for each, place in zip(sharp, places, strict=True)])
    assert before < 0.75 and after > 0.98
    # what the table has never seen is left to attention
    fresh = table.sharpen(looks[0], ([900, 901, 902, 903, 904], [905, 906, 907, 908, 909]))
    assert np.allclose(fresh, make_prior(looks[0]), atol=1e-5)


def test_a_table_is_what_the_formula_says() -> None:
    """One round on one pair, by hand: counts over both margins."""
    look = np.array([[0.8, 0.2], [0.4, 0.6]], np.float32)
    table = learn_table([([1, 2], [7, 8])], [look], rounds=1)
    prior = make_prior(look)
    wanted = prior * prior / prior.sum(0) / prior.sum(1, keepdims=True)
    assert np.allclose(table.look_up(([1, 2], [7, 8])), wanted)


def test_auto_takes_the_most_consistent_of_all() -> None:
    translator = build("transformer-tiny", **TRANSFORMER)
    texts = [pair for pair, _ in zip(pairs("train", 1, "first"), range(20), strict=False)]
    sources = translator.source.encode([pair.source for pair in texts])
    targets = translator.target.encode([pair.target for pair in texts])
    aligner = make_aligner(translator, list(zip(sources, targets, strict=True)))
    ranks = [candidate.consistency for candidate in aligner.candidates]
    assert ranks == sorted(ranks, reverse=True) and len(ranks) == 2 * (2 * 2 + 2 + 1)
    told = make_aligner(translator, list(zip(sources, targets, strict=True)), "1.0", "reading", lexical=False)
    assert told.choice == HeadChoice(1, 0, "reading") and told.table is None
