"""All sentence patterns, by how much they can say: a pattern of few sentences is drawn rarely."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from itertools import accumulate
from typing import Literal

from regard.data.corpora.english_french import (
    compounds,
    descriptions,
    idioms,
    infinitives,
    pronouns,
    questions,
    relatives,
    statements,
)
from regard.data.corpora.english_french.draw import Choices, Draw
from regard.data.corpora.english_french.join import align, english_text, french_text, settle
from regard.data.corpora.english_french.phrase import Phrase
from regard.data.corpora.english_french.word import CONTENT, BilingualPair

Pattern = Callable[[Draw], Phrase]
Level = Literal["full", "first"]  # first: fewer patterns and words, for a model that has a minute

STATEMENTS: tuple[Pattern, ...] = (
    statements.somebody_sleeps,
    statements.somebody_does_not_sleep,
    statements.somebody_never_sleeps,
    statements.somebody_sleeps_somewhere,
    statements.somebody_sleeps_somehow,
    statements.somebody_sleeps_sometime,
    statements.somebody_sees_something,
    statements.somebody_does_not_see_something,
    statements.somebody_never_sees_something,
    statements.somebody_no_longer_sees_something,
    statements.somebody_sees_nothing,
    statements.somebody_often_sees_something,
    statements.somebody_does_not_often_see_something,
    statements.somebody_sees_something_somehow,
    statements.somebody_sees_something_somewhere,
    statements.somebody_sees_something_sometime,
    statements.sometime_somebody_sees_something,
    statements.somebody_goes_somewhere,
    statements.somebody_comes_from_somewhere,
    statements.somebody_lives_in_a_country,
    statements.somebody_lives_in_a_city,
    statements.somebody_wakes_up,
    statements.somebody_does_not_wake_up,
    statements.somebody_obeys_somebody,
    statements.somebody_plays_a_game,
    statements.somebody_plays_an_instrument,
    statements.somebody_speaks_a_language,
    statements.somebody_puts_something_somewhere,
    statements.somebody_sings_with_somebody,
    statements.somebody_arrives_at_some_hour,
)
PRONOUNS: tuple[Pattern, ...] = (
    pronouns.somebody_sees_her,
    pronouns.somebody_does_not_see_her,
    pronouns.somebody_often_sees_her,
    pronouns.somebody_answers_her,
    pronouns.somebody_gives_something_to_somebody,
    pronouns.somebody_gives_something_to_her,
    pronouns.somebody_gives_it_to_somebody,
    pronouns.somebody_gives_it_to_her,
    pronouns.somebody_takes_something_and_sees_it,
    pronouns.something_is_small_but_it_is_fast,
)
DESCRIPTIONS: tuple[Pattern, ...] = (
    descriptions.something_is_small,
    descriptions.something_is_not_small,
    descriptions.something_is_small_and_green,
    descriptions.something_is_smaller_than_something,
    descriptions.somebody_is_taller_than_her,
    descriptions.something_is_less_or_as_big,
    descriptions.somebody_sees_the_biggest_thing,
    descriptions.somebody_is_a_doctor,
    descriptions.she_is_my_friend,
    descriptions.the_dog_of_somebody_sleeps,
    descriptions.somebody_sees_the_dog_of_somebody,
    descriptions.somebody_sees_the_door_of_something,
    descriptions.something_is_somewhere,
    descriptions.somebody_eats_some_bread,
    descriptions.somebody_sees_many_things,
    descriptions.somebody_sees_three_things,
    descriptions.the_three_cats_see_something,
    descriptions.each_cat_sleeps,
    descriptions.somebody_drinks_a_glass_of_water,
)
IDIOMS: tuple[Pattern, ...] = (
    idioms.somebody_is_hungry,
    idioms.somebody_is_twenty_years_old,
    idioms.it_is_cold,
    idioms.it_rains,
    idioms.it_is_three_o_clock,
    idioms.there_is_something_somewhere,
    idioms.there_are_three_things_somewhere,
    idioms.there_is_nothing_of_it_somewhere,
    idioms.somebody_needs_something,
    idioms.somebody_is_afraid_of_something,
    idioms.somebody_did_something_two_days_ago,
    idioms.somebody_sleeps_for_two_hours,
    idioms.somebody_will_see_something_in_two_days,
)
INFINITIVES: tuple[Pattern, ...] = (
    infinitives.somebody_can_see_something,
    infinitives.somebody_cannot_see_something,
    infinitives.somebody_can_see_her,
    infinitives.somebody_wants_to_see_something,
    infinitives.somebody_does_not_want_to_see_something,
    infinitives.somebody_wants_to_see_her,
    infinitives.somebody_is_going_to_see_something,
    infinitives.somebody_works_in_order_to_see_something,
    infinitives.it_is_easy_to_see_something,
)
QUESTIONS: tuple[Pattern, ...] = (
    questions.does_somebody_see_something,
    questions.does_somebody_not_see_something,
    questions.does_somebody_sleep,
    questions.does_somebody_see_her,
    questions.is_something_small,
    questions.can_somebody_see_something,
    questions.where_does_somebody_sleep,
    questions.where_does_somebody_see_something,
    questions.when_will_somebody_see_something,
    questions.why_does_somebody_see_something,
    questions.what_does_somebody_see,
    questions.whom_does_somebody_see,
    questions.who_sees_something,
    questions.which_thing_does_somebody_see,
    questions.how_many_things_does_somebody_see,
    questions.with_whom_does_somebody_sing,
    questions.how_old_is_somebody,
    questions.where_is_something,
)
RELATIVES: tuple[Pattern, ...] = (
    relatives.somebody_sees_the_man_who_sells_something,
    relatives.the_man_who_sells_something_sleeps,
    relatives.the_man_who_sees_something_sees_something,
    relatives.somebody_sees_something_that_somebody_bought,
    relatives.something_that_somebody_bought_is_small,
    relatives.somebody_sees_the_house_where_somebody_sleeps,
    relatives.somebody_sees_the_man_who_sees_her,
    relatives.somebody_sees_the_boy_to_whom_somebody_gave_something,
    relatives.sometime_the_man_who_sees_something_sees_something_somewhere,
)
COMPOUNDS: tuple[Pattern, ...] = (
    compounds.somebody_does_this_and_somebody_does_that,
    compounds.three_things_happen,
    compounds.somebody_does_this_because_somebody_does_that,
    compounds.sometime_somebody_does_this_because_of_that,
    compounds.somebody_thinks_that,
    compounds.somebody_thinks_that_this_and_that,
    compounds.if_this_then_that,
    compounds.that_if_this,
    compounds.when_this_then_that,
    compounds.somebody_and_somebody_see_something,
    compounds.somebody_and_somebody_are_small,
    compounds.somebody_sees_this_and_that,
    compounds.somebody_sees_three_kinds_of_things,
    compounds.somebody_sings_and_dances,
    compounds.open_the_door,
    compounds.let_us_open_the_door,
)

# the weight of a pattern that says little, or much at length; those with relative or several clauses weigh 2, others 1
WEIGHTS = {
    "it_is_three_o_clock": 0.002,
    "somebody_sleeps": 0.4,
    "somebody_does_not_sleep": 0.4,
    "somebody_never_sleeps": 0.6,
    "somebody_is_a_doctor": 0.08,
    "she_is_my_friend": 0.08,
    "somebody_is_hungry": 0.4,
    "somebody_is_twenty_years_old": 0.5,
    "somebody_sees_three_things": 2.0,
    "there_are_three_things_somewhere": 2.0,
    "it_is_cold": 0.2,
    "it_rains": 0.2,
    "how_old_is_somebody": 0.03,
    "where_is_something": 0.1,
    "sometime_the_man_who_sees_something_sees_something_somewhere": 6.0,
    "three_things_happen": 6.0,
    "sometime_somebody_does_this_because_of_that": 6.0,
    "somebody_thinks_that_this_and_that": 5.0,
}

# the patterns of a first course: each difficulty once or twice, short and long
FIRST: tuple[Pattern, ...] = (
    statements.somebody_sleeps_somewhere,
    statements.somebody_sees_something,
    statements.somebody_does_not_see_something,
    statements.somebody_never_sees_something,
    statements.somebody_often_sees_something,
    statements.somebody_sees_something_somewhere,
    statements.sometime_somebody_sees_something,
    statements.somebody_goes_somewhere,
    statements.somebody_comes_from_somewhere,
    statements.somebody_speaks_a_language,
    statements.somebody_plays_a_game,
    pronouns.somebody_sees_her,
    pronouns.somebody_does_not_see_her,
    pronouns.somebody_gives_something_to_somebody,
    descriptions.something_is_small,
    descriptions.something_is_not_small,
    descriptions.something_is_smaller_than_something,
    descriptions.somebody_sees_the_dog_of_somebody,
    descriptions.somebody_eats_some_bread,
    descriptions.somebody_sees_three_things,
    idioms.somebody_is_hungry,
    idioms.somebody_is_twenty_years_old,
    idioms.there_is_something_somewhere,
    infinitives.somebody_wants_to_see_something,
    infinitives.somebody_can_see_something,
    questions.does_somebody_see_something,
    questions.where_does_somebody_sleep,
    questions.who_sees_something,
    questions.is_something_small,
    relatives.the_man_who_sees_something_sees_something,
    relatives.somebody_sees_something_that_somebody_bought,
    compounds.somebody_does_this_and_somebody_does_that,
    compounds.somebody_does_this_because_somebody_does_that,
    compounds.somebody_thinks_that,
    compounds.three_things_happen,
)


@cache
def table() -> Mapping[str, Pattern]:
    """The patterns by name."""
    groups = (STATEMENTS, PRONOUNS, DESCRIPTIONS, IDIOMS, INFINITIVES, QUESTIONS, RELATIVES, COMPOUNDS)
    return {pattern.__name__: pattern for group in groups for pattern in group}


@cache
def weights(level: Level) -> tuple[float, ...]:
    """Running totals of the patterns' weights; at a level that doesn't have a pattern, it weighs nothing."""
    long = {pattern.__name__ for pattern in RELATIVES + COMPOUNDS}
    there = {pattern.__name__ for pattern in FIRST} if level == "first" else set(table())
    found = {name: WEIGHTS.get(name, 2.0 if name in long else 1.0) for name in table()}
    return tuple(accumulate(weight if name in there else 0.0 for name, weight in found.items()))


class Sentence:
    """One sentence of a pattern. English is written at once, since it decides the split; French when asked for."""

    __slots__ = ("lemmas", "line", "pattern", "phrase", "source")

    def __init__(self, pattern: str, draw: Draw) -> None:
        self.pattern = pattern
        self.phrase = table()[pattern](draw)
        self.line = settle(self.phrase.english)
        self.source = english_text(self.line.words)
        self.lemmas = frozenset([word.lemma for word in self.line.words if word.tag in CONTENT])

    def pair(self) -> BilingualPair:
        target = settle(self.phrase.french)
        return BilingualPair(
            self.source,
            french_text(target.words),
            tuple(self.line.words),
            tuple(target.words),
            align(self.line, target),
            self.pattern,
            self.lemmas,
        )


def compose(name: str, choices: Mapping[str, str]) -> BilingualPair:
    """The sentence of a pattern with choices by hand: `compose("somebody_sees_something", {"object noun": "cat"})`."""
    draw = Choices(choices)
    pair = Sentence(name, draw).pair()
    draw.check()
    return pair
