"""Activation patching: what must bring all back, what nothing, and all the rest one by one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.core.probe import Edit, Probe, Record
from regard.errors import InputError
from regard.lens.finding import ask
from regard.lens.patching import patch_activations
from tests.lens.texts import SOURCE, build, look_at

CLEAN, CORRUPTED = (3, 1, 4, 1, 5, 9), (3, 1, 8, 1, 5, 9)


def test_the_token_that_differs_brings_all_back_where_it_enters() -> None:
    model = build("gpt2", depth=2, heads=2)
    clean, corrupted = look_at(model, CLEAN), look_at(model, CORRUPTED)
    streams = patch_activations(clean, corrupted, "*.stream", position=4, answers=(2, 6))
    entered = patch_activations(clean, corrupted, "*.mix.value", position=4, answers=(2, 6)).recovered
    assert list(streams.recovered) == ["decoder.blocks.0.stream", "decoder.blocks.1.stream"]
    assert streams.answers == ("w2", "w6")
    logits = [look.logits[4] for look in (clean, corrupted)]
    assert streams.clean == pytest.approx(float(logits[0][2] - logits[0][6]), rel=1e-4)
    assert streams.corrupted == pytest.approx(float(logits[1][2] - logits[1][6]), rel=1e-4)
    # before the token nothing differs; after the last block only the position that answers counts
    for values in streams.recovered.values():
        torch.testing.assert_close(values[:2], torch.zeros(2, dtype=torch.float64), atol=1e-9, rtol=0)
        assert float(values[5].abs()) < 1e-9
    last = torch.tensor([0, 0, 0, 0, 1, 0], dtype=torch.float64)
    torch.testing.assert_close(streams.recovered["decoder.blocks.1.stream"], last)
    assert 0 < float(entered["decoder.blocks.0.mix.value"][2].abs()) != 1


@pytest.mark.parametrize("name", ["gpt2", "transformer-tiny"])
def test_each_share_is_that_of_a_run_of_its_own(name: str) -> None:
    model = build(name, depth=2, heads=2)
    two = ((2, 7, 1, 8), (2, 7, 3, 8)) if name == "transformer-tiny" else (None, None)
    clean, corrupted = look_at(model, CLEAN, two[0]), look_at(model, CORRUPTED, two[1])
    found = patch_activations(clean, corrupted, "*.blocks.0.*", position=3, answers=(2, 6))
    record = Record(*found.recovered)
    with torch.no_grad():
        ask(clean, record)
    sizes = {len(values) for values in found.recovered.values()}
    assert sizes == ({6} if name == "gpt2" else {4, 6})  # the source's positions too
    for each, values in found.recovered.items():
        for place in range(len(values)):
            with torch.no_grad():
                logits = ask(corrupted, Edit.patch(each, record, positions=[place]))[0, 3]
            share = (float(logits[2] - logits[6]) - found.corrupted) / (found.clean - found.corrupted)
            assert float(values[place]) == pytest.approx(share, abs=1e-9)


class Third(Probe):
    """Patch the third of the values that a loop reports."""

    def __init__(self, name: str, value: Tensor) -> None:
        self.name, self.value, self.seen = name, value, 0

    def wants(self, name: str) -> bool:
        return name == self.name

    def __call__(self, name: str, value: Tensor) -> Tensor:
        self.seen += 1
        return self.value if self.seen == 3 else value


def test_what_a_loop_reports_step_by_step_is_patched_step_by_step() -> None:
    model = build("bahdanau", depth=1)
    clean, corrupted = look_at(model, CLEAN, SOURCE), look_at(model, CLEAN, (2, 7, 3, 8))
    name = next(name for name in model.names() if name.endswith("mix.context") and name.startswith("decoder"))
    found = patch_activations(clean, corrupted, name, position=4, answers=(2, 6))
    assert found.recovered[name].shape == (6,)
    with torch.no_grad():
        record = Record(name)
        ask(clean, record)
        logits = ask(corrupted, Third(name, record.pieces[name][2]))[0, 4]
    share = (float(logits[2] - logits[6]) - found.corrupted) / (found.clean - found.corrupted)
    assert float(found.recovered[name][2]) == pytest.approx(share, abs=1e-9)
    assert float(found.recovered[name][5]) == pytest.approx(0, abs=1e-9)  # it comes after the answer


def test_right_answers_are_those_of_the_texts() -> None:
    model = build("gpt2", depth=1, heads=2)
    clean, corrupted = look_at(model, (3, 1, 4)), look_at(model, (3, 2, 5))
    assert patch_activations(clean, corrupted, position=1).answers == ("w4", "w5")
    assert patch_activations(clean, corrupted).position == 1


def test_texts_that_do_not_correspond_are_refused() -> None:
    model = build("gpt2", depth=1, heads=2)
    clean = look_at(model, CLEAN)
    with pytest.raises(InputError, match="the clean text has 6 tokens and the corrupted one 5"):
        patch_activations(clean, look_at(model, CLEAN[:5]))
    with pytest.raises(InputError, match="both texts ask for 'w9' at position 4"):
        patch_activations(clean, look_at(model, CORRUPTED))
    with pytest.raises(InputError, match=r"differ by .* in both texts"):
        patch_activations(clean, look_at(model, CLEAN), answers=(1, 2))
    with pytest.raises(InputError, match="of two models"):
        patch_activations(clean, look_at(build("gpt2", depth=1, heads=2), CORRUPTED))
    with pytest.raises(InputError, match="position 9 answers nothing"):
        patch_activations(clean, look_at(model, CORRUPTED), position=9)
    translator = build("transformer-tiny", depth=1, heads=2)
    with pytest.raises(InputError, match="the clean source has 4 tokens and the corrupted one 3"):
        patch_activations(look_at(translator, CLEAN, SOURCE), look_at(translator, CORRUPTED, SOURCE[:3]))
