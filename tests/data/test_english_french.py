"""The built-in corpus: its French is checked pattern by pattern, against sentences read by hand.

`english_french_sentences.txt` holds two sentences for each pattern: the pattern, the choices that make the sentence,
English, French, with tabs between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import islice, pairwise
from pathlib import Path

import pytest

from regard.data.corpora.english_french import BilingualPair as Pair
from regard.data.corpora.english_french import Split, Word, lemmas, pairs, patterns
from regard.data.corpora.english_french.agreement import four
from regard.data.corpora.english_french.conjugation import conjugate
from regard.data.corpora.english_french.inflection import add_degree, past, with_s
from regard.data.corpora.english_french.lexicon import lexicon
from regard.data.corpora.english_french.numeral import in_english, in_french
from regard.data.corpora.english_french.pattern import FIRST, compose
from regard.data.corpora.english_french.stream import is_held_out, sentences
from regard.data.corpora.english_french.word import CONTENT, TAGS

SENTENCES = [
    line.split("\t")
    for line in (Path(__file__).parent / "english_french_sentences.txt").read_text(encoding="utf-8").splitlines()
]
SPLITS: tuple[Split, ...] = ("train", "validation", "test", "combinations")


def made(pattern: str, choices: str) -> Pair:
    """From `object noun=cat, verb=like`."""
    named = dict(choice.split("=") for choice in choices.split(", ") if choice)
    return compose(pattern, named)


@cache
def some(split: Split, seed: int = 0) -> tuple[Pair, ...]:
    """The first pairs of a stream, more of those that are quick to find."""
    count = {"train": 40_000, "validation": 500, "test": 500, "combinations": 1500}[split] if seed == 0 else 300
    return tuple(islice(pairs(split, seed), count))


@pytest.mark.parametrize(("pattern", "choices", "english", "french"), SENTENCES)
def test_each_pattern_is_right_in_both_languages(pattern: str, choices: str, english: str, french: str) -> None:
    pair = made(pattern, choices)
    assert (pair.source, pair.target) == (english, french)


def test_each_pattern_has_two_sentences() -> None:
    counts = Counter(pattern for pattern, *_ in SENTENCES)
    assert {pattern: count for pattern, count in counts.items() if count >= 2}.keys() == set(patterns())
    assert len({english for *_, english, _ in SENTENCES}) == len(SENTENCES)


SEES = "somebody_sees_something"
HARD = [
    (SEES, "subject pronoun=I, verb=like, object noun=cat, object adjective=green", "J'aime le chat vert."),
    (SEES, "subject pronoun=she, object noun=cat, object adjective=small", "Elle voit le petit chat."),
    (SEES, "subject pronoun=I, object noun=man, object determiner=a, object adjective=old", "Je vois un vieil homme."),
    (SEES, "subject pronoun=I, object noun=friend, object determiner=this, object adjective=new",
     "Je vois ce nouvel ami."),
    (SEES, "subject pronoun=I, object noun=tree, object adjective=beautiful", "Je vois le bel arbre."),
    (SEES, "subject pronoun=I, object noun=axe, object determiner=my", "Je vois ma hache."),
    (SEES, "subject pronoun=I, object noun=school, object determiner=my", "Je vois mon école."),
    (SEES, "subject pronoun=I, object noun=horse, object number=plural, object adjective=white, object determiner=some",
     "Je vois des chevaux blancs."),
    (SEES, "subject pronoun=I, object noun=cat, object number=plural, object adjective=small, object determiner=some",
     "Je vois de petits chats."),
    ("somebody_does_not_see_something", "subject pronoun=I, verb=have, object noun=apple, object determiner=a",
     "Je n'ai pas de pomme."),
    ("somebody_sees_her", "subject pronoun=I, object pronoun=she", "Je la vois."),
    ("somebody_sees_her", "subject pronoun=I, object pronoun=she, tense=past", "Je l'ai vue."),
    ("somebody_sees_her", "subject pronoun=I, object pronoun=they, tense=past", "Je les ai vus."),
    ("somebody_gives_it_to_her", "subject pronoun=I, receiver pronoun=he", "Je le lui donne."),
    ("somebody_gives_it_to_her", "subject pronoun=he, receiver pronoun=I, tense=past", "Il me l'a donné."),
    ("somebody_eats_some_bread", "subject pronoun=she, object noun=bread", "Elle mange du pain."),
    ("somebody_eats_some_bread", "subject pronoun=she, verb=drink, object noun=water", "Elle boit de l'eau."),
    ("somebody_eats_some_bread", "subject pronoun=she, object noun=bread, polarity=not", "Elle ne mange pas de pain."),
    ("somebody_sleeps", "subject pronoun=she, verb=arrive, tense=past", "Elle est arrivée."),
    ("somebody_sleeps", "subject pronoun=they, verb=die, tense=past", "Ils sont morts."),
    ("somebody_is_hungry", "subject pronoun=I", "J'ai faim."),
    ("somebody_sees_three_things", "subject pronoun=we, object noun=cow, object count=21",
     "Nous voyons vingt et une vaches."),
    ("something_that_somebody_bought_is_small",
     "relative noun=apple, relative verb=eat, relative number=plural, relative subject pronoun=I, relative tense=past",
     "Les pommes que j'ai mangées sont petites."),
    ("she_is_my_friend", "subject pronoun=she, noun=friend, determiner=my", "C'est mon amie."),
    ("if_this_then_that",
     "kind=intransitive, verb=leave, subject pronoun=he, second kind=intransitive, second verb=cry, "
     "second subject pronoun=she", "S'il part, elle pleurera."),
    ("something_is_small_and_green", "subject noun=man, adjective=old, second adjective=intelligent",
     "L'homme est vieux et intelligent."),
    ("something_is_smaller_than_something", "subject noun=book, adjective=good, other noun=article",
     "Le livre est meilleur que l'article."),
    ("somebody_plays_a_game", "subject pronoun=I, game=football, place noun=park", "Je joue au football dans le parc."),
    ("it_is_cold", "where=city, city=Paris, time=now", "Il fait froid à Paris maintenant."),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "choices", "french"), HARD)
def test_what_makes_french_hard_is_right(pattern: str, choices: str, french: str) -> None:
    assert made(pattern, choices).target == french


def test_the_tutorial_sentence_has_its_gold_alignment() -> None:
    pair = made(SEES, "subject pronoun=I, verb=like, object noun=cat, object adjective=green")
    assert (pair.source, pair.target) == ("I like the green cat.", "J'aime le chat vert.")
    words = [(pair.source_words[here].text, pair.target_words[there].text) for here, there in pair.alignment]
    assert words == [("I", "J'"), ("like", "aime"), ("the", "le"), ("green", "vert"), ("cat", "chat"), (".", ".")]
    assert [word.tag for word in pair.target_words] == ["PRON", "VERB", "DET", "NOUN", "ADJ", "PUNCT"]
    assert pair.target_words[0] == Word("J'", "PRON", "je")
    assert pair.lemmas == {"like", "green", "cat"}


def test_a_contracted_word_is_aligned_to_both_of_its_parts() -> None:
    pair = made("somebody_comes_from_somewhere", "subject pronoun=he, place noun=garden")
    assert pair.target == "Il vient du jardin."
    assert {(2, 2), (3, 2)} <= set(pair.alignment)  # from and the: du


def test_a_choice_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="object noun: unicorn"):
        made(SEES, "object noun=unicorn")
    with pytest.raises(ValueError, match="no slot asked for colour"):
        made(SEES, "colour=red")


@pytest.mark.parametrize(
    ("verb", "present", "future", "participle"),
    [
        ("aimer", "aime aimes aime aimons aimez aiment", "aimera", "aimé"),
        ("manger", "mange manges mange mangeons mangez mangent", "mangera", "mangé"),
        ("commencer", "commence commences commence commençons commencez commencent", "commencera", "commencé"),
        ("acheter", "achète achètes achète achetons achetez achètent", "achètera", "acheté"),
        ("appeler", "appelle appelles appelle appelons appelez appellent", "appellera", "appelé"),
        ("préférer", "préfère préfères préfère préférons préférez préfèrent", "préférera", "préféré"),
        ("nettoyer", "nettoie nettoies nettoie nettoyons nettoyez nettoient", "nettoiera", "nettoyé"),
        ("envoyer", "envoie envoies envoie envoyons envoyez envoient", "enverra", "envoyé"),
        ("finir", "finis finis finit finissons finissez finissent", "finira", "fini"),
        ("vendre", "vends vends vend vendons vendez vendent", "vendra", "vendu"),
        ("comprendre", "comprends comprends comprend comprenons comprenez comprennent", "comprendra", "compris"),
        ("ouvrir", "ouvre ouvres ouvre ouvrons ouvrez ouvrent", "ouvrira", "ouvert"),
        ("recevoir", "reçois reçois reçoit recevons recevez reçoivent", "recevra", "reçu"),
        ("peindre", "peins peins peint peignons peignez peignent", "peindra", "peint"),
        ("connaître", "connais connais connaît connaissons connaissez connaissent", "connaîtra", "connu"),
        ("écrire", "écris écris écrit écrivons écrivez écrivent", "écrira", "écrit"),
        ("sourire", "souris souris sourit sourions souriez sourient", "sourira", "souri"),
        ("mourir", "meurs meurs meurt mourons mourez meurent", "mourra", "mort"),
        ("pouvoir", "peux peux peut pouvons pouvez peuvent", "pourra", "pu"),
        ("être", "suis es est sommes êtes sont", "sera", "été"),
    ],
)
def test_verbs_are_conjugated(verb: str, present: str, future: str, participle: str) -> None:
    table = conjugate(verb)
    assert (" ".join(table.present), table.future[2], table.participle) == (present, future, participle)


def test_verbs_of_motion_and_reflexive_verbs_take_etre() -> None:
    assert conjugate("arriver").auxiliary == conjugate("laver", reflexive=True).auxiliary == "être"
    assert conjugate("laver").auxiliary == "avoir"


def test_an_unknown_ending_is_refused() -> None:
    with pytest.raises(ValueError, match="conclure"):
        conjugate("conclure")


@pytest.mark.parametrize(
    ("number", "english", "french"),
    [
        (1, "one", "une"), (8, "eight", "huit"), (16, "sixteen", "seize"), (17, "seventeen", "dix-sept"),
        (21, "twenty-one", "vingt et une"), (22, "twenty-two", "vingt-deux"), (61, "sixty-one", "soixante et une"),
        (70, "seventy", "soixante-dix"), (71, "seventy-one", "soixante et onze"), (77, "seventy-seven",
        "soixante-dix-sept"), (80, "eighty", "quatre-vingts"), (81, "eighty-one", "quatre-vingt-une"),
        (90, "ninety", "quatre-vingt-dix"), (91, "ninety-one", "quatre-vingt-onze"),
        (99, "ninety-nine", "quatre-vingt-dix-neuf"), (100, "one hundred", "cent"), (200, "two hundred", "deux cents"),
        (301, "three hundred and one", "trois cent une"),
    ],
)  # fmt: skip
def test_numbers_are_written_in_words(number: int, english: str, french: str) -> None:
    assert (" ".join(in_english(number)), " ".join(in_french(number, feminine=True))) == (english, french)


@pytest.mark.parametrize(
    "forms",
    [
        "vert verts verte vertes", "beau beaux belle belles", "vieux vieux vieille vieilles", "bon bons bonne bonnes",
        "blanc blancs blanche blanches", "heureux heureux heureuse heureuses", "actif actifs active actives",
        "royal royaux royale royales", "cher chers chère chères", "frais frais fraîche fraîches",
        "italien italiens italienne italiennes", "gentil gentils gentille gentilles", "bleu bleus bleue bleues",
        "rouge rouges rouge rouges", "jaloux jaloux jalouse jalouses", "public publics publique publiques",
    ],
)  # fmt: skip
def test_adjectives_agree(forms: str) -> None:
    assert " ".join(four(forms.split(maxsplit=1)[0])) == forms


def test_english_is_inflected() -> None:
    assert [with_s(word) for word in ("cat", "box", "city", "boy", "wash", "tomato")] == [
        "cats", "boxes", "cities", "boys", "washes", "tomatoes",
    ]  # fmt: skip
    assert [past(verb) for verb in ("like", "cry", "stop", "play", "visit", "look")] == [
        "liked", "cried", "stopped", "played", "visited", "looked",
    ]  # fmt: skip
    assert [add_degree(word, "er") for word in ("small", "big", "happy", "simple")] == [
        "smaller",
        "bigger",
        "happier",
        "simpler",
    ]


@pytest.mark.parametrize("count", [50_000, pytest.param(300_000, marks=pytest.mark.long)])
def test_one_english_sentence_has_one_translation(count: int) -> None:
    translations: dict[str, str] = {}
    for sentence in islice(sentences("functional", "full"), count):
        pair = sentence.pair()
        assert translations.setdefault(pair.source, pair.target) == pair.target
    assert len(translations) > 0.95 * count


def test_one_english_word_has_one_french_word() -> None:
    entries = lexicon()
    seen: dict[tuple[str, str], str] = {}
    nouns = [noun for group in entries.nouns.values() for noun in group]
    words = [(noun.lemma, noun.french[0]) for noun in nouns]
    words += [(adjective.lemma, adjective.french[0]) for adjective in entries.adjectives]
    words += [(str(verb), verb.infinitive) for verb in entries.verbs["transitive"] + entries.verbs["intransitive"]]
    for lemma, form in words:
        assert seen.setdefault((lemma, form.word.tag), form.word.text) == form.word.text


def bounded(pair: Pair) -> bool:
    return all(
        0 <= here < len(pair.source_words) and 0 <= there < len(pair.target_words) for here, there in pair.alignment
    )


@pytest.mark.parametrize("split", SPLITS)
def test_words_are_tagged_and_content_is_aligned(split: Split) -> None:
    for pair in some(split)[:2000]:
        assert bounded(pair) and pair.alignment == tuple(sorted(set(pair.alignment)))
        assert {word.tag for word in pair.source_words + pair.target_words} <= TAGS
        here, there = {place for place, _ in pair.alignment}, {place for _, place in pair.alignment}
        loose = [word for place, word in enumerate(pair.source_words) if place not in here and word.tag in CONTENT]
        loose += [word for place, word in enumerate(pair.target_words) if place not in there and word.tag in CONTENT]
        assert not loose, pair


def test_text_is_the_words_joined() -> None:
    for pair in some("train")[:2000]:
        french = " ".join(word.text for word in pair.target_words).replace("' ", "'")
        assert pair.target == french.replace(" .", ".").replace(" ,", ",")
        assert pair.source[0].isupper() and pair.target[0].isupper()
        assert pair.target.endswith(" ?") == pair.source.endswith("?")


def pieces(pair: Pair) -> Iterator[tuple[str, str]]:
    words = [word.text.lower() for word in pair.target_words]
    return pairwise(words)


def test_nothing_is_left_to_elide_or_contract() -> None:
    silent = ("le", "la", "de", "je", "ne", "me", "se", "que", "ma", "sa")
    aspirated = (
        "haricot",
        "homard",
        "hibou",
        "hamster",
        "héros",
        "hache",
        "harpe",
        "haut",
        "hockey",
        "handball",
        "huit",
    )
    for pair in some("train")[:20_000]:
        for word, following in pieces(pair):
            vowel = following[0] in "aâàeéèêiîoôuœh" and not following.startswith(aspirated)
            assert not (word in silent and vowel), pair.target
            assert word != "de" or following not in ("des", "du"), pair.target
            assert (word, following) != ("si", "il"), pair.target


def test_splits_share_no_sentence_whatever_the_seed() -> None:
    found = [{pair.source for pair in some(split) + some(split, 1)} for split in SPLITS]
    assert sum(map(len, found)) == len(set().union(*found))


def test_a_stream_is_the_same_again_and_never_repeats() -> None:
    first = some("train")
    assert list(islice(pairs("train"), 500)) == list(first[:500])
    assert len({pair.source for pair in first}) == len(first)
    assert [pair.source for pair in some("train", 1)] != [pair.source for pair in first[:300]]


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(ValueError, match="none of train, validation, test, combinations"):
        next(pairs("dev"))  # type: ignore[arg-type]


def test_training_never_sees_a_combination_that_is_held_out() -> None:
    for split in SPLITS:
        for pair in some(split)[:2000]:
            assert any(is_held_out(pair.pattern, lemma) for lemma in pair.lemmas) == (split == "combinations")


def test_training_still_sees_every_pattern_and_every_word() -> None:
    train = some("train")
    assert {pair.pattern for pair in train} == set(patterns())
    seen = {word.lemma for pair in train for word in pair.source_words if word.tag != "PUNCT"}
    assert seen == lemmas()
    for pair in some("combinations"):
        assert pair.lemmas <= seen


def test_the_corpus_is_large_and_its_sentences_differ_in_length() -> None:
    entries = lexicon()
    assert len(patterns()) == len(set(patterns())) >= 60
    assert len(lemmas()) >= 400
    assert len({noun.lemma for group in entries.nouns.values() for noun in group}) >= 200
    assert len({verb.lemma for group in entries.verbs.values() for verb in group}) >= 90
    assert len({adjective.lemma for adjective in entries.adjectives}) >= 70
    lengths = [len(pair.source_words) for pair in some("train")]
    assert min(lengths) <= 4 and max(lengths) >= 25
    assert sum(length >= 15 for length in lengths) > 0.1 * len(lengths)


def test_the_first_level_is_a_smaller_language_with_the_same_splits() -> None:
    first = list(islice(pairs("train", 0, "first"), 3000))
    whole = list(islice(pairs("train", 0), 3000))
    known = [{lemma for pair in found for lemma in pair.lemmas} for found in (first, whole)]
    assert len(known[0]) < len(known[1]) / 2
    assert {pair.pattern for pair in first} <= {pattern.__name__ for pattern in FIRST}
    tested = {pair.source for pair in islice(pairs("test", 0, "first"), 500)}
    assert not tested & {pair.source for pair in first}
    assert {"cat", "green", "like"} <= known[0]
