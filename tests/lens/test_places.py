"""Attention over a picture: which weights go where, in the terminal, in files and in the page."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from PIL import Image

from regard import fit, load, preset
from regard.core.grid import Grid
from regard.core.inputs import Inputs
from regard.decode.reading import Pictured, Reading, Strip
from regard.errors import InputError
from regard.lens.choice import choose_weights
from regard.lens.flow import attention_rollout
from regard.lens.look import Look
from regard.lens.places import NIGHT, light_heads, light_picture, light_places
from regard.lens.terminal import draw_grid, draw_sheet
from regard.runs.align import align
from tests.lens.screen import show

if TYPE_CHECKING:
    from playwright.sync_api import Browser

WORDS = ("▁a", "▁red", "▁square", "[EOS]")
CROSS = "decoder.blocks.0.cross.weights"
HALVES = Path(__file__).parent.parent / "fixtures/pictures/halves.npz"


def draw_square() -> np.ndarray:
    picture = np.full((24, 36, 3), 230, np.uint8)
    picture[6:18, 6:18] = (200, 30, 30)
    return picture


def caption() -> Look:
    """A Transformer that writes about a picture of 3 × 3 places and a class token."""
    torch.manual_seed(0)
    encoder = preset("vit-tiny", width=16, heads=2, depth=1, image=24, patch=8, channels=3).encoder
    writer = preset("transformer-tiny", width=16, heads=2, depth=1, vocabulary=9)
    model = writer.replace(encoder=encoder, share=False).build().eval()
    assert encoder is not None and encoder.embedding.grid is not None
    grid = encoder.embedding.grid
    read = Strip(("[BOS]", *WORDS[:-1]), (True, False, False, False))
    reading = Reading(
        Inputs(torch.tensor([[1, 4, 5, 6]]), memory=Inputs(torch.rand(1, 3, 24, 24))),
        read,
        source=Strip.of_grid(grid),
        written=Strip(WORDS, (False, False, False, True)),
        targets=dict.fromkeys(range(4), 4),
        text="a red square",
        pictured=Pictured(draw_square(), grid, "source"),
    )
    return Look(model, reading)


def classify(depth: int = 2) -> Look:
    torch.manual_seed(0)
    model = preset("vit-tiny", width=16, heads=2, depth=depth, image=24, patch=8, channels=3).build().eval()
    assert model.spec.encoder is not None and model.spec.encoder.embedding.grid is not None
    grid = model.spec.encoder.embedding.grid
    inputs = Inputs(torch.rand(1, 3, 24, 24))
    pictured = Pictured(draw_square(), grid, "target")
    return Look(model, Reading(inputs, Strip.of_grid(grid), targets={0: None}, text="a.png", pictured=pictured))


def test_each_word_has_the_weights_of_its_places() -> None:
    look = caption()
    weights = look.weights(CROSS)[CROSS].mean(0)
    lit = light_places(look, look.place(CROSS), weights)
    assert lit is not None and lit.labels == ["a", "red", "square", "[EOS]"]
    assert lit.maps.shape == (4, 3, 3)
    assert torch.equal(lit.maps[2, 1, 2], weights[2, 1 + 1 * 3 + 2])  # the class token stands before the places
    own = look.place("decoder.blocks.0.mix.weights")
    assert light_places(look, own, torch.rand(4, 4)) is None


def test_of_places_that_look_at_each_other_the_class_token_speaks() -> None:
    look = classify()
    name = "encoder.blocks.1.mix.weights"
    weights = look.weights(name)[name].mean(0)
    lit = light_places(look, look.place(name), weights)
    assert lit is not None and lit.labels == ["[class]"]
    assert torch.equal(lit.maps[0].flatten(), weights[0, 1:])


def test_the_place_with_the_most_weight_stays_as_it_was() -> None:
    picture = draw_square()
    places = torch.tensor([[0.0, 0.2], [0.8, 0.4]])
    lit = light_picture(picture, places, Grid(2, 2))
    assert (lit[12:, :18] == picture[12:, :18]).all()
    assert (lit[:12, :18] == (picture[:12, :18] * NIGHT).round()).all()
    assert (lit[12:, 18:] == (picture[12:, 18:] * (NIGHT + (1 - NIGHT) / 2)).round()).all()


def test_light_falls_where_a_place_stands() -> None:
    picture = np.full((8, 8, 3), 200, np.uint8)
    lit = light_picture(picture, torch.tensor([[1.0, 0.0], [0.0, 0.0]]), Grid(2, 2, offset=-0.5))
    assert (lit[:2, :2] == 200).all() and (lit[2:] < 200).all() and (lit[:, 2:] < 200).all()


def test_a_terminal_draws_the_places_of_each_word() -> None:
    lines = draw_grid(caption(), color=False, width=80).splitlines()
    assert lines[0].startswith("decoder cross")
    assert lines[1].split() == ["a", "red", "square", "[EOS]"]
    assert len(lines) == 2 + 3 * 4 // 2  # each place is four wide and, at half a line, four high
    assert all(len(line) <= 80 for line in lines)
    narrow = draw_grid(caption(), color=False, width=30).splitlines()
    assert narrow[1].split() == ["a", "red"]


def test_a_terminal_with_colours_shows_the_picture_itself() -> None:
    lines = draw_grid(caption(), color=True, width=80).splitlines()
    assert lines[1].split() == ["a", "red"]  # the picture itself comes first, and has no name
    first = [line.split("\x1b[0m")[0] for line in lines[2:10]]  # 24 columns of 36, so 16 rows of 24 in 8 lines
    assert all(part.count("▀") == 24 for part in first)
    white, red = "38;5;231;48;5;231m", "38;5;167;48;5;167m"  # (230, 230, 230) and (200, 30, 30) in the cube of colours
    assert first[0].count(white) == 24
    assert first[3].count(red) == 8  # twelve of its 36 pixels
    others = [line.split("\x1b[0m")[1] for line in lines[2:10]]
    assert any(red not in part for part in others[2:6])  # where a word doesn't look, it is darker
    assert "\x1b" not in draw_grid(caption(), color=False, width=80)


def test_a_terminal_draws_what_all_layers_pass_on() -> None:
    look = classify()
    chosen, shares = choose_weights(look, "rollout"), attention_rollout(look).shares[-1]
    assert torch.equal(chosen.weights, shares)
    lit = light_places(look, chosen.place, chosen.weights)
    assert lit is not None and torch.equal(lit.maps[0].flatten(), shares[0, 1:])
    lines = draw_grid(look, "rollout", color=False).splitlines()
    assert lines[:2] == ["encoder, rollout of 2 layers", "[class]"] and len(lines) == 2 + 6
    assert draw_grid(look, "rollout", color=True).count("▀") == 2 * 24 * 8  # the picture, and the picture under it
    reader = Look(caption().model, caption().reading, "encoder.*")  # the encoder of a captioner, on its own
    assert draw_grid(reader, "rollout", color=False).startswith("encoder, rollout of one layer\n[class]\n")


def test_a_terminal_draws_the_places_of_all_heads() -> None:
    look = classify()
    heads = look.weights("encoder.blocks.1.mix.weights")["encoder.blocks.1.mix.weights"]
    lit = light_heads(look, look.place("encoder.blocks.1.mix.weights"), heads)
    assert lit is not None and lit.labels == ["0", "1"]
    assert torch.equal(lit.maps.flatten(1), heads[:, 0, 1:])
    lines = draw_sheet(look, color=False, width=80).splitlines()
    assert lines[0] == "encoder.blocks.0.mix.weights  (3 × 3 places, 2 heads)"
    assert lines[1].split() == ["0", "1"] and len(lines) == 2 * (2 + 6) + 1
    assert draw_sheet(look, color=True).count("▀") == 2 * 3 * 16 * 5  # in each layer, the picture and two heads
    words = draw_sheet(caption(), color=False, width=80)
    assert "decoder.blocks.0.cross.weights  (3 × 3 places, 2 heads)" in words
    named = [line for line in words.splitlines() if "red" in line]
    assert [" ".join(line.split()) for line in named] == ["0 a 0 red 0 square 0 [EOS] 1 a", "1 red 1 square 1 [EOS]"]
    assert "decoder.blocks.0.mix.weights  (4 × 4, 2 heads)" in words


def test_a_file_has_the_picture_and_one_for_each_word(tmp_path: Path) -> None:
    look = caption()
    look.save(tmp_path / "look.png")
    with Image.open(tmp_path / "look.png") as written:
        width, height = written.size
    assert width > 2 * height
    look.save(tmp_path / "look.json")
    axes = json.loads((tmp_path / "look.json").read_text("utf-8"))["axes"]
    assert axes["source"]["picture"]["grid"] == {"height": 3, "width": 3, "channels": 1, "first": 1, "offset": 0.0}
    assert "picture" not in axes["target"]


def test_rollout_is_a_map_of_what_reads_a_picture() -> None:
    look = classify()
    figure = look.figure()
    assert [each["name"] for each in figure.data["maps"]][-1] == "rollout"
    assert np.array_equal(figure.arrays["rollout"][0], attention_rollout(look).shares[-1].numpy())
    assert "rollout" not in caption().figure().arrays


def test_a_file_has_the_rollout_beside_the_mean(tmp_path: Path) -> None:
    classify().save(tmp_path / "look.svg")
    written = (tmp_path / "look.svg").read_text("utf-8")
    assert "[class], rollout" in written and written.count("<image") == 3  # the picture, the mean, the rollout


def test_words_and_places_point_at_each_other_in_the_page(browser: Browser, tmp_path: Path) -> None:
    look = caption()
    weights = look.weights(CROSS)[CROSS][0]
    with show(browser, tmp_path, [look.figure()]) as screen:
        page = screen.page
        page.locator(".lookers [data-row='1']").hover()
        screen.settle()
        best = look.source_tokens or []
        assert f"red looks most at row and column {best[1 + int(weights[1, 1:].argmax())]}" in page.locator(
            ".picture .beside"
        ).inner_text().replace("\n", " ")
        shot = Image.open(io.BytesIO(page.locator(".picture canvas").screenshot())).convert("L")
        place = int(weights[1, 1:].argmin())
        dark = shot.getpixel((int((place % 3 + 0.15) * shot.width / 3), int((place // 3 + 0.15) * shot.height / 3)))
        assert isinstance(dark, int) and dark < 215
        box = page.locator(".picture canvas").bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.1)
        screen.settle()
        assert "→ 0,1" in screen.readout
        shares = [
            float(option.evaluate("(e) => e.style.getPropertyValue('--share')"))
            for option in page.locator(".lookers [role=option]").all()
        ]
        assert shares == pytest.approx((weights[:, 2] / weights[:, 2].max()).tolist(), abs=1e-4)
        page.locator(".lookers [data-row='2']").click()
        screen.settle()
        assert "held" in screen.readout
        page.locator("button", has_text="decoder").click()
        screen.settle()
        assert "don't look at the picture" in page.locator(".picture .beside").inner_text()
        assert not screen.faults


def test_a_place_shows_what_it_looks_at_and_the_class_token_its_rollout(browser: Browser, tmp_path: Path) -> None:
    look = classify()
    name, places = "encoder.blocks.0.mix.weights", look.tokens
    with show(browser, tmp_path, [look.figure()]) as screen:
        page, note = screen.page, screen.page.locator(".picture .note")

        def read_note(weights: torch.Tensor, row: int) -> None:
            best = 1 + int(weights[row, 1:].argmax())
            told = f"{places[row]} looks most at row and column {places[best]}, "
            screen.settle()
            assert told in note.inner_text()

        box = page.locator(".picture canvas").bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + box["height"] * 0.5)
        read_note(look.weights(name)[name][0], 1 + 5)  # the last place of the second row
        page.locator("button", has_text="rollout").click()
        page.locator(".lookers [data-row='0']").hover()
        read_note(attention_rollout(look).shares[-1], 0)
        assert not screen.faults


def test_a_classifier_of_pictures_is_looked_into(tmp_path: Path) -> None:
    tree = {
        "task": "images",
        "corpus": {"kind": "files", "train": str(HALVES), "split": {"validation": 0.1}},
        "model": {"kind": "vit-tiny", "width": 16, "depth": 2, "heads": 2},
        "train": {"steps": 1},
        "device": "cpu",
        "out": str(tmp_path / "run"),
    }
    fit(tree)
    picture = np.full((8, 8, 1), 200, np.uint8)
    look = load(tmp_path / "run").look(picture)
    assert look.reading.pictured is not None and (look.reading.pictured.picture == picture).all()
    assert [each["name"] for each in look.figure().data["maps"]][-1] == "rollout"
    assert "[class]" in draw_grid(look, color=False)
    with pytest.raises(InputError, match="it learned images, and kept no pairs"):
        align(str(tmp_path / "run"))
