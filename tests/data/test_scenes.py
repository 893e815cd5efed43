"""The drawn scenes: what a caption says is read off the picture's plan by other code, and boxes off the pixels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from hashlib import sha256
from itertools import islice, product
from math import pi, prod
from pathlib import Path
from random import Random

import numpy as np
import pytest

from regard.data.canvas import Picture
from regard.data.corpora.scenes import Scenes
from regard.data.corpora.scenes.caption import Language, say_scene, write_caption
from regard.data.corpora.scenes.draw import TONES, draw, find_box, find_stamp
from regard.data.corpora.scenes.outline import CORNERS, FULL, UNIT, make_stamp
from regard.data.corpora.scenes.scene import (
    BULKS,
    COLOURS,
    RELATIONS,
    SHAPES,
    TEXTURES,
    Relation,
    Scene,
    Thing,
    choose_split,
    is_held_out,
    make_scene,
)
from regard.data.corpora.scenes.sketch import PlacedThing, Sketch
from regard.data.corpus import Box, CorpusSpec, Split
from regard.data.log import Log
from regard.data.sample import FormSpec
from regard.data.tokenizer import TokenizerSpec
from regard.errors import SpecError

SPLITS: tuple[Split, ...] = ("train", "validation", "test", "combinations")
LANGUAGES: tuple[Language, ...] = ("english", "french")


@cache
def some(split: Split, count: int = 400, size: int = 48) -> tuple[Sketch, ...]:
    return tuple(islice(Scenes.parse({"kind": "scenes", "size": size}).sketches(split), count))


def thing(text: str) -> Thing:
    """From `small red plain square`."""
    bulk, colour, texture, shape = text.split()
    return Thing(bulk, colour, texture, shape)  # type: ignore[arg-type]


def scene(*parts: str) -> Scene:
    """A thing, a relation, a thing, a relation, a thing, …"""
    return Scene(tuple(thing(part) for part in (parts[0], *parts[2::2])), parts[1::2])  # type: ignore[arg-type]


CAPTIONS = [
    (scene("medium red plain square"), "a red square", "un carré rouge"),
    (scene("medium orange plain star"), "an orange star", "une étoile orange"),
    (scene("small orange plain star"), "a small orange star", "une petite étoile orange"),
    (scene("large green striped cross"), "a large green striped cross", "une grande croix verte rayée"),
    (scene("large green striped heart"), "a large green striped heart", "un grand cœur vert rayé"),
    (scene("medium purple spotted arrow"), "a purple spotted arrow", "une flèche violette à pois"),
    (
        scene("small red plain square", "above", "medium green plain circle"),
        "a small red square above a green circle",
        "un petit carré rouge au-dessus d'un cercle vert",
    ),
    (
        scene("small blue plain arrow", "below", "large black striped star"),
        "a small blue arrow below a large black striped star",
        "une petite flèche bleue au-dessous d'une grande étoile noire rayée",
    ),
    (
        scene("small pink plain diamond", "left", "medium orange plain triangle"),
        "a small pink diamond to the left of an orange triangle",
        "un petit losange rose à gauche d'un triangle orange",
    ),
    (
        scene("medium yellow spotted circle", "right", "large purple plain diamond"),
        "a yellow spotted circle to the right of a large purple diamond",
        "un cercle jaune à pois à droite d'un grand losange violet",
    ),
    (
        scene("small black plain cross", "left", "medium blue plain cross", "front", "large red plain arrow"),
        "a small black cross to the left of a blue cross and in front of a large red arrow",
        "une petite croix noire à gauche d'une croix bleue et devant une grande flèche rouge",
    ),
    (
        scene(
            *("small red plain heart", "above", "medium green plain star", "right", "large blue spotted square"),
            *("behind", "medium orange striped circle"),
        ),
        "a small red heart above a green star, to the right of a large blue spotted square and behind an orange "
        "striped circle",
        "un petit cœur rouge au-dessus d'une étoile verte, à droite d'un grand carré bleu à pois et derrière un cercle "
        "orange rayé",
    ),
]


@pytest.mark.parametrize(("shown", "english", "french"), CAPTIONS)
def test_captions_are_right_in_both_languages(shown: Scene, english: str, french: str) -> None:
    assert write_caption(say_scene(shown, "english")) == english
    assert write_caption(say_scene(shown, "french")) == french


# a reader of captions that shares nothing with their writer
WORDS = {
    "english": {
        "things": rf"an? (?:(?P<bulk>small|large) )?(?P<colour>{'|'.join(COLOURS)})(?: (?P<texture>striped|spotted))? "
        rf"(?P<shape>{'|'.join(SHAPES)})",
        "relations": "above|below|to the left of|to the right of|in front of|behind",
        "last": "and",
    },
    "french": {
        "things": r"une? (?:(?P<bulk>petit|grand)e? )?"
        r"(?P<shape>cercle|carré|triangle|losange|étoile|croix|cœur|flèche) "
        r"(?P<colour>rouge|orange|jaune|vert|bleu|violet|rose|noir)(?:e|te)?(?: (?P<texture>rayée?|à pois))?",
        "relations": "au-dessus d'|au-dessous d'|à gauche d'|à droite d'|devant|derrière",
        "last": "et",
    },
}
FRENCH = {
    **dict(zip(["petit", "grand"], ["small", "large"], strict=True)),
    **dict(zip(["rouge", "orange", "jaune", "vert", "bleu", "violet", "rose", "noir"], COLOURS, strict=True)),
    **dict(zip(["cercle", "carré", "triangle", "losange", "étoile", "croix", "cœur", "flèche"], SHAPES, strict=True)),
    **{"rayé": "striped", "rayée": "striped", "à pois": "spotted"},
}


def read_caption(text: str, language: Language) -> Scene:
    """The scene that a caption tells of; a caption that the grammar doesn't allow ends the test."""
    words = WORDS[language]
    names = words["relations"].split("|")
    parts = re.split(rf"(?:^|, | {words['last']} |(?<=\w) )?({words['relations']}) ?", text)
    assert len(parts) // 2 < 2 or f" {words['last']} {parts[-2]}" in text, text
    things = []
    for part in parts[::2]:
        found = re.fullmatch(words["things"], part)
        assert found, (text, part)
        named = {name: FRENCH.get(word, word) for name, word in found.groupdict().items() if word}
        things.append(Thing(**{"bulk": "medium", "texture": "plain", **named}))  # type: ignore[arg-type]
    return Scene(tuple(things), tuple(RELATIONS[names.index(part)] for part in parts[1::2]))


