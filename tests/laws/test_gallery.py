"""Each fault of the gallery is found by the law that should find it, and the right ones beside them keep all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import pytest
from torch import nn

from regard.core.mixer import Mixer, MixerSpec
from regard.laws import Breach, Case, Trial, check
from regard.laws.case import Cut, Packed, Padded, Whole
from regard.laws.law import LAWS
from regard.laws.script import Read, Rewind, Script, Select, Stretch
from tests.laws import gallery
from tests.laws.gallery import Average, Looking, Plain

PADS, AHEAD, ROWS = "padding changes nothing", "no position sees a later one", "rows don't mix"
STEPS, SELECTS = "stepping equals running whole", "selecting rows equals running those rows"
WATCHES = "watching changes nothing and shows the declared names"

# what a mixer breaks, and nothing else: laws that rest on a broken one aren't tried
BROKEN: dict[type[nn.Module], set[str]] = {
    gallery.OffByOne: {AHEAD},
    gallery.CallsItASet: {"who takes positions for a set doesn't see their order"},
    gallery.MovesOnPads: {"a padded prompt decodes as if alone"},
    gallery.ReadsPads: {PADS},
    gallery.WrongAxis: {WATCHES, PADS},
    gallery.IgnoresSelect: {SELECTS, "a state shows all its tensors"},
    gallery.StaysAtReordering: {SELECTS},
    gallery.CacheOnModule: {"two states don't know of each other"},
    gallery.RestartingPositions: {STEPS},
    gallery.ChangedByLooking: {WATCHES},
    gallery.Undeclared: {WATCHES},
    gallery.Silent: {WATCHES},
    gallery.DetachesSteps: {"gradients in steps equal those of the whole"},
    gallery.LeakyDocuments: {"packed documents are as if alone"},
    gallery.SingleState: {"a state has the type of its model"},
    gallery.BatchStatistics: {ROWS},
    gallery.DropoutLeftOn: {"the same input gives the same output"},
    gallery.Uncounted: {STEPS},
    gallery.Forgetful: {STEPS},
    gallery.WrongGradient: {"gradients equal finite differences in double"},
    gallery.LearnsFromLater: {"no gradient comes from a later position"},
    gallery.CountsCalls: {"a layer that is computed again finds the same"},
    gallery.RewindsWrongly: {"rewinding is right or refused"},
    gallery.Unjoinable: {"joined rows go on as if alone"},
    gallery.DeadWeight: {"gradients are finite and reach everything"},
    gallery.IdleRowsMove: {"whatever is done to a state, rows are as if alone"},
    gallery.PlainMean: {AHEAD},
    gallery.PlainBatch: {ROWS},
    gallery.PlainLength: {"padding at the end changes nothing before it"},
    gallery.PlainSingle: {"numbers keep their type"},
    gallery.PlainTable: {"it gives back the shape that it was given"},
}

SMALLEST: dict[type[nn.Module], Case] = {
    gallery.OffByOne: Cut(rows=1, time=2, at=1),
    gallery.CallsItASet: Whole(rows=1, time=2),
    gallery.MovesOnPads: Script((Read(2, (Stretch(0, 1),)), Read(1)), rows=1, keys=1),
    gallery.ReadsPads: Padded("left", (1,), pads=1),
    gallery.StaysAtReordering: Script((Read(1), Select((0, 0)), Read(1)), rows=2, keys=1),
    gallery.RestartingPositions: Script.read(1, 1, rows=1),
    gallery.CacheOnModule: Script.read(1, 1, rows=1),
    gallery.DetachesSteps: Script.read(1, 1, rows=1),
    gallery.LeakyDocuments: Packed(((1, 1),)),
    gallery.BatchStatistics: Whole(rows=2, time=1),
    gallery.RewindsWrongly: Script((Read(1), Rewind(0), Read(1)), rows=1, keys=1),
    # only chance comes upon a row that idles, and seven events of it are cut down to three
    gallery.IdleRowsMove: Script((Read(1), Read(1, (Stretch(0, 0),)), Read(1)), rows=1, keys=1, seed=0),
    gallery.PlainBatch: Whole(rows=2, time=1),
    gallery.LearnsFromLater: Whole(rows=1, time=2),
}


@pytest.mark.parametrize("kind", [Average, Looking, Plain], ids=lambda kind: kind.__name__)
def test_a_right_one_keeps_all_laws(kind: type[nn.Module]) -> None:
    trial = check(kind)
    assert not trial.broken, trial.tell()
    assert len(trial.held) >= (9 if kind is Plain else 30)
    assert len(trial.rulings) == len(LAWS)


def try_one(kind: type[nn.Module]) -> Trial:
    return check(kind, causal=None if issubclass(kind, Mixer) else True)


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_each_fault_is_found_by_its_law(kind: type[nn.Module]) -> None:
    trial = try_one(kind)
    assert {ruling.law.name for ruling in trial.broken} == BROKEN[kind], trial.tell()
    for ruling in trial.broken:
        assert ruling.example is not None
        with pytest.raises(Breach):
            ruling.try_again()
    if kind in SMALLEST:
        (example,) = [ruling.example for ruling in trial.broken]
        assert example is not None
        assert without_keys(example.case) == without_keys(SMALLEST[kind]), example.tell()


def without_keys(case: Case) -> dict[str, Any]:
    """What is done, and not the memory that nobody looks at, nor the seed."""
    return {key: value for key, value in case.to_json().items() if key not in ("keys", "seed")}


def test_a_counterexample_tells_where_both_values_and_the_gap() -> None:
    (ruling,) = try_one(gallery.PlainMean).broken
    assert ruling.example is not None
    breach = ruling.example.breach
    assert breach.place == {"row": 0, "position": 0, "channel": 0}
    assert breach.found is not None and breach.expected is not None and breach.gap is not None
    # two positions, of which the later one grew by 10: the mean is 5 larger
    assert breach.gap == pytest.approx(5, abs=1e-4)
    assert breach.expected - breach.found == pytest.approx(5, abs=1e-4)
    assert f"{breach.found:.6g}" in breach.message and f"{breach.expected:.6g}" in breach.message
    assert ruling.example.case.tell() == "1 row of 2 positions, cut before position 1"


@pytest.fixture
def kinds() -> Iterator[None]:
    """What is entered inside is gone afterwards."""
    before = dict(MixerSpec.kinds)
    yield
    for name in set(MixerSpec.kinds) - set(before):
        del MixerSpec.kinds[name]


def test_a_setting_that_does_not_survive_json_is_found(kinds: None) -> None:
    class Lists(MixerSpec):
        kind: Literal["lists"] = "lists"
        rates: Any = (1, 2)
        steps: bool = False

        def build(self, width: int) -> Mixer:
            return Average(width)

    (ruling,) = check(Lists).broken
    assert ruling.law.name == "a spec survives JSON"
    assert ruling.example is not None
    assert ruling.example.breach.message == "rates: (1, 2) comes back as [1, 2]"
    assert ruling.broken_in == ("its defaults", "steps=True")


def test_a_fault_of_one_variant_is_told_with_its_settings(kinds: None) -> None:
    class Switched(MixerSpec):
        kind: Literal["switched"] = "switched"
        mode: Literal["right", "detached", "off"] = "right"
        deep: bool = False

        def build(self, width: int) -> Mixer:
            if self.mode == "off":
                raise ValueError("no such mode yet")
            return (gallery.DetachesSteps if self.mode == "detached" else Average)(width)

    trial = check(Switched)
    (ruling,) = trial.broken
    assert ruling.broken_in == ("mode=detached",)
    assert ruling.variants == 3
    assert trial.variants == ("its defaults", "mode=detached", "deep=True")
    assert list(trial.refused) == ["mode=off"] and "no such mode yet" in trial.refused["mode=off"]
    assert "in        mode=detached, alone of 3 variants" in trial.tell()
    assert not check(Switched, quick=True).broken
