"""Text in, text out: in order, the same alone and among others, with wishes kept."""

from __future__ import annotations

import pytest
import torch

from regard.core.model import Model
from regard.data.tokenizer import TokenizerSpec
from regard.decode.pipeline import Translator, Wishes, ensemble, limit
from regard.decode.search import Search
from regard.errors import RegardError
from regard.models import preset

TEXTS = ["the cat sees the dog", "", "a dog", "the green cat", "   ", "a cat sees a green dog"]
TOKENIZER = TokenizerSpec(pieces="word", vocabulary=50).train([*TEXTS, "le chat voit vert un chien"])


def speaker(seed: int = 0, kind: str = "transformer-tiny") -> Translator:
    torch.manual_seed(seed)
    sizes = {"width": 16, "depth": 1, "vocabulary": len(TOKENIZER)}
    more = {"heads": 2, "hidden": 32} if kind == "transformer-tiny" else {}
    model = preset(kind, **sizes, **more).build()
    for weight in model.parameters():  # untrained scores are nearly flat, and ties would decide
        weight.data.mul_(3)
    return Translator(model.eval(), TOKENIZER, TOKENIZER)


@pytest.mark.parametrize("kind", ["transformer-tiny", "seq2seq", "luong-feed"])
@pytest.mark.parametrize("beam", [1, 4])
def test_each_text_is_translated_as_if_alone_and_in_order(kind: str, beam: int) -> None:
    translator, settings = speaker(kind=kind), Search(beam=beam)
    together = [found[0] for found in translator.translate_all(TEXTS, settings, rows=3)]
    for text, found in zip(TEXTS, together, strict=True):
        alone = translator.translate(text, beam=beam)
        assert found.text == alone.text
        assert found.score == pytest.approx(alone.score, abs=1e-4)
    assert together[1].text == together[4].text == ""


def test_attention_has_a_row_for_each_token_and_a_column_for_each_source_token() -> None:
    found = speaker().translate("the green cat", attention=True, beam=3)
    assert found.attention is not None
    assert len(found.attention) == len(found.tokens) == len(found.log_probabilities)
    assert found.source_tokens == ["the", "green", "cat", "[EOS]"]
    assert all(sum(row) == pytest.approx(1) and len(row) == 4 for row in found.attention)
    assert speaker().translate("the green cat").attention is None


def test_wishes_are_kept() -> None:
    wishes = Wishes(prefix="le chat", required=["vert"], banned=["chien"])
    for found in speaker().translate_all(TEXTS[:1] * 2, Search(beam=4), wishes):
        words = found[0].text.split()
        assert words[:2] == ["le", "chat"]
        assert "vert" in words
        assert "chien" not in words


def test_a_translation_that_does_not_end_is_stopped_by_the_length_of_its_source() -> None:
    translator = speaker()
    assert isinstance(translator.network, Model)
    head = translator.network.head
    assert head is not None
    # the end is never the best word, so only the limit can bring it
    head.bias = torch.nn.Parameter(torch.zeros(len(TOKENIZER)).index_fill(0, torch.tensor(TOKENIZER.end), -1e4))
    for found in translator.translate_all(["a dog", "a cat sees a green dog"]):
        written, read = len(found[0].tokens) - 1, len(found[0].source_tokens) - 1
        assert written == limit(read) == 2 * read + 20


def test_a_least_length_is_kept_even_past_that() -> None:
    found = next(speaker().translate_all(["a dog"], Search(minimum=50, maximum=60)))
    assert 50 <= len(found[0].tokens) <= 61


def test_an_ensemble_of_one_model_twice_is_that_model() -> None:
    one, both = speaker(1), ensemble([speaker(1), speaker(1)])
    assert both.translate("the green cat", beam=3).text == one.translate("the green cat", beam=3).text
    other = TokenizerSpec(pieces="word").train(["something else"])
    with pytest.raises(RegardError, match="different tokenizers"):
        ensemble([one, Translator(one.network, other, other)])
