"""Where a memory is written and read: addresses downwards, time to the right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from regard.lens.addresses import cut_slots, draw_addresses, list_addresses, list_heads, looks_at_slots
from regard.lens.terminal import draw_grid
from tests.lens.test_look import writer


def test_slots_that_nobody_looks_at_are_left_out() -> None:
    weights = torch.zeros(4, 10)
    weights[range(4), [3, 4, 5, 6]] = 1.0
    found = cut_slots("write", "one head", weights, list("abcd"))
    assert found.slots == ["3", "4", "5", "6"]
    assert torch.equal(found.weights, torch.eye(4))
    around = cut_slots("write", "one head", weights.roll(5, 1), list("abcd"))  # slots 8, 9, 0, 1
    assert around.slots == ["8", "9", "0", "1"] and torch.equal(around.weights, torch.eye(4))
    still = cut_slots("read", "one head", weights[:1], ["a"])
    assert still.slots == ["3"] and still.weights.shape == (1, 1)
    everywhere = cut_slots("read", "one head", torch.full((2, 10), 0.1), ["a", "b"])
    assert everywhere.slots == [str(n) for n in range(10)]


def test_a_terminal_shows_what_is_written_and_what_is_read() -> None:
    look = writer("ntm", depth=1).look("the cat")
    assert looks_at_slots(look)
    assert [found.title.split(",")[0] for found in list_addresses(look)] == [
        "decoder mix write_weights",
        "decoder mix read_weights",
    ]
    drawn = draw_grid(look, color=False)
    assert drawn == draw_addresses(look, color=False)
    letters = "".join(piece.removeprefix("▁")[:1] or "▁" for piece in look.tokens)
    assert sum(line.strip() == letters for line in drawn.splitlines()) == 2
    assert all(len(line) <= 30 for line in draw_addresses(look, color=False, width=30).splitlines()[1:3])
    assert not looks_at_slots(writer().look("the cat"))


def test_the_viewer_has_addresses_as_rows_and_pictures_have_both_kinds(tmp_path: Path) -> None:
    look = writer("ntm", depth=1).look("the cat")
    figure = look.figure()
    exact = {name: weights.numpy() for name, weights in look.weights().items()}
    for told in figure.data["maps"]:
        assert (told["rows"], told["columns"]) == ("slots", "target")
        assert np.array_equal(figure.arrays[told["array"]].swapaxes(1, 2), exact[told["name"]])
    assert list_heads(look) == ["0.0"]
    assert look.save(tmp_path / "tape.png").read_bytes().startswith(b"\x89PNG")
    assert look.save(tmp_path / "tape.html").stat().st_size > 1000
