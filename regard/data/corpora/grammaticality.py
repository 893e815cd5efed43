"""Right and wrong English: sentences of the built-in grammar, half of them with one mistake that the label names.

A mistake is one edit of a right sentence. Each edit is hedged until no reading of the result is right: *I like the soup
cold* is English, so no adjective moves behind an object, and so is *I know Paul and the cat sleep*, so no verb after
*and* loses its s. Each can be undone in one way only: just *the* is left out, never *a*. So no two sentences become
the same wrong one: texts are distinct, and splits share none, as those of the grammar share no sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from random import Random
from typing import ClassVar, Literal

from regard.core.spec import Size
from regard.data.corpora.english_french.inflection import present
from regard.data.corpora.english_french.join import english_text
from regard.data.corpora.english_french.lexicon import lexicon, nouns_of
from regard.data.corpora.english_french.pattern import Level
from regard.data.corpora.english_french.stream import Split, pairs
from regard.data.corpora.english_french.word import Word
from regard.data.corpus import Generated
from regard.data.sample import Form, Sample

Words = list[Word]
Edit = Callable[[Words], Iterator[Words]]  # all ways to make the mistake in a sentence

CORRECT = "correct"
MODALS = frozenset(["do", "will", "can", "must"])  # a verb behind them has no ending
FLIPPED = {"is": "are", "are": "is", "am": "is", "does": "do", "do": "does"}
# what never stands without a noun, as that and his do
DEPENDENT = frozenset(["the", "a", "an", "my", "your", "our", "their"])
DOUBLED = DEPENDENT | {"of", "with", "from", "at", "and", "because"}  # that that, very very, her her can be right
BEFORE_DETERMINER = frozenset(["to", "at", "with", "from", "for", "of"])  # the in place is right
# what a clause whose verb has an s may begin with; nothing: the start of the sentence
OPENERS = frozenset(["", ",", "because", "that", "when", "but", "who", "whom", "where"])
UNMARKED = frozenset(["put", "read"])  # verbs whose past is bare as well: she put it down
SUBJECT = frozenset(["DET", "ADJ", "NOUN", "PROPN", "NUM", "PART", "PRON", "ADV"])  # tags of its words
# adjectives that are neither nouns nor verbs: the lamp light is right
PURE = frozenset((
    "small", "big", "beautiful", "new", "old", "young", "happy", "sad", "intelligent", "lazy", "strong", "weak",
    "jealous", "curious", "nervous", "dangerous", "faithful", "cruel", "cautious", "rich", "poor", "famous",
    "polite", "proud", "serious", "honest", "generous", "expensive", "fragile", "comfortable", "noisy",
    "magnificent", "ancient", "delicious", "enormous", "important", "difficult", "useful", "useless", "strange",
))  # fmt: skip
COUNTED = "person thing text garment vehicle craft furniture building landmark"
# of those, nouns that can do without: in bed, I like cinema, he is mayor; and verbs: judge the dances
ALONE = frozenset((
    "man", "woman", "baby", "friend", "guest", "doctor", "nurse", "teacher", "judge", "engineer", "butcher", "king",
    "queen", "prince", "princess", "lady", "mayor", "secretary", "inspector", "soldier", "sailor", "ball", "pencil",
    "painting", "flower", "stone", "rope", "story", "newspaper", "dress", "tie", "train", "bus", "truck", "taxi",
    "rocket", "bed", "table", "house", "school", "church", "hospital", "library", "theatre", "cinema", "prison",
    "university", "garage", "park", "city", "street", "village", "forest", "bridge", "road", "beach", "market",
))  # fmt: skip
# what a bare noun can follow: a list, goes to shop, without hat or coat, says that dancer sings
BEFORE_BARE = frozenset(["and", "or", "but", ",", "to", "without", "that"])


class Grammaticality(Generated):
    """Sentences of the built-in grammar, right or with one mistake; the label says which."""

    gives: ClassVar[tuple[Form, ...]] = ("labels",)
    kind: Literal["grammaticality"] = "grammaticality"
    train: Size = 50_000
    level: Level = "full"
    """The whole grammar (full), or fewer patterns and words for a model that has a minute (first)."""

    def stream(self, form: Form, split: Split) -> Iterator[Sample]:
        assert split != "combinations"
        return ({"text": text, "label": label} for text, label in samples(split, self.seed, self.level))


def samples(split: Split, seed: int = 0, level: Level = "full") -> Iterator[tuple[str, str]]:
    """An endless stream of distinct English sentences with their labels, the same for the same seed.

    Half of them are `correct`; the others have one of the mistakes that `LABELS` names. One sentence in twenty has
    no mistake that it surely could have, and is never wrong.
    """
    random = Random(f"grammaticality {split} {seed}")
    right = random.random() < 0.5
    for pair in pairs(split, seed, level):
        if right:
            yield pair.source, CORRECT
        else:
            found = mistake(pair.source_words, random)
            if found is None:
                continue
            yield found
        right = random.random() < 0.5


def mistake(sentence: Sequence[Word], random: Random) -> tuple[str, str] | None:
    """The sentence with one mistake, and which; nothing if there is no mistake that it surely can have."""
    words = [lower(sentence[0]), *sentence[1:]]
    for label in sorted(MISTAKES, key=lambda label: random.expovariate(EAGERNESS[label])):
        edited = list(MISTAKES[label](words))
        if edited:
            return text(random.choice(edited)), label
    return None


def lower(word: Word) -> Word:
    """The first word of a sentence as it is written inside of one."""
    return word if word.lemma[:1].isupper() else spelt(word, word.text[:1].lower() + word.text[1:])


def text(words: Words) -> str:
    """The sentence as it is written."""
    first = words[0].text
    return english_text([spelt(words[0], first[:1].upper() + first[1:]), *words[1:]])


def spelt(word: Word, written: str) -> Word:
    return Word(written, word.tag, word.lemma)


def change(words: Words, place: int, written: str) -> Words:
    return [*words[:place], spelt(words[place], written), *words[place + 1 :]]


def swap(words: Words, place: int) -> Words:
    """The word at a place and the next one in each other's place."""
    return [*words[:place], words[place + 1], words[place], *words[place + 2 :]]


