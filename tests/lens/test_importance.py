"""What heads are worth, against running without them one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch

from regard.core.probe import Edit
from regard.errors import InputError
from regard.lens.finding import ask, choose_answers, measure_loss
from regard.lens.importance import Importance, ablate_heads, weigh_heads
from regard.lens.look import Look
from regard.parts.head import Vocabulary
from tests.lens.texts import SOURCE, build, build_encoder, look_at


def looks() -> list[Look]:
    return [
        look_at(build("gpt2", depth=2, heads=4)),
        look_at(build("transformer-tiny", depth=1, heads=2), source=SOURCE),
        look_at(build("deepseek-tiny", depth=1, heads=2)),
        look_at(build("bahdanau", depth=1), source=SOURCE),
        look_at(build_encoder(Vocabulary()), targets={1: 4, 3: 2}),
    ]


@torch.no_grad()
def loss_under(look: Look, edit: Edit | None) -> float:
    return float(measure_loss(look, ask(look, edit), choose_answers(look)))


@pytest.mark.parametrize("number", range(5))
def test_ablation_is_the_loss_without_each_head(number: int) -> None:
    look = looks()[number]
    found = ablate_heads(look)
    assert found.loss == pytest.approx(loss_under(look, None))
    names = [name for name in look.model.names() if name.endswith(".context")]
    assert list(found.heads) == names
    for name in names:
        for head, change in enumerate(found.heads[name].tolist()):
            # one head has no number where a loop reports it
            edit = Edit.zero(name) if len(found.heads[name]) == 1 else Edit.zero(name, head=head)
            assert change == pytest.approx(loss_under(look, edit) - found.loss, abs=1e-9)
            assert change != 0


@pytest.mark.parametrize("number", range(5))
def test_the_gradient_is_the_slope_of_the_loss_by_a_factor_on_each_head(number: int) -> None:
    look = looks()[number]
    found = weigh_heads(look)
    assert found.loss == pytest.approx(loss_under(look, None))
    for name, values in found.heads.items():
        for head, value in enumerate(values.tolist()):
            more, less = (
                Edit.scale(name, factor) if len(values) == 1 else Edit.scale(name, factor, head=head)
                for factor in (1 + 1e-5, 1 - 1e-5)
            )
            slope = (loss_under(look, more) - loss_under(look, less)) / 2e-5
            assert value == pytest.approx(abs(slope), rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("measure", [ablate_heads, weigh_heads])
def test_texts_are_averaged(measure: Callable[[Look | Sequence[Look]], Importance]) -> None:
    model = build("gpt2", depth=1, heads=4)
    one, other = look_at(model, (1, 2, 3)), look_at(model, (4, 5, 6, 7))
    both, first, second = measure([one, other]), measure(one), measure(other)
    name = "decoder.blocks.0.mix.context"
    assert both.texts == 2
    torch.testing.assert_close(both.heads[name], (first.heads[name] + second.heads[name]) / 2)


def test_more_heads_than_run_at_once() -> None:
    look = look_at(build("gpt2", width=40, depth=1, heads=40))
    name = "decoder.blocks.0.mix.context"
    last = loss_under(look, Edit.zero(name, head=39)) - loss_under(look, None)
    assert float(ablate_heads(look).heads[name][39]) == pytest.approx(last, abs=1e-9)


def test_what_has_no_heads_is_refused() -> None:
    look = look_at(build("gpt2", depth=1, heads=2))
    with pytest.raises(InputError, match=r"decoder\.blocks\.0\.mix\.output has no heads to take away"):
        ablate_heads(look, "*.mix.output")
    with pytest.raises(InputError, match="nothing here is called"):
        weigh_heads(look_at(build("lstm", depth=1)))
    with pytest.raises(InputError, match="several models"):
        weigh_heads([look, look_at(build("gpt2", depth=1, heads=2))])
    with pytest.raises(InputError, match="there is no text"):
        ablate_heads([])
