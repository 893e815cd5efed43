"""What can be put on trial: specs, mixers, modules, their classes, functions that make them; and why others can't."""

from __future__ import annotations

import doctest
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.core.mixer import MixerSpec
from regard.errors import InputError, RegardError, SpecError
from regard.laws import check
from regard.laws.build import construct, list_subjects
from regard.mixers.attention import Attention
from regard.mixers.pool import MeanPooling, Pool
from regard.mixers.recurrent import Recurrence, Recurrent
from tests.laws.gallery import Average, Looking, Plain


def describe_id(value: object) -> str:
    """What a case is called: the same in every process, so without the places of functions in memory."""
    return getattr(value, "__name__", None) or str(value)


class Sized(nn.Module):
    """A module that knows its size."""

    def __init__(self, d_model: int = 64, n_head: int = 8, drop: float = 0.0) -> None:
        super().__init__()
        self.sizes = d_model, n_head, drop
        self.inner = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.inner(x)
        return y


def make_pool(width: int, causal: bool = True) -> MeanPooling:
    return MeanPooling(Pool(causal=causal), width)


def make_spec() -> MixerSpec:
    return Attention(heads=2)


@pytest.mark.parametrize(
    ("thing", "width", "variants"),
    [
        ("pool", 16, 2),
        (Pool, 16, 2),
        (Pool(project=False), 16, 2),
        (Average, 16, 1),
        (Average(24), 24, 1),
        (Recurrence(Recurrent(start="mean"), 32), 32, 1),
        (Looking, 16, 1),
        (Plain(20), 20, 1),
        (Plain, 16, 1),
        (make_pool, 16, 1),
        (make_spec, 16, 2),
        (nn.TransformerEncoderLayer, 16, 1),
        (nn.Sequential(nn.Linear(48, 64), nn.Linear(64, 48)), 48, 1),
        (nn.Identity(), 16, 1),
    ],
    ids=describe_id,
)
def test_what_can_be_tried(thing: Any, width: int, variants: int) -> None:
    """Variants: as it is, and as a decoder and an encoder need it, where that is something else."""
    subjects, refused = list_subjects(thing, quick=True)
    assert not refused
    assert subjects[0].width == width
    assert len(subjects) == variants
    first, second = (subjects[0].make() for _ in range(2))
    pairs = zip(first.parameters(), second.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


def test_a_mixer_that_wants_a_memory_gets_one() -> None:
    subjects, _ = list_subjects(Recurrence(Recurrent(start="mean"), 32))
    assert subjects[0].memory_width == 32
    trial = check(Recurrence(Recurrent(start="mean"), 16))
    assert not trial.broken, trial.tell()
    assert "padding of the memory changes nothing" in trial.held
    trial = check(MeanPooling(Pool(over="memory"), 16))  # the same for every position, whatever stands there
    assert not trial.broken, trial.tell()


def test_the_example_of_check_runs() -> None:
    (test,) = doctest.DocTestFinder(recurse=False).find(check, "check")
    told: list[str] = []
    assert doctest.DocTestRunner().run(test, out=told.append).failed == 0, "".join(told)


def test_a_class_is_built_with_the_width_in_anybodys_words() -> None:
    assert construct(Sized, "Sized", 16, {}).sizes == (16, 8, 0.0)
    assert construct(Sized, "Sized", 16, {"heads": 2, "drop": 0.5}).sizes == (16, 2, 0.5)
    assert construct(Sized, "Sized", 16, {"width": 12}).sizes == (12, 8, 0.0)
    layer = construct(nn.TransformerEncoderLayer, "layer", 16, {"batch_first": True})
    assert layer.self_attn.num_heads == 4
    assert construct(nn.Linear, "Linear", 16, {}).weight.shape == (16, 16)


def test_weights_that_start_alike_get_numbers_of_their_own() -> None:
    class Silent(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.gain = nn.Parameter(torch.zeros(width))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.gain

    assert "no position sees a later one" in check(Silent).held
    assert check(Silent(16), causal=True).broken  # one that is built is tried as it is, and gives nothing but zeros


def test_large_numbers_are_rounded_as_large_numbers_are() -> None:
    mixer = Looking(16)
    with torch.no_grad():
        mixer.output.weight *= 1e4
    trial = check(mixer)
    assert not trial.broken, trial.tell()


def test_what_a_plain_module_does_is_seen_or_said() -> None:
    layer = nn.TransformerEncoderLayer(16, 4, dropout=0.0, batch_first=True)
    rulings = {ruling.law.name: ruling for ruling in check(layer).rulings}
    assert rulings["no position sees a later one"].verdict == "doesn't apply"
    assert "seen to look ahead" in rulings["no position sees a later one"].reason
    rulings = {ruling.law.name: ruling for ruling in check(layer, causal=False).rulings}
    assert "as you say" in rulings["no position sees a later one"].reason
    (ruling,) = check(layer, causal=True).broken
    assert ruling.law.name == "no position sees a later one"
    held = {ruling.law.name: ruling.reason for ruling in check(Plain).rulings if ruling.verdict == "held"}
    assert held["no position sees a later one"] == "seen, not said"
    assert "padding at the end changes nothing before it" in held


def test_a_module_that_takes_time_first_is_told_so() -> None:
    (ruling,) = check(nn.TransformerEncoderLayer(16, 4, dropout=0.0)).broken
    assert ruling.law.name == "rows don't mix"
    assert ruling.example is not None and "batch_first=True?" in ruling.example.breach.message


class Two(nn.Module):
    def __init__(self, kernel: int, groups: int) -> None:
        super().__init__()


class Refusing(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        raise ValueError(f"{width} is not a multiple of 7")


class Narrow(MixerSpec):
    pass


@pytest.mark.parametrize(
    ("thing", "more", "error", "told"),
    [
        (Two, {}, SpecError, "Two needs kernel, groups\n  try: --set kernel=… --set groups=…"),
        (Two, {"settings": {"kernal": 1}}, SpecError, "Two takes no 'kernal'; did you mean 'kernel'?"),
        (Refusing, {}, SpecError, r"Refusing\(width=16\) can't be built: raises ValueError: 16 is not a multiple of 7"),
        (MeanPooling, {}, SpecError, "MeanPooling needs spec\n  try: name the spec"),
        (Narrow, {}, SpecError, "Narrow has no kind"),
        (Average(16), {"settings": {"width": 8}}, SpecError, "is built already"),
        (Average, {"causal": False}, SpecError, "Average says that causal is True"),
        ("pool", {"causal": True}, SpecError, "says itself whether it is causal"),
        ("pol", {}, SpecError, "laws: unknown kind 'pol'; did you mean 'pool'?"),
        ("attention", {"width": 15}, SpecError, "width 15 is not divisible by heads 8"),
        (3, {}, SpecError, "laws are for specs, mixers and torch modules, and 3 is none of them"),
        (lambda: 3, {}, SpecError, "makes 3"),
        (nn.Linear(16, 8), {}, InputError, r"maps \(3, 10, 16\) to \(3, 10, 8\)"),
        (nn.LSTM(16, 16, batch_first=True), {}, InputError, r"maps \(3, 10, 16\) to a tuple of 2"),
        (nn.Conv1d(4, 4, 3), {}, InputError, r"called with a tensor \(3, 10, 16\), raises RuntimeError"),
        (nn.Bilinear(16, 16, 16), {}, InputError, "raises TypeError: .*input2"),
    ],
    ids=describe_id,
)
def test_what_cannot_be_tried_is_told(thing: Any, more: dict[str, Any], error: type[RegardError], told: str) -> None:
    with pytest.raises(error, match=f"(?s){told}") as raised:
        check(thing, **more)
    assert raised.value.hint or "did you mean" in raised.value.message
    assert error is not InputError or "(batch, time, width) to the same" in raised.value.message


def test_trying_leaves_the_callers_random_numbers_and_threads_alone() -> None:
    threads = torch.get_num_threads()
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    module = Plain(16)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    torch.manual_seed(3)
    check(module)
    assert torch.equal(torch.rand(2), expected)
    assert torch.get_num_threads() == threads
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