def read_sketch(sketch: Sketch) -> Scene:
    """The scene that a plan shows, by the rules alone: places, radii and what hides what."""
    order = sorted(sketch.things, key=lambda placed: placed.radius)
    figure, grounds = order[0], order[1:]
    assert all(figure.radius + 8 <= ground.radius for ground in grounds)
    said = sorted((RELATIONS.index(relate(sketch, figure, ground)), n) for n, ground in enumerate(grounds))
    named = [figure, *(grounds[n] for _, n in said)]
    return Scene(tuple(placed.thing for placed in named), tuple(RELATIONS[number] for number, _ in said))


def relate(sketch: Sketch, figure: PlacedThing, ground: PlacedThing) -> Relation:
    one, two = find_box(figure, sketch.side), find_box(ground, sketch.side)
    down, across = ground.spot[0] - figure.spot[0], ground.spot[1] - figure.spot[1]
    rows, columns = max(one[0] - two[2], two[0] - one[2]), max(one[1] - two[3], two[1] - one[3])  # free between them
    if max(rows, columns) >= 1:
        upright = abs(down) > abs(across)
        assert (rows if upright else columns) >= 1 and 2 * min(abs(down), abs(across)) <= max(abs(down), abs(across))
        return ("above" if down > 0 else "below") if upright else ("left" if across > 0 else "right")
    return "front" if is_in_front(sketch, figure, ground) else "behind"


