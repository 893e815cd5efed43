"""Text in, text out: in order, the same alone and among others, with wishes kept."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import regard.tasks  # noqa: F401  enters every pipeline
from regard.core.model import Model
from regard.data.tokenizer import TokenizerSpec
from regard.decode.filters import special_tokens
from regard.decode.pipeline import PicturePipeline, Pipeline
from regard.decode.search import Search
from regard.decode.translator import Translator, Wishes, ensemble, limit
from regard.errors import InputError, RegardError
from regard.models import preset

TEXTS = ["the cat sees the dog", "", "a dog", "the green cat", "   ", "a cat sees a green dog"]
WORDS = [*TEXTS, "le chat voit vert un chien"]
TOKENIZER = TokenizerSpec(pieces="word", vocabulary=50).train(WORDS)
JOINED = TokenizerSpec(pieces="word", vocabulary=50).train(WORDS, ["[SEP]"])  # for a decoder alone


def pipeline(seed: int = 0, kind: str = "transformer-tiny") -> Translator:
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
    translator, settings = pipeline(kind=kind), Search(beam=beam)
    together = [found[0] for found in translator.translate_all(TEXTS, settings, rows=3)]
    for text, found in zip(TEXTS, together, strict=True):
        alone = translator.translate(text, beam=beam)
        assert found.text == alone.text
        assert found.score == pytest.approx(alone.score, abs=1e-4)
    assert together[1].text == together[4].text == ""


def test_attention_has_a_row_for_each_token_and_a_column_for_each_source_token() -> None:
    found = pipeline().translate("the green cat", attention=True, beam=3)
    assert found.attention is not None
    assert len(found.attention) == len(found.tokens) == len(found.log_probabilities)
    assert found.source_tokens == ["the", "green", "cat", "[EOS]"]
    assert all(sum(row) == pytest.approx(1) and len(row) == 4 for row in found.attention)
    assert pipeline().translate("the green cat").attention is None


def test_wishes_are_kept() -> None:
    wishes = Wishes(prefix="le chat", required=["vert"], banned=["chien"])
    for found in pipeline().translate_all(TEXTS[:1] * 2, Search(beam=4), wishes):
        words = found[0].text.split()
        assert words[:2] == ["le", "chat"]
        assert "vert" in words
        assert "chien" not in words


def prefer(translator: Translator, token: int, score: float) -> Translator:
    """One whose model likes a token by so much more than any other."""
    assert isinstance(translator.model, Model)
    head = translator.model.head
    assert head is not None
    head.bias = torch.nn.Parameter(torch.zeros(len(TOKENIZER)).index_fill(0, torch.tensor(token), score))
    return translator


def endless(kind: str = "transformer-tiny") -> Translator:
    """One whose model never wants to end, so that only a limit can stop it."""
    return prefer(pipeline(kind=kind), TOKENIZER.end, -1e4)


def test_a_translation_that_does_not_end_is_stopped_by_the_length_of_its_source() -> None:
    for found in endless().translate_all(["a dog", "a cat sees a green dog"]):
        written, read = len(found[0].tokens) - 1, len(found[0].source_tokens) - 1
        assert written == limit(read) == 2 * read + 20
        assert found[0].as_json()["cut"] == "source"


@pytest.mark.parametrize("maximum", [3, 90])
@pytest.mark.parametrize("how", [{"beam": 3}, {"sample": True}], ids=str)
def test_a_maximum_that_is_asked_for_is_kept_and_what_it_cuts_is_told(maximum: int, how: dict[str, Any]) -> None:
    for (found,) in endless().translate_all(["a dog", "a cat sees a green dog"], Search(max_tokens=maximum, **how)):
        assert len(found.tokens) == maximum + 1
        assert found.cut == "maximum"
    ended = prefer(pipeline(), TOKENIZER.end, 1e4).translate("a dog", max_tokens=maximum)
    assert ended.cut is None
    assert "cut" not in ended.as_json()


def test_a_translators_own_maximum_holds_unless_another_is_given() -> None:
    translator = endless()
    translator.search = Search(max_tokens=7)
    assert len(next(translator.translate_all(["a dog"], Search(beam=2)))[0].tokens) == 8
    assert len(translator.translate("a dog", max_tokens=9).tokens) == 10


def test_a_table_of_positions_cuts_and_says_so() -> None:
    torch.manual_seed(0)
    model = preset("gpt2", width=16, depth=1, heads=2, context=12, vocabulary=len(JOINED)).build().eval()
    translator = Translator(model, JOINED, JOINED)
    found = translator.translate("the cat sees", max_tokens=50, min_tokens=8)
    assert len(found.tokens) - 1 == 12 - 3 - 1  # places, less the source and the separator
    assert found.cut == "context"


@pytest.mark.parametrize("how", [{"beam": 1}, {"beam": 4}, {"beam": 4, "groups": 2}, {"sample": True}], ids=str)
def test_special_tokens_are_never_written(how: dict[str, Any]) -> None:
    """Even where the model likes nothing better; the probabilities that are told stay the model's own."""
    for token in special_tokens(TOKENIZER):
        found = prefer(pipeline(), token, 200.0).translate("the green cat", **how)
        assert TOKENIZER.pieces([token])[0] not in found.tokens
        assert max(found.log_probabilities) < -5  # all the rest of the probability lies on what may not be written


