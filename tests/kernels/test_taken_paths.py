"""Our kernels are really used where they are meant to be: counted, so it is the same on every machine that has them.

That they aren't slower than what they replace is held by ratios within one run, which a busy machine hardly changes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch

from regard.core.model import Model
from regard.core.packed import list_matrices, pack_model
from regard.core.product import Precision
from regard.core.view import View
from regard.kernels import library as kernels
from regard.kernels.library import Library
from regard.mixers.mamba import Mamba
from regard.models import preset

ROWS, PROMPT, DEPTH = 3, 5, 2
SHORT, LONG = 4, 12
SMALL: dict[str, Any] = {
    "width": 64,
    "depth": DEPTH,
    "heads": 4,
    "vocabulary": 96,
}  # heads of 16, as wide as any register


class Counted:
    """The functions of a library, and how often each was called."""

    def __init__(self, functions: Any) -> None:
        self.functions, self.calls = functions, Counter[str]()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = getattr(self.functions, name)

        def call(*given: Any) -> Any:
            self.calls[name] += 1
            return function(*given)

        return call


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    found = kernels.find_library()
    if not isinstance(found, Library):
        pytest.skip(f"kernels: {found}")
    functions = Counted(found.functions)
    monkeypatch.setattr(found, "functions", functions)
    return functions


def make(name: str, precision: Precision | None = None, **settings: Any) -> Model:
    torch.manual_seed(0)
    model = preset(name, **settings).build().eval()
    if precision is not None:
        pack_model(model, precision)
    return model


def count_step(counted: Counted, model: Model) -> Counter[str]:
    """How often each function is called for one token more."""
    tokens = torch.randint(4, 96, (ROWS, PROMPT))
    ends = {} if model.spec.encoder is None else {"begin": 1, "end": 2}
    found = []
    for steps in (SHORT, SHORT, LONG):  # what is made once is made the first time
        counted.calls.clear()
        model.generate(tokens, min_tokens=steps, max_tokens=steps, **ends)
        found.append(Counter(counted.calls))
    _, short, long = found
    long.subtract(short)
    more = LONG - SHORT
    assert all(count % more == 0 for count in long.values())
    return Counter({name: count // more for name, count in long.items() if count})


@pytest.mark.parametrize("name", ["gpt2", "transformer-tiny"])
def test_a_step_of_a_stack_is_one_call_when_a_token_is_written(counted: Counted, name: str) -> None:
    found = count_step(counted, make(name, **SMALL, hidden=64))
    assert found["regard_play"] == 1
    assert found["regard_look"] == 0


def test_each_layer_looks_by_our_kernel_where_a_step_is_not_written_down(counted: Counted) -> None:
    model = make("gpt2", **SMALL)
    assert model.decoder is not None
    model.decoder.blocks[0].register_forward_hook(lambda *_: None)
    found = count_step(counted, model)
    assert found["regard_play"] == 0
    assert found["regard_look"] == DEPTH


# what multiplies matrices, and what the table of words
FUNCTIONS: dict[Precision, tuple[str, str]] = {
    "fp16": ("regard_multiply_halves", "regard_multiply_halves"),
    "bf16": ("regard_multiply_brains", "regard_multiply_halves"),
    "int8": ("regard_multiply", "regard_multiply"),
}


@pytest.mark.parametrize("precision", FUNCTIONS)
@pytest.mark.parametrize(("name", "played"), [("gpt2", True), ("mamba-130m", False)])
def test_each_packed_matrix_is_multiplied_by_our_kernel(
    counted: Counted, name: str, played: bool, precision: Precision
) -> None:
    settings: dict[str, Any] = {"width": 256, "depth": DEPTH, "vocabulary": 512}  # wide enough to be packed
    matrices = len(list(list_matrices(make(name, **settings))))
    assert matrices > 2 * DEPTH
    found = count_step(counted, make(name, precision, **settings))
    assert found["regard_play"] == played
    # the table of words alone, or each by itself
    wanted = Counter(FUNCTIONS[precision][:1] * (0 if played else matrices - 1) + FUNCTIONS[precision][1:])
    assert {function: found[function] for function in wanted} == wanted


def test_a_scan_and_its_gradient_are_one_call_each(counted: Counted) -> None:
    torch.manual_seed(0)
    mixer = Mamba().build(64)
    x = torch.randn(2, 33, 64, requires_grad=True)
    mixer(x, View.of(x)).sum().backward()
    assert counted.calls["regard_scan"] == counted.calls["regard_scan_back"] == 1


def find_best(sides: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Seconds of each side at its best, by turns; the first round only warms up."""
    best = dict.fromkeys(sides, float("inf"))
    for number in range(rounds + 1):
        for name, work in sides.items():
            began = time.perf_counter()
            work()
            if number:
                best[name] = min(best[name], time.perf_counter() - began)
    return best


@pytest.mark.long
@pytest.mark.parametrize("precision", ["int8", "bf16", "fp16"])
def test_packed_weights_write_no_slower_than_whole_ones(precision: Precision) -> None:
    settings: dict[str, Any] = {
        "width": 768,
        "depth": 4,
        "vocabulary": 8000,
    }  # more than a cache holds, as real models are
    models = {"fp32": make("gpt2", **settings), precision: make("gpt2", precision, **settings)}
    tokens = torch.randint(4, 8000, (1, 8))
    best = find_best({name: lambda m=model: m.generate(tokens, max_tokens=8) for name, model in models.items()}, 5)  # type: ignore[misc]
    assert best[precision] <= best["fp32"]


@pytest.mark.long
def test_a_whole_sequence_is_scanned_far_faster_than_it_is_stepped() -> None:
    """Four times as fast where this was written; `bench/scan.py` holds what is promised of the full size."""
    torch.manual_seed(0)
    mixer = Mamba().build(256)
    x = torch.randn(8, 512, 256, requires_grad=True)

    def step() -> None:
        state = mixer.start(len(x), View.of(x))
        outputs = [mixer(at, View.of(at, state=state), state) for at in x.split(1, 1)]
        torch.cat(outputs, 1).sum().backward()

    best = find_best({"whole": lambda: mixer(x, View.of(x)).sum().backward(), "steps": step}, 3)
    assert best["steps"] >= 2.5 * best["whole"]