def is_in_front(sketch: Sketch, figure: PlacedThing, ground: PlacedThing) -> bool:
    """By the pixels: where both things are, the picture looks as if the figure, or the ground, were alone."""
    picture = draw(plain(sketch))
    both = show(sketch, figure)[1] & show(sketch, ground)[1]
    assert both.any()
    front = [(picture[both] == show(sketch, one)[0][both]).all() for one in (figure, ground)]
    assert front[0] != front[1]
    return front[0]


def plain(sketch: Sketch) -> Sketch:
    """The same things on white paper, without grain."""
    return replace(sketch, paper=(255, 255, 255), slope=(0, 0), roughness=0)


def show(sketch: Sketch, placed: PlacedThing) -> tuple[Picture, Picture]:
    """A thing alone on white paper, and which pixels it covers wholly."""
    stamp, (top, left, bottom, right) = find_stamp(placed, sketch.side), find_box(placed, sketch.side)
    covered = np.zeros((sketch.side, sketch.side), bool)
    covered[top:bottom, left:right] = stamp.clear[..., 0] == 0
    return draw(replace(plain(sketch), scene=Scene((placed.thing,), ()), things=(placed,))), covered


@pytest.mark.parametrize("size", [48, 64])
@pytest.mark.parametrize("split", ["train", "combinations"])
def test_a_picture_has_its_caption_and_no_other(split: Split, size: int) -> None:
    for sketch in some(split, 150, size):
        assert read_sketch(sketch) == sketch.scene
        for language in LANGUAGES:
            assert read_caption(write_caption(say_scene(sketch.scene, language)), language) == sketch.scene


def test_each_caption_is_of_one_scene() -> None:
    chance = Random(3).random
    scenes = {make_scene(1 + number % 4, chance) for number in range(4000)}
    for language in LANGUAGES:
        assert len({write_caption(say_scene(one, language)) for one in scenes}) == len(scenes)


@pytest.mark.parametrize("size", [48, 64])
def test_a_box_holds_what_the_thing_colours_and_nothing_else(size: int) -> None:
    for sketch in some("train", 100, size):
        for placed in sketch.things:
            rows, columns = np.nonzero((show(sketch, placed)[0] != 255).any(-1))
            assert find_box(placed, size) == (rows.min(), columns.min(), rows.max() + 1, columns.max() + 1)
            assert min(rows.min(), columns.min()) > 0 and max(rows.max(), columns.max()) < size - 1


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_content_word_has_the_box_of_its_thing(language: Language) -> None:
    corpus = Scenes(language=language, train=60)
    contents = {"size": 0, "colour": 0, "texture": 0, "shape": 0, "relation": 0}
    for sketch, boxed in zip(some("train"), corpus.list_boxes("train"), strict=False):
        things = [find_box(placed, 48) for placed in sketch.things]
        wanted = list(list_wanted(sketch.scene, things, language))
        found = [(kind, box) for kind, box in zip(boxed.kinds, boxed.boxes, strict=True) if kind or box]
        assert sorted(found) == sorted(wanted)
        assert boxed.text.replace(" ", "") == "".join(boxed.words)
        for kind, _ in wanted:
            contents[kind] += 1
        for word, found_kind in zip(boxed.words, boxed.kinds, strict=True):
            assert (found_kind is None) == (word in FUNCTION)
    assert min(contents.values()) > 10


FUNCTION = {"a", "an", "to", "the", "of", "in", "and", ",", "un", "une", "d'", "à", "et"}


def list_wanted(shown: Scene, things: list[Box], language: Language) -> Iterator[tuple[str, Box]]:
    for placed, box in zip(shown.things, things, strict=True):
        yield from [("colour", box), ("shape", box)]
        yield from [("size", box)] * (placed.bulk != "medium")
        yield from [("texture", box)] * (placed.texture != "plain")
    for one, two in zip(things[:1] * 3, things[1:], strict=False):
        yield "relation", (*(min(one[n], two[n]) for n in (0, 1)), *(max(one[n], two[n]) for n in (2, 3)))  # type: ignore[misc]