def test_wishes_that_the_model_has_no_tokens_for_are_refused() -> None:
    for wishes in (Wishes(prefix="le zèbre"), Wishes(required=["zèbre"])):
        with pytest.raises(InputError, match=r"zèbre.*can't be written"):
            pipeline().translate_all(["a dog"], Search(beam=3), wishes)


@pytest.mark.parametrize("kind", ["seq2seq", "decoder"])
def test_a_model_that_does_not_look_says_so_instead_of_failing(kind: str) -> None:
    if kind == "decoder":
        model = preset("decoder-tiny", width=16, depth=1, heads=2, vocabulary=len(JOINED)).build().eval()
        translator = Translator(model, JOINED, JOINED)
    else:
        translator = pipeline(kind=kind)
    found = translator.translate("the green cat", attention=True, beam=3)
    assert found.attention is None
    assert "attention" not in found.as_json()
    assert translator.unseeing is not None
    assert ("one vector" if kind == "seq2seq" else "beginning of its own text") in translator.unseeing
    assert pipeline().unseeing is None


def test_a_least_length_is_kept_even_past_that() -> None:
    found = next(pipeline().translate_all(["a dog"], Search(min_tokens=50, max_tokens=60)))
    assert 50 <= len(found[0].tokens) <= 61


def test_an_ensemble_of_one_model_twice_is_that_model() -> None:
    one, both = pipeline(1), ensemble([pipeline(1), pipeline(1)])
    assert both.translate("the green cat", beam=3).text == one.translate("the green cat", beam=3).text
    other = TokenizerSpec(pieces="word").train(["something else"])
    with pytest.raises(RegardError, match="different tokenizers"):
        ensemble([one, Translator(one.model, other, other)])


def test_a_call_does_what_a_pipeline_is_for() -> None:
    translator = pipeline()
    assert translator("the green cat", beam=2).text == translator.translate("the green cat", beam=2).text
    with pytest.raises(TypeError, match=r"\.model\(tokens\)"):
        Pipeline(translator.model)("the green cat")


def test_what_a_pipeline_has_not_is_answered_by_its_methods() -> None:
    with pytest.raises(AttributeError, match=r"'generate'; it has \.translate\(…\), \.translate_all\(…\)$"):
        _ = pipeline().generate
    for name in ("save", "save_pretrained", "push_to_hub"):
        with pytest.raises(AttributeError, match=r"\.model\.save\(FOLDER\)"):
            getattr(pipeline(), name)
    with pytest.raises(AttributeError, match=r"it has \.model"):
        _ = Pipeline(pipeline().model).predict


KINDS = [
    kind for kind in (*Pipeline.__subclasses__(), *PicturePipeline.__subclasses__()) if kind is not PicturePipeline
]


@pytest.mark.parametrize("kind", KINDS)
def test_the_verbs_of_every_pipeline_are_its_methods(kind: type[Pipeline]) -> None:
    assert kind.verbs
    assert all(callable(getattr(kind, verb)) for verb in kind.verbs)