def asks(words: Words) -> bool:
    return words[-1].text == "?"


def before(words: Words, place: int) -> int:
    """The place of the nearest word before that is neither an adverb nor not; -1 where there is none."""
    place -= 1
    while place >= 0 and (words[place].tag == "ADV" or words[place].text == "not"):
        place -= 1
    return place


def agreement(words: Words) -> Iterator[Words]:
    """A verb that doesn't agree with its subject: he walk, they walks, you is."""
    for place, word in enumerate(words):
        other = other_number(word)
        if other is None or (word.tag == "VERB" and asks(words)):  # there it is an infinitive, or its subject is who
            continue
        singular = word.text == "is" or other == word.lemma
        if agrees_alone(words, place) if singular else finite(words, place):
            yield change(words, place, other)


def other_number(word: Word) -> str | None:
    """The present of a verb in the other number; nothing for what isn't such a form."""
    if word.tag != "VERB":
        return FLIPPED.get(word.text) if word.tag == "AUX" else None
    third = present(word.lemma)[2]
    return {word.lemma: third, third: word.lemma}.get(word.text)


def opener(words: Words, place: int) -> str:
    """The word before the subject of the verb at a place: because, who, another verb; nothing at the start."""
    for word in reversed(words[:place]):
        relative = word.tag == "PRON" and word.text in ("who", "whom", "that")
        if word.tag not in SUBJECT or relative or word.text == "where":
            return word.text
    return ""


def agrees_alone(words: Words, place: int) -> bool:
    """Whether the verb's clause begins so that nothing but its singular form is right.

    After *and*, what comes before could be part of the subject: I know Paul and the cat sleep. After *if* there was a
    subjunctive, and behind another verb there can be an infinitive: the man who sees the cats sleep.
    """
    return opener(words, place) in OPENERS and words[place].lemma not in UNMARKED


def finite(words: Words, place: int) -> bool:
    """Whether a form without an ending has a plural subject, I or you; not an infinitive, nor an order.

    There is three of them is heard everywhere, and my friend and my doctor may be one.
    """
    if opener(words, place) == "and":
        return False
    subject = before(words, place)
    if words[place].tag == "AUX":
        return asks(words) or (subject >= 0 and words[subject].text != "there")
    return subject >= 0 and words[subject].tag in ("NOUN", "PROPN", "PRON") and words[subject].text != "us"


def order(words: Words) -> Iterator[Words]:
    """Two neighbours in each other's place: cat the, the of lake, not will, the boy small sleeps."""
    for place in range(len(words) - 2):
        word, following = words[place : place + 2]
        denied = word.tag == "AUX" and following.text == "not" and place > 0
        placed = word.tag == "ADP" and word.text in BEFORE_DETERMINER and following.text in DEPENDENT
        if denied or placed or ends_phrase(words, place) or opens_sentence(words, place):
            yield swap(words, place)


def ends_phrase(words: Words, place: int) -> bool:
    """Whether a determiner is before its noun, and no other noun or verb follows: they sing and judge the dances."""
    word, noun, after = words[place : place + 3]
    inside = place > 0 and words[place - 1].tag not in ("CCONJ", "PUNCT")
    return inside and word.text in DEPENDENT and noun.tag == "NOUN" and after.tag in ("PUNCT", "ADP", "SCONJ")