def test_what_is_half_hidden_still_shows_what_it_is() -> None:
    """About three tenths of a thing behind another are hidden, and its texture and its plain colour are both seen."""
    seen = 0
    for sketch in some("train", 1500):
        if "behind" in sketch.scene.relations:
            seen += 1
            figure = sketch.things[0]
            hidden = np.zeros((48, 48), np.int64)
            for placed in sketch.things[1:]:
                top, left, bottom, right = find_box(placed, 48)
                hidden[top:bottom, left:right] += FULL - find_stamp(placed, 48).clear[..., 0]
            top, left, bottom, right = find_box(figure, 48)
            tones = find_stamp(figure, 48).tones.astype(np.int64)
            visible = (tones * (FULL - hidden[top:bottom, left:right, None])).sum((0, 1)) / FULL
            assert 0.5 <= visible.sum() / tones.sum() <= 0.85
            assert visible[0] >= 4 * FULL and (figure.thing.texture == "plain" or visible[1] >= 2 * FULL)
    assert seen > 100


def test_shapes_are_as_large_as_geometry_says() -> None:
    radius = 400
    for shape in SHAPES:
        points = [(across * radius / 100, down * radius / 100) for across, down in CORNERS.get(shape, [])]
        turned = zip(points, points[1:] + points[:1], strict=True)
        area = abs(sum(x1 * y2 - x2 * y1 for (x1, y1), (x2, y2) in turned)) / 2 / UNIT**2
        area = area or pi * (radius / UNIT) ** 2 * (1 if shape == "circle" else 1.165)  # the heart's, numerically
        stamp = make_stamp(shape, radius, 0, 4, "plain", 0, 32)
        assert (FULL - stamp.clear).sum() / FULL == pytest.approx(area, rel=0.01), shape


def test_colours_are_told_apart_whatever_their_tint() -> None:
    for one, two in product(COLOURS, COLOURS):
        if one != two:
            apart = np.abs(np.array(TONES[one][0]) - np.array(TONES[two][0])).max()
            assert apart > 2 * 12 + 2 * 7, (one, two)  # tints and roughness at their largest


@pytest.mark.parametrize("language", ["english", "french"])
def test_words_give_back_every_caption(language: Language) -> None:
    """Else a caption that is right would never equal the scene's own."""
    scenes = Scenes(language=language)
    captions = [write_caption(say_scene(sketch.scene, language)) for sketch in islice(scenes.sketches("test"), 300)]
    tokenizer = TokenizerSpec(pieces="word").train(captions)
    assert any("," in caption for caption in captions)
    assert tokenizer.decode(tokenizer.encode(captions)) == captions


def test_no_scene_stands_in_two_splits() -> None:
    """A caption tells its split, whatever the seed; tens of thousands of scenes, and those of the streams."""
    chance = Random(7).random
    splits: dict[str, str] = {}
    for number in range(16_000):
        shown = make_scene(1 + number % 4, chance)
        caption = write_caption(say_scene(shown, "english"))
        assert splits.setdefault(caption, choose_split(shown)) == choose_split(shown)
    assert set(splits.values()) == set(SPLITS)
    for split in SPLITS:
        for seed, count in ((0, 400), (1, 50)):
            for sketch in islice(Scenes(seed=seed).sketches(split), count):
                caption = write_caption(say_scene(sketch.scene, "english"))
                assert splits.setdefault(caption, split) == split


def test_training_never_sees_the_combinations() -> None:
    held = {found for found in product(RELATIONS, COLOURS, SHAPES) if is_held_out(*found)}
    for place, names in enumerate((RELATIONS, COLOURS, SHAPES)):
        assert {found[place] for found in held} == set(names)  # each occurs among them
        for pair in product(RELATIONS, COLOURS, SHAPES):  # and none is missing from training with any other
            two = pair[:place] + pair[place + 1 :]
            assert sum(found[:place] + found[place + 1 :] == two for found in held) < len(names)
    for split in SPLITS:
        for sketch in some(split):
            shown = read_caption(write_caption(say_scene(sketch.scene, "english")), "english")
            pairs = zip(shown.relations, shown.things[1:], strict=True)
            combined = {(name, one.colour, one.shape) for name, ground in pairs for one in (shown.things[0], ground)}
            assert bool(combined & held) == (split == "combinations")


