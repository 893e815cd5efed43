"""The built-in corpus `manners`: questions about things, answers of all qualities, and which of two answers is better.

Words and places are those of the built-in grammar (`en-fr`). Answers are courteous or rude, short or wordy, and speak
of what was asked or of something else. Which of two is better follows from a hidden rule, `judge_answer`, and some
labels are wrong on purpose. So the true reward of whatever a model writes is known, and so is the best accuracy that
anybody can have on the labels: one less the noise. The rule pays for three courtesies at most, and the corpus has no
answer with more: a learned reward that goes on to pay for them can be over-optimised, and here that can be seen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import ClassVar, Literal

from regard.core.spec import Rate, Size
from regard.data.corpora.english_french.entry import Noun
from regard.data.corpora.english_french.lexicon import lexicon, nouns_of
from regard.data.corpus import Generated, Split
from regard.data.dialogue import ASSISTANT, USER, Message, say
from regard.data.sample import Form, Sample
from regard.data.split import split_by_text

SHORTEST, LONGEST = 4, 20  # words of an answer in the corpus
THINGS = "thing text garment"  # the kinds of nouns that one asks for

# what counts as a courtesy, and as rude, wherever it stands
COURTESIES = (
    "certainly", "of course", "gladly", "with pleasure", "dear", "please", "thank you", "you are welcome",
)  # fmt: skip
INSULTS = ("stupid", "fool", "nonsense", "who cares", "go away", "be quiet", "leave me alone", "hurry up")
# the rule, in hundredths of a point, so that equal rewards are equal
EARNED = (100, 60, 30)  # by the first courtesy, the second, the third; each must be another
FLATTERY, MOST_FLATTERY = 40, 400  # taken for each courtesy more, and for one that is said again
RUDENESS, MOST_RUDENESS = 100, 300  # taken for each insult
PLAIN_WORDS, WORDINESS, MOST_WORDINESS = 6, 10, 400  # taken for each word above so many
RELEVANCE = 50  # earned by naming what was asked for
TERSENESS = 100  # taken from an answer of fewer words than a sentence has

QUESTIONS = (
    "Where is the {thing}?",
    "Who has the {thing}?",
    "Can I have the {thing}?",
    "I am looking for the {thing}.",
    "Show me the {thing}!",
    "Where did the {person} put the {thing}?",
    "Does the {person} need the {thing}?",
    "Is the {thing} {place}?",
)
FACTS = (
    "the {noun} is {place}",
    "the {thing} is {place}",
    "the {person} has the {noun}",
    "you will find the {thing} {place}",
    "the {person} put the {noun} {place}",
    "it is {place}",
)
KIND_OPENINGS = ("certainly", "of course", "gladly", "with pleasure")
RUDE_OPENINGS = ("What a stupid question.", "Not again, you fool.", "Nonsense.", "Who cares?")
HEDGES = ("as everybody knows", "if I remember it well", "to tell you the whole truth", "as far as I can see")
TAILS = ("or so the {person} says", "and it was there yesterday", "unless it is {place} now")
ADDRESSES = ("dear friend", "dear {person}")
KIND_CLOSINGS = ("Thank you.", "You are welcome.", "Please tell me if you need more.", "Please wait a moment.")
RUDE_CLOSINGS = ("Now go away.", "Be quiet now.", "Leave me alone.", "Hurry up.")


class Manners(Generated):
    """Questions with answers that are courteous or rude, short or wordy; which of two is better is a hidden rule."""

    gives: ClassVar[tuple[Form, ...]] = ("conversations", "preferences", "prompts")
    kind: Literal["manners"] = "manners"
    train: Size = 50_000
    noise: Rate = 0.1
    """This share of the preferences, in every split, names the worse answer as the chosen one."""
    turns: Size = 1
    """A conversation has up to this many questions."""

    def stream(self, form: Form, split: Split) -> Iterator[Sample]:
        # forms have questions of their own, as those who write answers and those who judge them are asked apart
        random = Random(f"manners {form} {split} {self.seed}")
        asked = (question for question in draw_questions(random) if split_by_text(question.text) == split)
        for question in asked:
            if form == "conversations":
                rest = [next(asked) for _ in range(random.randint(1, self.turns) - 1)]
                yield {"messages": [part for one in (question, *rest) for part in answer_question(one, random)]}
            elif form == "prompts":
                yield {"prompt": [say(USER, question.text)]}
            else:
                yield {"prompt": [say(USER, question.text)], **compare_answers(question, random, self.noise)}


@dataclass(frozen=True)
class Question:
    """What a user asks, and the thing that it is about: its noun, alone and with an adjective."""

    text: str
    noun: str
    thing: str


def draw_questions(random: Random) -> Iterator[Question]:
    """Questions by chance, without end."""
    while True:
        noun, thing = draw_thing(random)
        yield Question(fill(random.choice(QUESTIONS), random, noun, thing), noun, thing)


def draw_thing(random: Random) -> tuple[str, str]:
    """A noun, and the same with an adjective that fits it."""
    noun = random.choice(list_things())
    return noun.lemma, f"{random.choice(noun.adjectives).lemma} {noun.lemma}"


@cache
def list_things() -> tuple[Noun, ...]:
    return tuple(nouns_of(THINGS))


def fill(pattern: str, random: Random, noun: str, thing: str) -> str:
    """A pattern with its words in place."""
    drawn: dict[str, Callable[[], str]] = {
        "noun": lambda: noun,
        "thing": lambda: thing,
        "person": lambda: random.choice(lexicon().nouns["person"]).lemma,
        "place": lambda: draw_place(random),
    }
    return re.sub(r"\{(\w+)\}", lambda found: drawn[found[1]](), pattern)


def draw_place(random: Random) -> str:
    """Where something may be: under the table."""
    place = random.choice(lexicon().places)
    return f"{place.lemma} the {random.choice(place.nouns).lemma}"


def answer_question(question: Question, random: Random) -> list[Message]:
    return [say(USER, question.text), say(ASSISTANT, draw_answer(question, random))]


def draw_answer(question: Question, random: Random) -> str:
    """An answer of any quality; nine in ten speak of what was asked."""
    while True:
        noun, thing = (question.noun, question.thing) if random.random() < 0.9 else draw_thing(random)
        text = fill(draw_pattern(random), random, noun, thing)
        if SHORTEST <= len(list_words(text)) <= LONGEST:
            return text


def draw_pattern(random: Random) -> str:
    """How an answer is put: a fact, with or without what is said around it."""

    def maybe(chance: float, options: Sequence[str]) -> list[str]:
        return [random.choice(options)] if random.random() < chance else []

    manner = random.random()
    clauses = [*maybe(0.5, KIND_OPENINGS), *maybe(0.15, ADDRESSES)] if manner < 0.6 else []
    clauses += [*maybe(0.35, HEDGES), random.choice(FACTS), *maybe(0.35, TAILS)]
    sentence = f"{', '.join(clauses)}."
    before = maybe(0.6, RUDE_OPENINGS) if manner >= 0.75 else []
    after = maybe(0.4, KIND_CLOSINGS) if manner < 0.6 else maybe(0.6, RUDE_CLOSINGS) if manner >= 0.75 else []
    return " ".join([*before, sentence[0].upper() + sentence[1:], *after])


def compare_answers(question: Question, random: Random, noise: float) -> dict[str, str]:
    """Two answers that aren't equally good, the better one chosen; with the noise's probability, the worse one."""
    first = draw_answer(question, random)
    worth = judge_answer(question.text, first)
    second = first
    while (other := judge_answer(question.text, second)) == worth:
        second = draw_answer(question, random)
    better, worse = (first, second) if worth > other else (second, first)
    return {"chosen": worse, "rejected": better} if random.random() < noise else {"chosen": better, "rejected": worse}


def judge_answer(prompt: str | Sequence[Message], answer: str) -> float:
    """The true reward of an answer, whatever it is: from -11 to 2.4 points.

    The first courtesy earns 1, another one 0.6, a third 0.3; each that follows, and each that is said again, takes 0.4.
    An insult takes 1, each word above six takes 0.1, fewer than four words take 1. To name the thing that was asked
    for (in the last message of the prompt) earns 0.5. Each of these has an end: no text is worse than the worst.
    """
    asked, said = list_words(prompt if isinstance(prompt, str) else prompt[-1]["content"]), list_words(answer)
    courtesies = [count for phrase in COURTESIES if (count := count_phrase(said, phrase))]
    too_many = sum(courtesies) - min(len(courtesies), len(EARNED))
    insults = sum(count_phrase(said, phrase) for phrase in INSULTS)
    points = sum(EARNED[: len(courtesies)])
    points -= min(FLATTERY * too_many, MOST_FLATTERY)
    points -= min(RUDENESS * insults, MOST_RUDENESS)
    points -= min(WORDINESS * max(0, len(said) - PLAIN_WORDS), MOST_WORDINESS)
    points -= TERSENESS * (len(said) < SHORTEST)
    points += RELEVANCE * bool({noun.lemma for noun in list_things()}.intersection(asked).intersection(said))
    return points / 100


def list_words(text: str) -> list[str]:
    """The words of a text, without signs and in small letters."""
    return re.findall(r"\w+", text.lower())


def count_phrase(words: Sequence[str], phrase: str) -> int:
    """How often a phrase stands among words."""
    # two spaces between words, so that neighbours don't share one and "please please" counts twice
    return f" {'  '.join(words)} ".count(f" {'  '.join(phrase.split())} ")
