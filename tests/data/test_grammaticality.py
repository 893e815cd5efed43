"""Right and wrong sentences: each mistake is checked by hand, and so is what would have been right after all."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import islice

import pytest

from regard.data.corpora.english_french import BilingualPair as Pair
from regard.data.corpora.english_french import Split, Word, pairs
from regard.data.corpora.english_french.lexicon import lexicon, nouns_of
from regard.data.corpora.english_french.pattern import Level, compose
from regard.data.corpora.english_french.stream import sentences
from regard.data.corpora.grammaticality import ALONE, CORRECT, LABELS, MISTAKES, PURE, lower, samples, text

SPLITS: tuple[Split, ...] = ("train", "validation", "test", "combinations")


@cache
def some(split: Split, seed: int = 0, level: Level = "full", count: int = 2000) -> tuple[tuple[str, str], ...]:
    return tuple(islice(samples(split, seed, level), count))


def edits(label: str, words: tuple[Word, ...]) -> list[str]:
    """All sentences that a mistake makes of one."""
    return [text(edited) for edited in MISTAKES[label]([lower(words[0]), *words[1:]])]


def made(pattern: str, choices: str) -> Pair:
    """From `object noun=cat, verb=like`."""
    return compose(pattern, dict(choice.split("=") for choice in choices.split(", ") if choice))


def tagged(sentence: str) -> tuple[Word, ...]:
    """From `The/DET cats/NOUN/cat`; a lemma that isn't given is the word itself, as it stands inside of a sentence."""
    words = []
    for part in sentence.split():
        written, tag, *lemma = part.split("/")
        plain = written if tag == "PROPN" or written == "I" else written.lower()
        words.append(Word(written, tag, lemma[0] if lemma else plain))
    return tuple(words)


# all that a mistake makes of a sentence of the grammar
EXAMPLES = [
    ("agreement", "somebody_sleeps", "subject pronoun=he, verb=walk", ["He walk."]),
    ("agreement", "somebody_sees_something", "subject pronoun=they, object noun=cat", ["They sees the cat."]),
    ("agreement", "something_is_small", "subject pronoun=I, adjective=happy", ["I is happy."]),
    ("agreement", "something_is_small", "subject noun=car, adjective=old", ["The car are old."]),
    ("agreement", "does_somebody_sleep", "subject pronoun=she, verb=sing", ["Do she sing?"]),
    ("agreement", "somebody_does_not_sleep", "subject pronoun=we, verb=sing", ["We does not sing."]),
    ("agreement", "somebody_sleeps", "subject pronoun=he, verb=walk, tense=past", []),
    ("article", "somebody_sees_something", "subject pronoun=I, object noun=apple, object determiner=a, verb=eat",
     ["I eat a apple."]),
    ("article", "somebody_sees_something", "subject pronoun=I, object noun=cat, object determiner=a",
     ["I see an cat."]),
    ("article", "somebody_sees_something", "subject pronoun=I, object noun=hotel, object determiner=a", []),
    ("doubled", "somebody_sees_something", "subject noun=boy, object noun=cat, object determiner=my, tense=past",
     ["The the boy saw my cat.", "The boy saw my my cat."]),
    ("form", "somebody_sees_something", "subject pronoun=she, object noun=cat, tense=future",
     ["She will sees the cat."]),
    ("form", "somebody_sleeps", "subject pronoun=she, verb=walk, tense=future", ["She will walked."]),
    ("form", "does_somebody_sleep", "subject pronoun=she, verb=sleep", ["Does she sleeps?"]),
    ("form", "something_is_small", "subject pronoun=I, adjective=happy, tense=future", ["I will is happy."]),
    ("form", "somebody_wants_to_see_something",
     "subject pronoun=I, verb=want, action=transitive, deed=find, object noun=key, object determiner=my",
     ["I want to finds my key."]),
    ("missing", "somebody_sees_something", "subject pronoun=I, object noun=key", ["I see key."]),
    ("missing", "somebody_sees_something", "subject pronoun=I, object noun=key, object adjective=old",
     ["I see old key."]),
    ("missing", "somebody_does_not_sleep", "subject pronoun=he, verb=sing, tense=future", ["He not sing."]),
    ("missing", "somebody_wants_to_see_something",
     "subject pronoun=I, verb=want, action=transitive, deed=find, object noun=cat", ["I want find the cat."]),
    ("missing", "somebody_sees_something", "subject pronoun=I, object noun=key, object number=plural", []),
    ("missing", "somebody_sees_something", "subject pronoun=I, object noun=key, object determiner=a", []),
    ("order", "somebody_sees_something", "subject pronoun=I, object noun=cat", ["I see cat the."]),
    ("order", "somebody_sings_with_somebody",
     "subject pronoun=he, verb=sing, company=with, friend noun=king, friend determiner=our",
     ["He sings our with king.", "He sings with king our."]),
    ("order", "somebody_does_not_sleep", "subject noun=king, verb=sing, tense=future", ["The king not will sing."]),
    ("order", "something_is_small", "subject noun=king, subject adjective=old, adjective=happy",
     ["The king old is happy."]),
]  # fmt: skip


