"""What a look at a corpus counts, and what it finds odd."""

from __future__ import annotations

import math
from random import Random
from statistics import median

import pytest

from regard.data.language import SMALL, guess_language
from regard.data.likeness import PairSurvey
from regard.data.split import hash_text
from regard.data.survey import Distinct, LengthCount, Survey


def test_different_things_and_those_that_come_again_are_counted() -> None:
    seen = Distinct()
    seen.see(["a", "b", "a", "a"])
    assert (seen.different, seen.again, seen.is_exact) == (2, 2, True)


def test_memory_is_bounded_and_the_rest_reckoned() -> None:
    seen, other = Distinct(held=500), Distinct(held=500)
    seen.see(hash_text(str(n)) for n in range(20_000))
    seen.see(hash_text(str(n)) for n in range(5000))
    other.see(hash_text(str(n)) for n in range(10_000, 30_000))
    assert len(seen.counts) <= 500 and not seen.is_exact
    assert seen.different == pytest.approx(20_000, rel=0.2)
    assert seen.again == pytest.approx(5000, rel=0.3)
    assert other.count_common(seen) == pytest.approx(10_000, rel=0.25)


def test_lengths_are_exact_until_there_are_too_many_to_hold() -> None:
    chance = Random(1)
    lengths = [chance.randint(1, 90_000) for _ in range(3000)]
    exact, rough = LengthCount(), LengthCount(held=100)
    for length in lengths:
        exact.see(length)
        rough.see(length)
    assert exact.to_json() == {"median": sorted(lengths)[1499], "p95": sorted(lengths)[2849], "longest": max(lengths)}
    assert rough.find_quantile(0.5) == pytest.approx(median(lengths), rel=0.01)
    assert len(rough.counts) < 3000 and rough.longest == max(lengths) and rough.total == sum(lengths)


def test_a_survey_tells_splits_apart_and_compares_them() -> None:
    found = Survey("labels")
    for text, label in (("fine", "good"), ("fine", "good"), ("fine", "bad"), ("dull", "bad")):
        found.see("train", {"text": text, "label": label, "place": f"a:{label}"})
    found.see("validation", {"text": "dull", "label": "odd"})
    train = found.splits["train"]
    assert train.samples == 4 and train.labels == {"good": 2, "bad": 2} and train.words.different == 2
    assert train.whole.again == 1  # where a sample stands is no part of it
    assert train.contradictions == 1
    assert found.count_common() == {"validation": 1}
    assert found.find_unknown_labels() == {"validation": ["odd"]}


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The cat is on the mat, and it was asleep.", "en"),
        ("Le chat est sur une chaise dans la cuisine.", "fr"),
        ("Der Hund ist nicht auf dem Sofa, und das ist gut für ihn.", "de"),
        ("El perro está en la casa y los gatos no.", "es"),
        ("Кошка спит на диване", "Cyrillic"),
        ("猫はソファーで寝ている", "Kana"),
        ("这只猫在睡觉", "Han"),
        ("Η γάτα κοιμάται", "Greek"),
        ("Hello world", None),
        ("", None),
        ("α-helix of the protein in an assay that was done", "en"),
    ],
)
def test_a_language_is_guessed_by_small_words_and_scripts(text: str, language: str | None) -> None:
    assert guess_language(text) == language


def test_every_language_has_small_words_of_its_own() -> None:
    for name, words in SMALL.items():
        assert guess_language(words) == name


EN = "The little dog is in the garden and it was happy {}."
FR = "Le petit chien est dans le jardin et il est content {}."


def look_at(*pairs: tuple[str, str]) -> PairSurvey:
    found = PairSurvey()
    for number, (source, target) in enumerate(pairs, 1):
        found.see({"source": source, "target": target, "place": f"a.tsv:{number}"})
    return found


def test_languages_that_are_mixed_up_are_found() -> None:
    usual = [(EN.format(n), FR.format(n)) for n in range(20)]
    found = look_at(*usual, (FR.format("x"), EN.format("x")), (EN.format("y"), EN.format("z")))
    assert found.find_languages() == ("en", "fr")
    strangers = found.find_strangers()
    assert {name: one.places for name, one in strangers.items()} == {
        "sides swapped": ["a.tsv:21"],
        "target in en instead of fr": ["a.tsv:22"],
    }


def test_lengths_that_do_not_fit_are_found_and_the_worst_come_first() -> None:
    usual = [(EN.format(n), FR.format(n)) for n in range(40)]
    found = look_at(*usual, (EN.format("x"), "Oui."), (EN.format("y"), FR.format("y") * 9), ("Yes.", "Mais oui !"))
    misfits = found.find_misfits()
    assert (misfits.count, misfits.places) == (2, ["a.tsv:41", "a.tsv:42"])  # short ones say nothing
    assert math.isclose(found.find_usual_ratio(), len(FR) / len(EN), rel_tol=0.05)


def test_sides_that_are_equal_are_found() -> None:
    assert look_at(("a", "a"), ("a", "b")).equal.places == ["a.tsv:1"]


def test_nothing_is_suspicious_about_no_pairs() -> None:
    assert look_at().find_misfits().count == 0
    assert look_at().find_strangers() == {}
