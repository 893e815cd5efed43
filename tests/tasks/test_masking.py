"""Hiding tokens: how many, which, and by whose luck."""

from __future__ import annotations

import pytest
import torch

from regard.data.tokenizer import MASK, Tokenizer, TokenizerSpec
from regard.decode.filler import Filler
from regard.errors import InputError, SpecError
from regard.models import preset
from regard.tasks.masking import MaskingTaskSpec, hide

TEXT = "the cat sees the dog and the dog sees the cats in the gardens"


@pytest.fixture(scope="module", params=["bpe", "byte-bpe", "wordpiece"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return TokenizerSpec(pieces=request.param, vocabulary=275 if request.param == "byte-bpe" else 40).train(
        [TEXT] * 5, (MASK,)
    )


def rows(tokenizer: Tokenizer, count: int = 400) -> list[list[list[int]]]:
    row = [tokenizer.begin, *tokenizer.encode([TEXT])[0], tokenizer.end]
    return [[row] for _ in range(count)]


def test_a_share_is_chosen_and_of_it_eight_in_ten_are_hidden(tokenizer: Tokenizer) -> None:
    read = rows(tokenizer)
    batch = hide(read, tokenizer, MaskingTaskSpec(share=0.2), 1)
    before = torch.tensor([row[0] for row in read])
    assert torch.equal(before[batch.chosen], batch.answers)
    assert torch.equal(before[~batch.chosen], batch.inputs.tokens[~batch.chosen])
    ordinary = (before != tokenizer.begin) & (before != tokenizer.end)
    assert not bool((batch.chosen & ~ordinary).any())  # beginnings and ends are never asked for
    assert float(batch.chosen[ordinary].float().mean()) == pytest.approx(0.2, abs=0.02)
    after = batch.inputs.tokens[batch.chosen]
    assert tokenizer.mask is not None
    masked, same = after == tokenizer.mask, after == batch.answers
    assert float(masked.float().mean()) == pytest.approx(0.8, abs=0.04)
    by_chance = 0.1 / len(tokenizer)  # another token may be the same one
    assert float(same.float().mean()) == pytest.approx(0.1 + by_chance, abs=0.03)


def test_chance_follows_from_the_seed_alone(tokenizer: Tokenizer) -> None:
    read = rows(tokenizer, 5)
    one, other, third = (hide(read, tokenizer, MaskingTaskSpec(), seed) for seed in (1, 1, 2))
    assert torch.equal(one.inputs.tokens, other.inputs.tokens)
    assert not torch.equal(one.inputs.tokens, third.inputs.tokens)


def test_whole_words_are_chosen_together(tokenizer: Tokenizer) -> None:
    read = rows(tokenizer)
    batch = hide(read, tokenizer, MaskingTaskSpec(whole_words=True), 3)
    names = tokenizer.pieces(read[0][0])
    words: list[list[int]] = []
    for place in range(1, len(names) - 1):
        if tokenizer.begins[read[0][0][place]] or place == 1:
            words.append([])
        words[-1].append(place)
    assert max(map(len, words)) > 1, names  # there is a word of several pieces
    for word in words:
        together = batch.chosen[:, word]
        assert bool((together.all(1) == together.any(1)).all())
    lone = hide(read, tokenizer, MaskingTaskSpec(), 3)
    longest = max(words, key=len)
    apart = lone.chosen[:, longest]
    assert bool((apart.all(1) != apart.any(1)).any())  # without it, pieces are chosen one by one


def test_a_model_fills_in_what_is_hidden(tokenizer: Tokenizer) -> None:
    torch.manual_seed(1)
    spec = MaskingTaskSpec().fit_model(
        preset("bert-tiny", vocabulary=len(tokenizer), width=32, depth=1, heads=2), lexicon(tokenizer)
    )
    model = spec.build().eval()
    filler = Filler(model, tokenizer)
    found = filler.fill(f"the {MASK} sees the {MASK}", best=3)
    assert [len(each) for each in found.guesses] == [3, 3]
    assert MASK not in found.text
    for each in found.guesses:
        shares = [guess.probability for guess in each]
        assert shares == sorted(shares, reverse=True)
    assert tokenizer.mask is not None
    row = [tokenizer.begin, *tokenizer.obey(f"the {MASK} sees the {MASK}", [tokenizer.mask]), tokenizer.end]
    with torch.no_grad():
        best = model(torch.tensor([row]))[0, row.index(tokenizer.mask)].softmax(-1).max()
    assert found.guesses[0][0].probability == pytest.approx(float(best), abs=1e-5)


def lexicon(tokenizer: Tokenizer):  # type: ignore[no-untyped-def]
    from regard.data.lexicon import Lexicon

    return Lexicon((tokenizer, tokenizer))


def test_a_text_without_a_mask_is_an_error(tokenizer: Tokenizer) -> None:
    model = preset("bert-tiny", vocabulary=len(tokenizer), width=32, depth=1, heads=2, head="masking").build()
    with pytest.raises(InputError, match=r"no \[MASK\]"):
        Filler(model, tokenizer).fill("the cat")


def test_a_tokenizer_without_a_mask_is_refused() -> None:
    plain = TokenizerSpec(pieces="word").train([TEXT])
    model = preset("bert-tiny", vocabulary=len(plain), width=32, depth=1, heads=2, head="masking")
    with pytest.raises(SpecError, match=r"no \[MASK\]"):
        Filler(model.build(), plain).fill(f"the {MASK}")
    with pytest.raises(SpecError, match=r"no \[MASK\]"):
        MaskingTaskSpec().fit_model(model, lexicon(plain))


def test_a_decoder_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(SpecError, match="only what comes before"):
        MaskingTaskSpec().fit_model(
            preset("gpt2", vocabulary=len(tokenizer), width=32, depth=1, heads=2), lexicon(tokenizer)
        )