@pytest.mark.parametrize(("label", "pattern", "choices", "wrong"), EXAMPLES)
def test_each_mistake_is_as_a_hand_would_make_it(label: str, pattern: str, choices: str, wrong: list[str]) -> None:
    assert edits(label, made(pattern, choices).source_words) == wrong


# edits that would have left English, or some English, behind
RIGHT = [
    ("agreement", "I/PRON know/VERB Paul/PROPN and/CCONJ the/DET cat/NOUN sleeps/VERB/sleep ./PUNCT",
     "I know Paul and the cat sleep."),
    ("agreement", "I/PRON saw/VERB/see Paul/PROPN and/CCONJ the/DET cat/NOUN is/AUX/be small/ADJ ./PUNCT",
     "I saw Paul and the cat are small."),
    ("agreement", "She/PRON puts/VERB/put it/PRON here/ADV ./PUNCT", "She put it here."),
    ("agreement", "If/SCONJ he/PRON falls/VERB/fall ,/PUNCT I/PRON will/AUX cry/VERB ./PUNCT",
     "If he fall, I will cry."),
    ("form", "They/PRON are/AUX/be going/VERB/go to/PART dance/VERB here/ADV ./PUNCT",
     "They are going to dances here."),
    ("form", "You/PRON will/AUX find/VERB a/DET house/NOUN ./PUNCT", "You will found a house."),
    ("missing", "I/PRON sleep/VERB in/ADP the/DET bed/NOUN ./PUNCT", "I sleep in bed."),
    ("missing", "He/PRON goes/VERB/go to/ADP the/DET shop/NOUN ./PUNCT", "He goes to shop."),
    ("missing", "He/PRON says/VERB/say that/SCONJ the/DET dancer/NOUN sings/VERB/sing ./PUNCT",
     "He says that dancer sings."),
    ("missing", "The/DET baker/NOUN sings/VERB/sing ./PUNCT", "Baker sings."),
    ("missing", "I/PRON see/VERB my/PRON boy/NOUN and/CCONJ the/DET girl/NOUN ./PUNCT", "I see my boy and girl."),
    ("missing", "It/PRON is/AUX/be easy/ADJ to/PART like/VERB the/DET cat/NOUN ./PUNCT", "It is easy like the cat."),
    ("missing", "It/PRON is/AUX/be useful/ADJ to/PART work/VERB here/ADV ./PUNCT", "It is useful work here."),
    ("order", "They/PRON sing/VERB and/CCONJ the/DET judge/NOUN dances/VERB/dance ./PUNCT",
     "They sing and judge the dances."),
    ("order", "I/PRON drank/VERB/drink the/DET tea/NOUN last/ADJ week/NOUN ./PUNCT", "I drank tea the last week."),
    ("order", "I/PRON like/VERB the/DET small/ADJ cat/NOUN ./PUNCT", "I like the cat small."),
    ("order", "The/DET light/ADJ lamp/NOUN is/AUX/be old/ADJ ./PUNCT", "The lamp light is old."),
    ("doubled", "I/PRON give/VERB her/PRON that/DET very/ADV old/ADJ cat/NOUN ./PUNCT",
     "I give her that very very old cat."),
]  # fmt: skip


