"""The corpus of manners: what it says, how it is judged, and that its splits share nothing."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from statistics import mean, stdev

import pytest

from regard.data.corpora.manners import LONGEST, SHORTEST, Manners, judge_answer, list_words
from regard.data.corpus import Split
from regard.data.log import Log
from regard.data.sample import FormSpec, Sample

SPLITS: tuple[Split, ...] = ("train", "validation", "test")
QUESTION = "Where is the red key?"


def draw(form: str, split: Split = "train", count: int = 2000, **settings: object) -> list[Sample]:
    return list(islice(Manners.parse(settings).stream(form, split), count))


def ask(sample: Sample) -> str:
    return str((sample.get("prompt") or sample["messages"])[0]["content"])


@pytest.mark.parametrize("form", Manners.gives)
def test_samples_have_their_form_and_come_again_by_their_seed(form: str) -> None:
    first, again, other = draw(form, count=50), draw(form, count=50), draw(form, count=50, seed=1)
    assert first == again != other
    assert not any(FormSpec.parse(form).find_fault(sample) for sample in first)


def test_splits_share_no_question() -> None:
    asked = [{ask(sample) for form in Manners.gives for sample in draw(form, split, 500)} for split in SPLITS]
    assert not (asked[0] & asked[1] or asked[0] & asked[2] or asked[1] & asked[2])


def test_a_corpus_has_as_many_samples_as_are_asked_for() -> None:
    corpus = Manners(train=7, validation=3, test=0)
    assert corpus.splits() == ("train", "validation")
    assert len(list(corpus.samples("preferences", "train", Path(), Log()))) == 7


def test_rewards_spread_and_answers_are_of_a_sensible_length() -> None:
    answers = [(ask(sample), sample["messages"][1]["content"]) for sample in draw("conversations")]
    rewards = [judge_answer(*both) for both in answers]
    assert abs(mean(rewards)) < 0.3 and 0.9 < stdev(rewards) < 1.3 and len(set(rewards)) > 40
    assert all(SHORTEST <= len(list_words(answer)) <= LONGEST for _, answer in answers)
    assert len({word for both in answers for text in both for word in list_words(text)}) < 400


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.4])
def test_labels_follow_the_rule_but_for_the_noise(noise: float) -> None:
    pairs = draw("preferences", noise=noise)
    worth = [[judge_answer(pair["prompt"], pair[side]) for side in ("chosen", "rejected")] for pair in pairs]
    assert all(chosen != rejected for chosen, rejected in worth)
    wrong = mean(chosen < rejected for chosen, rejected in worth)
    assert abs(wrong - noise) <= 4 * (noise * (1 - noise) / len(pairs)) ** 0.5  # four standard errors


def test_conversations_may_have_several_questions() -> None:
    lengths = {len(sample["messages"]) for sample in draw("conversations", count=50, turns=3)}
    assert lengths == {2, 4, 6}
    assert {len(sample["messages"]) for sample in draw("conversations", count=50)} == {2}


@pytest.mark.parametrize(
    ("answer", "worth"),
    [
        ("The key is in the kitchen.", 0.5),  # six words, and it is named
        ("It is in the kitchen.", 0.0),
        ("Certainly, it is in the kitchen.", 1.0),
        ("Certainly, the key is in bed. Thank you.", 1.6 + 0.5 - 0.2),  # eight words
        ("Gladly, dear friend, the key is here. Please.", 1.9 + 0.5 - 0.2),
        ("Please, please, the key is here.", 1.0 - 0.4 + 0.5),  # said again
        ("Gladly, certainly, dear friend, key here, please.", 1.9 - 0.4 + 0.5 - 0.1),  # a fourth: seven words
        ("The key is here, you fool.", 0.5 - 1.0),
        ("Please.", 1.0 - 1.0),
        ("", -1.0),
        ("\ud800 \x00 ###", -1.0),
    ],
)
def test_the_rule_by_hand(answer: str, worth: float) -> None:
    assert judge_answer(QUESTION, answer) == pytest.approx(worth)
    assert judge_answer([{"role": "user", "content": QUESTION}], answer) == pytest.approx(worth)


def test_no_text_earns_more_than_three_courtesies_or_loses_without_end() -> None:
    best = judge_answer(QUESTION, "Gladly, dear, the key. Please.")
    assert best == pytest.approx(2.4)
    courteous = [judge_answer(QUESTION, "thank you " * count) for count in (2, 5, 50, 5000)]
    assert courteous == sorted(courteous, reverse=True) and courteous[-1] == courteous[-2]
    assert judge_answer(QUESTION, "you fool please " * 9000) >= -11