def opens_sentence(words: Words, place: int) -> bool:
    """Whether an adjective is before the first noun, which is the subject; behind an object, it can be right."""
    adjective, noun, verb = words[place : place + 3]
    first = place == 1 and words[0].tag in ("DET", "PRON") and verb.tag in ("VERB", "AUX")
    return first and adjective.text in PURE and noun.tag == "NOUN"


def missing(words: Words) -> Iterator[Words]:
    """A word left out that is needed: I see bag, he not sleep, she wants see the lake."""
    for place, word in enumerate(words[:-2]):
        following = words[place + 1]
        negated = word.text == "will" and following.text == "not" and place > 0
        # with an object, the verb is no noun, as in it is easy work; and it is easy like the other is right
        bare = is_to(word) and has_object(words, place + 1) and following.text != "like"
        if negated or bare or (word.text == "the" and is_needed(words, place)):
            yield words[:place] + words[place + 1 :]


def is_to(word: Word) -> bool:
    return word.tag == "PART" and word.text == "to"


def has_object(words: Words, place: int) -> bool:
    following = words[place + 1]
    return following.text in DEPENDENT or following.tag == "PRON"


def is_needed(words: Words, place: int) -> bool:
    """Whether the article at a place belongs to one thing that can be counted, and to no list: the cat and dog."""
    end = place + 1
    while words[end].tag in ("ADV", "ADJ"):
        end += 1
    noun, after = words[end], words[end + 1]
    single = noun.tag == "NOUN" and noun.text == noun.lemma and noun.lemma in countable()
    listed = after.tag == "CCONJ" or after.text in (",", "'s")
    begins = end == 1  # with a capital, it could be a name: Baker sleeps
    return single and not listed and not begins and (place == 0 or words[place - 1].text not in BEFORE_BARE)


@cache
def countable() -> frozenset[str]:
    """The nouns that always have an article or the like in the singular."""
    return frozenset(noun.lemma for noun in nouns_of(COUNTED)) - ALONE


def double(words: Words) -> Iterator[Words]:
    """A small word twice: the the cat."""
    for place, word in enumerate(words):
        if word.text in DOUBLED:
            yield [*words[:place], word, *words[place:]]


def form(words: Words) -> Iterator[Words]:
    """An ending where the verb has none, behind an auxiliary or to: he will walked, does she sees, it will is."""
    for place, word in enumerate(words):
        governor = governing(words, place)
        if governor is None:
            continue
        if word.text == "be":
            yield change(words, place, "is")
            continue
        if word.lemma in pasts():
            yield change(words, place, pasts()[word.lemma])
        # otherwise it could be a noun: she is going to dances, they can dreams
        if governor.lemma == "do" or has_object(words, place):
            yield change(words, place, present(word.lemma)[2])


def governing(words: Words, place: int) -> Word | None:
    """The auxiliary or to because of which the verb at a place has no ending; in a question, the subject is between."""
    word = words[place]
    if word.text != word.lemma or word.tag not in ("VERB", "AUX") or word.lemma in MODALS:
        return None
    if asks(words):
        earlier = [word for word in words[:place] if word.tag in ("VERB", "AUX")]
        return earlier[0] if len(earlier) == 1 and earlier[0].lemma in MODALS else None
    behind = before(words, place)
    return words[behind] if behind >= 0 and (words[behind].lemma in MODALS or is_to(words[behind])) else None


@cache
def pasts() -> dict[str, str]:
    """The pasts in -ed, by verb; others can be verbs of their own, as found and saw are."""
    entries = lexicon()
    verbs = [verb for group in (*entries.verbs.values(), entries.single.values()) for verb in group]
    found = {verb.lemma: verb.past.word.text for verb in verbs if verb.past}
    return {lemma: past for lemma, past in found.items() if past.endswith("ed")}


def article(words: Words) -> Iterator[Words]:
    """A for an, or an for a: a apple. Words with an h are left alone, since some say an hotel."""
    for place, word in enumerate(words[:-1]):
        if word.text in ("a", "an") and word.tag == "DET" and not words[place + 1].text.startswith("h"):
            yield change(words, place, "an" if word.text == "a" else "a")


MISTAKES: dict[str, Edit] = {
    "agreement": agreement,
    "article": article,
    "doubled": double,
    "form": form,
    "missing": missing,
    "order": order,
}
# the fewer sentences can have a mistake, the sooner it is taken
EAGERNESS = {"agreement": 1.5, "article": 8.0, "doubled": 0.5, "form": 1.0, "missing": 8.0, "order": 1.5}
LABELS = (CORRECT, *MISTAKES)
