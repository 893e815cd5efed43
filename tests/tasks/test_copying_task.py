"""Translation that copies: numbers in columns, losses of words without vectors, and texts that have them."""

from __future__ import annotations

import math

import pytest
import torch

from regard.data.lexicon import Lexicon
from regard.data.tokenizer import Tokenizer, TokenizerSpec
from regard.decode.translator import Translator
from regard.errors import SpecError
from regard.models import preset
from regard.tasks.translation import TranslationTaskSpec, evaluate_translator, sum_losses

TEXTS = ["a cat met a dog .", "the dog saw the cat"]
PAIR = {"source": "the Zorn met Blim .", "target": "Blim saw Zorn"}


@pytest.fixture
def words() -> Tokenizer:
    return TokenizerSpec.parse({"pieces": "word"}).train(TEXTS)


def make(
    words: Tokenizer, name: str = "luong", copies: str | None = "copying"
) -> tuple[TranslationTaskSpec, Translator]:
    """A translator that always copies, whatever it learned."""
    torch.manual_seed(0)
    spec = preset(name, width=16, depth=1, vocabulary=len(words))
    task = TranslationTaskSpec.parse({"copies": copies}).adapt_to(spec)
    model = task.fit_model(spec, Lexicon((words, words))).build().eval()
    with torch.no_grad():
        model.head.switch.bias.fill_(-30.0)  # type: ignore[operator, union-attr]
    return task, task.pipeline(model, Lexicon((words, words)))


@pytest.mark.parametrize("name", ["luong", "transformer-tiny"])
def test_unknown_words_come_out_as_they_went_in(words: Tokenizer, name: str) -> None:
    _, translator = make(words, name)
    assert translator.copies
    for beam in (1, 4):
        best = translator.translate(PAIR["source"], beam=beam, attention=True, min_tokens=3, max_tokens=6)
        assert best.text and set(best.tokens) <= {*PAIR["source"].split(), "[EOS]"}
        assert best.source_tokens[:2] == ["the", "Zorn"] and "[UNK]" not in best.tokens
        assert best.attention is not None and len(best.attention) == len(best.tokens)
    batch = translator.translate([PAIR["source"], "Quix", "a cat"], beam=2, min_tokens=1)
    assert set(batch[1].text.split()) == {"Quix"} and set(batch[2].text.split()) <= {"a", "cat"}


def test_columns_hold_the_numbers_of_unknown_words(words: Tokenizer) -> None:
    task, _ = make(words)
    lexicon, size = Lexicon((words, words)), len(words)
    [row] = task.encode([PAIR], lexicon)
    assert [token - size for token in row["source"] if token >= size] == [0, 1]
    assert [row["target"][0] - size, row["target"][2] - size] == [1, 0]
    below = task.columns(lexicon)["source"].below
    assert below is not None and max(row["source"]) < below
    [plain] = TranslationTaskSpec().encode([PAIR], lexicon)
    assert plain["source"].count(words.unknown) == 2


def test_the_loss_counts_words_that_can_only_be_copied(words: Tokenizer) -> None:
    _, translator = make(words)
    assert not isinstance(translator.model, tuple)
    sums, counts = sum_losses(translator.model, translator, [(PAIR["source"], "Blim Zorn")], lambda: None)  # type: ignore[arg-type]
    assert counts == [3] and math.isfinite(sums[0])
    measures, texts = evaluate_translator(translator, [(PAIR["source"], PAIR["target"])])
    assert math.isfinite(measures["loss"]) and len(texts) == 1


def test_a_look_names_unknown_words(words: Tokenizer) -> None:
    _, translator = make(words)
    look = translator.look(PAIR["source"], "Blim met Zorn")
    assert look.source_tokens is not None and look.source_tokens[1] == "Zorn" and look.tokens[1] == "Blim"
    assert "head.weights" in {place.name for place in look.maps()}
    assert look.weights("head.weights")["head.weights"].shape == (1, len(look.tokens), len(look.source_tokens))
    assert {token for token, _ in look.predictions(2)[0].alternatives} <= {*PAIR["source"].split(), "[EOS]"}


def test_the_preset_copies_by_itself_and_others_are_told_how(words: Tokenizer) -> None:
    task, translator = make(words, "pointer-generator", None)
    assert task.copies is not None and translator.copies
    lexicon = Lexicon((words, TokenizerSpec.parse({"pieces": "word"}).train(["un chat"])))
    with pytest.raises(SpecError, match="one number on both sides"):
        task.fit_model(preset("luong"), lexicon)
    with pytest.raises(SpecError, match="vocabulary can't copy"):
        TranslationTaskSpec.parse({"copies": "vocabulary"}).fit_model(preset("luong"), Lexicon((words, words)))
    with pytest.raises(SpecError, match="no source to copy from"):
        TranslationTaskSpec.parse({"copies": "copying", "joined": True}).fit_model(
            preset("gpt2"), Lexicon((words, words))
        )
