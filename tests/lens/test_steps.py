"""How long a model thought: what is drawn above each token against the steps that its cell really took."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

from regard.data.lexicon import Lexicon
from regard.lens.steps import count_steps
from regard.lens.terminal import draw_steps
from regard.models import preset
from regard.parts.cell import Again
from regard.tasks.reckoning import Reckoner, ReckoningTaskSpec

TEXT = "[[1, 0, 0, 1], [0, 1, 1, 0], [-1, 1, 1, 1], [0, 0, 0, 0], [9, 9, -9, 9], [-1, -1, -1, -1]]"


def make_reckoner() -> Reckoner:
    lexicon = Lexicon(None, ["a", "b"], vectors=(4, 1))
    torch.manual_seed(2)
    model = ReckoningTaskSpec().fit_model(preset("act-rnn", width=8), lexicon).build().eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "halting" in name:
                weight.mul_(4.0).sub_(0.5)  # so that positions differ in how long they take
    return Reckoner(model, lexicon)


def test_what_is_drawn_is_what_the_cell_took(monkeypatch: pytest.MonkeyPatch) -> None:
    reckoner = make_reckoner()
    taken: Counter[int] = Counter()
    step = Again.step

    def count(self: Again, time: int, *rest: Any, **more: Any) -> Any:
        taken[time] += 1
        return step(self, time, *rest, **more)

    monkeypatch.setattr(Again, "step", count)
    reckoner.model(reckoner.lay_out(TEXT).inputs)
    wanted = [taken[time] for time in range(6)]
    assert len(set(wanted)) > 1 and max(wanted) > 1
    look = reckoner.look(TEXT)
    [found] = count_steps(look)
    assert found.counts == wanted
    title, above, below = draw_steps(look).split("\n")
    assert title == f"{found.name}, {sum(wanted) / 6:.1f} on the average"
    assert above.split() == [str(number) for number in wanted] and below.split() == list("123456")


def test_a_narrow_terminal_has_several_rows_of_them() -> None:
    look = make_reckoner().look(TEXT)
    [found] = count_steps(look)
    _, *lines = draw_steps(look, width=5).split("\n")
    assert all(len(line) <= 5 for line in lines)
    told = [number for line in lines[::3] for number in line.split()]
    assert told == [f"{number:.0f}" for number in found.counts]


def test_a_model_that_takes_one_step_a_token_has_nothing_to_draw() -> None:
    lexicon = Lexicon(None, ["a", "b"], vectors=(4, 1))
    model = ReckoningTaskSpec().fit_model(preset("gru", width=8, depth=1), lexicon).build().eval()
    look = Reckoner(model, lexicon).look(TEXT)
    assert count_steps(look) == [] and draw_steps(look) == ""