def test_there_are_millions_of_scenes() -> None:
    """Two shapes: three pairs of sizes; beside each other, or one before the other in another colour."""
    looks = len(COLOURS) * len(TEXTURES) * len(SHAPES)
    alone, two = 3 * looks, 3 * looks * (4 * looks + 2 * looks * 7 // 8)
    assert (alone, two) == (576, 635_904)
    three = prod((5, looks, looks, looks)) * 6  # four pairs of larger sizes beside a small one, one beside a medium one
    assert three > 10**8  # pairs of directions alone
    chance = Random(5).random
    drawn = [make_scene(3 + number % 2, chance) for number in range(5000)]
    assert len(set(drawn)) == len(drawn)


DIGESTS = {48: "dd7f46a0675de8cb", 64: "f9a002b21fa9f1a4"}


@pytest.mark.parametrize("size", [48, 64])
def test_pictures_are_the_same_bytes_everywhere(size: int) -> None:
    pictures = [draw(sketch) for split in SPLITS for sketch in some(split, 8, size)]
    assert {(picture.shape, picture.dtype.name) for picture in pictures} == {((size, size, 3), "uint8")}
    assert sha256(b"".join(picture.tobytes() for picture in pictures)).hexdigest()[:16] == DIGESTS[size]


@pytest.mark.parametrize("form", Scenes.gives)
def test_samples_have_their_form_and_the_same_seed_makes_the_same(form: str) -> None:
    corpus = Scenes(train=30, validation=5, test=0, combinations=5, fewest=2, most=3)
    assert corpus.splits() == ("train", "validation", "combinations")
    log = Log()
    first, again = (list(corpus.samples(form, "train", Path(), log)) for _ in range(2))
    other = list(corpus.replace(seed=1).samples(form, "train", Path(), log))
    assert len(first) == 30 and log.kept == 90
    assert not any(FormSpec.parse(form).find_fault(sample) for sample in first)
    assert all((one["picture"] == two["picture"]).all() for one, two in zip(first, again, strict=True))
    assert not any((one["picture"] == two["picture"]).all() for one, two in zip(first, other, strict=True))
    rest = [{name: value for name, value in sample.items() if name != "picture"} for sample in first]
    assert rest == [{name: value for name, value in sample.items() if name != "picture"} for sample in again]


def test_another_language_has_the_same_pictures() -> None:
    english, french = (list(Scenes(train=40, language=language).list_boxes("train")) for language in LANGUAGES)
    samples = list(Scenes(train=40).samples("captions", "train", Path(), Log()))
    labels = list(Scenes(train=40, language="french").samples("images", "train", Path(), Log()))
    for one, two, sample, label in zip(english, french, samples, labels, strict=True):
        assert (one.picture == two.picture).all() and (one.picture == sample["picture"]).all()
        assert [one.text] == sample["texts"] and one.text != two.text
        assert label["label"] == two.words[two.kinds.index("shape")]


def test_every_number_of_shapes_is_as_frequent() -> None:
    counts = np.bincount([len(sketch.things) for sketch in some("train", 1500)], minlength=5)
    assert counts[0] == 0 and counts[1:].min() > 300
    only = islice(Scenes(fewest=2, most=2).sketches("combinations"), 20)
    assert {len(sketch.things) for sketch in only} == {2}


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"fewest": 3, "most": 2}, "fewest 3 is above most 2"),
        ({"most": 1}, "combinations: 0"),
        ({"size": 32}, "size"),
        ({"most": 5}, "most"),
    ],
)
def test_what_cannot_be_drawn_is_refused(settings: dict[str, int], told: str) -> None:
    with pytest.raises(SpecError, match=told):
        CorpusSpec.parse({"kind": "scenes", **settings})


def test_one_shape_alone_needs_no_combinations() -> None:
    corpus = Scenes(most=1, combinations=0, train=20, validation=3, test=3)
    assert corpus.splits() == ("train", "validation", "test")
    assert all(len(boxed.text.split()) <= 5 for boxed in corpus.list_boxes("train"))
    assert {BULKS.index(sketch.things[0].thing.bulk) for sketch in islice(corpus.sketches("train"), 60)} == {0, 1, 2}
