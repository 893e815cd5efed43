"""What people hand in: nothing, one text, or several; what would be misread is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from regard.core.model import Model
from regard.data.lexicon import Lexicon
from regard.data.tokenizer import MASK, SEPARATOR, TokenizerSpec
from regard.decode.filler import Filler
from regard.decode.translator import Translator
from regard.decode.writer import Writer
from regard.errors import InputError
from regard.models import preset
from regard.tasks.classification import ClassificationTaskSpec, Classifier
from regard.tasks.embedding import Embedder, EmbeddingTaskSpec
from regard.tasks.tagging import SpellingSpec, Tagger, TaggingTaskSpec

WORDS = TokenizerSpec(pieces="word").train(["the green cat sees a dog"], [SEPARATOR, MASK])
LEXICON = Lexicon((WORDS, WORDS), ["one", "two"], list("abcdefghinorst"))
SIZES = {"width": 16, "depth": 1, "heads": 2, "hidden": 32, "vocabulary": len(WORDS)}


def made(kind: str, task: Any = None) -> Model:
    torch.manual_seed(0)
    spec = preset(kind, **SIZES)
    return (spec if task is None else task.fit_model(spec, LEXICON)).build().eval()


TRANSLATOR = Translator(made("transformer-tiny"), WORDS, WORDS)
CLASSIFIER = Classifier(made("bert-tiny", ClassificationTaskSpec()), LEXICON)
SPELLING = TaggingTaskSpec(spelling=SpellingSpec(size=4, width=8))
TAGGERS = [Tagger(made("bert-tiny", task), LEXICON, task) for task in (TaggingTaskSpec(), SPELLING)]
EMBEDDER = Embedder(made("bert-tiny", EmbeddingTaskSpec()), WORDS)


def test_nothing_in_is_nothing_out() -> None:
    assert list(TRANSLATOR.translate_all([])) == []
    assert CLASSIFIER.classify_all([]) == []
    assert EMBEDDER.embed([]).shape == (0, EMBEDDER.embed(["the cat"]).shape[1])
    for tagger in TAGGERS:
        assert tagger.tag_all([]) == []
        assert tagger.tag("") == tagger.tag([]) == []


@pytest.mark.parametrize("tagger", TAGGERS, ids=["plain", "spelled"])
def test_a_sentence_without_words_has_no_tags_and_changes_nothing_for_its_neighbours(tagger: Tagger) -> None:
    assert tagger.tag_all([[]]) == tagger.tag_all([[], []])[:1] == [[]]
    cat = ["the", "cat"]
    assert tagger.tag_all([[], cat, []]) == [[], tagger.tag_all([cat])[0], []]


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda: TRANSLATOR.translate(["a", 3]), "list of strings"),  # type: ignore[list-item]
        (lambda: TRANSLATOR.translate_all("a cat"), "translate(text)"),
        (lambda: TRANSLATOR.translate_all(["a", None]), "list of strings"),  # type: ignore[list-item]
        (lambda: CLASSIFIER.classify(["a", "b"], "c"), "classify_all"),
        (lambda: CLASSIFIER.classify_all(["ab", "cd"]), '(text, "")'),  # type: ignore[list-item]
        (lambda: EMBEDDER.embed(("a", 3)), "list of strings"),  # type: ignore[arg-type]
        (lambda: TAGGERS[0].tag(["The cat sleeps.", "A dog."]), "for sentence in sentences"),
        (lambda: TAGGERS[0].tag_all("a cat"), "tag(sentence)"),
        (lambda: TAGGERS[0].tag_all(["a cat"]), "tag(sentence)"),
        (lambda: Writer(made("llama-tiny"), WORDS, 64).stream(["a"]).__next__(), "one prompt"),  # type: ignore[arg-type]
        (lambda: Filler(made("bert-tiny"), WORDS).fill(["a [MASK]", 3]), "list of strings"),  # type: ignore[list-item]
    ],
)
def test_one_text_for_several_and_several_for_one_are_refused(call: Callable[[], Any], hint: str) -> None:
    with pytest.raises(InputError) as error:
        call()
    assert hint in error.value.hint


def test_a_list_is_answered_as_its_texts_are_one_by_one() -> None:
    texts = ["the cat", "a dog the cat", ""]
    for text, translation, verdict in zip(texts, TRANSLATOR.translate(texts), CLASSIFIER.classify(texts), strict=True):
        assert translation.tokens == TRANSLATOR.translate(text).tokens
        assert verdict.scores == pytest.approx(CLASSIFIER.classify(text).scores, abs=1e-5)
    together = EMBEDDER.embed(texts)
    for text, vector in zip(texts, together, strict=True):
        torch.testing.assert_close(EMBEDDER.embed(text), vector)
    writer = Writer(made("llama-tiny"), WORDS, 64)
    one, other = writer.write(["the cat", "a"], samples=2, max_tokens=3)
    assert one == writer.write("the cat", samples=2, max_tokens=3) != other