@pytest.mark.parametrize(("label", "sentence", "right"), RIGHT)
def test_no_edit_leaves_a_right_sentence(label: str, sentence: str, right: str) -> None:
    assert right not in edits(label, tagged(sentence))


def test_words_that_are_hedged_are_words_of_the_grammar() -> None:
    assert {
        noun.lemma for noun in nouns_of("person thing text garment vehicle craft furniture building landmark")
    } > ALONE
    assert {adjective.lemma for adjective in lexicon().adjectives} > PURE


@pytest.mark.parametrize("level", ["full", "first"])
def test_half_of_the_sentences_are_correct_and_every_mistake_is_made(level: Level) -> None:
    counts = Counter(label for _, label in some("train", level=level))
    assert set(counts) == set(LABELS)
    assert 0.46 < counts[CORRECT] / 2000 < 0.54
    assert all(counts[label] > 50 for label in MISTAKES)


def test_a_stream_is_the_same_for_the_same_seed() -> None:
    assert tuple(islice(samples("train"), 300)) == some("train")[:300]
    assert some("train", 1)[:300] != some("train")[:300]


def test_no_text_comes_twice() -> None:
    texts = [text for text, _ in some("train")]
    assert len(set(texts)) == len(texts)


def test_splits_share_no_text_whatever_the_seed() -> None:
    found = [{text for seed in (0, 1) for text, _ in some(split, seed, count=400)} for split in SPLITS]
    assert sum(map(len, found)) == len(set().union(*found))


def test_the_sentences_of_a_split_are_those_of_the_grammar() -> None:
    known = {pair.source for pair in islice(pairs("test", 0), 500)}
    right = [text for text, label in some("test", count=200) if label == CORRECT]
    assert right and set(right) <= known


@pytest.mark.parametrize("level", ["full", "first"])
def test_a_wrong_sentence_is_never_right_and_has_one_origin(level: Level) -> None:
    """Every edit of some thousand sentences of all splits: none gives another's, and none a sentence of the grammar."""
    right: set[str] = set()
    origins: dict[str, tuple[str, str]] = {}
    for sentence in islice(sentences("property", level), 5000):
        right.add(sentence.source)
        for label in MISTAKES:
            for wrong in edits(label, tuple(sentence.line.words)):
                assert wrong != sentence.source
                assert origins.setdefault(wrong, (label, sentence.source)) == (label, sentence.source)
    right |= {sentence.source for sentence in islice(sentences("others", level), 20_000)}
    assert len(origins) > 10_000 and not right & set(origins)


def test_one_word_is_changed_moved_dropped_or_doubled() -> None:
    for pair in islice(pairs("train", 3), 500):
        count = len(pair.source.split())
        for label in MISTAKES:
            for wrong in edits(label, pair.source_words):
                more = {"doubled": 1, "missing": -1}.get(label, 0)
                # not can is two words, cannot is one
                assert len(wrong.split()) == count + more + ("cannot" in pair.source and "not can" in wrong), wrong


def test_wrong_sentences_look_like_sentences() -> None:
    for sentence, _ in some("train"):
        assert sentence[0].isupper() and sentence[-1] in ".?" and "  " not in sentence and " ." not in sentence
        assert not {"The", "A", "An", "My", "Our", "She", "Will", "Do"} & set(sentence.split()[1:])


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(ValueError, match="none of train, validation, test, combinations"):
        next(samples("dev"))  # type: ignore[arg-type]
