"""What a step costs, counted and not timed: torch's operations and calls of our own functions.

Both are the same on every machine, busy or quiet, so a change that makes a step dearer is seen at once. A limit here is
what was counted when it was written, and a little more; one that is passed for a good reason is raised in the same
commit, with the reason.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

import regard
from regard.core.model import Model

HOME = str(Path(regard.__file__).parent)
SLACK = 1.05  # an operation more or less is another version of torch
ROWS, SHORT, LONG = 4, 8, 24


class Operations(TorchDispatchMode):
    """Counts what torch is asked to compute; views move no numbers and are left out."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += not func.is_view
        return func(*args, **(kwargs or {}))


@dataclass
class Cost:
    operations: float = 0.0
    calls: float = 0.0


@contextmanager
def count_cost() -> Iterator[Cost]:
    """Count operations, and calls of functions in the package."""
    found = Cost()

    def hear(frame: FrameType, event: str, _: object) -> None:
        found.calls += event == "call" and frame.f_code.co_filename.startswith(HOME)

    with Operations() as operations:
        before = sys.getprofile()
        sys.setprofile(hear)
        try:
            yield found
        finally:
            sys.setprofile(before)
            found.operations = operations.count


def measure_marginal(run: Callable[[int], Any]) -> Cost:
    """What one step more costs: the difference of a long run and a short one, the first of which is for warming up."""
    run(SHORT)
    costs = []
    for steps in (SHORT, LONG):
        with count_cost() as found:
            run(steps)
        costs.append(found)
    short, long = costs
    more = LONG - SHORT
    return Cost((long.operations - short.operations) / more, (long.calls - short.calls) / more)


def make(name: str, **settings: Any) -> Model:
    torch.manual_seed(0)
    return regard.preset(name, **settings).build()


# a model, how it is searched, operations and calls for each token
WRITING = [
    ("transformer-tiny", {"width": 32, "depth": 2, "heads": 4, "vocabulary": 40}, {}, 64, 322),
    ("transformer-tiny", {"width": 32, "depth": 2, "heads": 4, "vocabulary": 40}, {"beam": 4}, 77, 425),
    ("luong-feed", {"width": 32, "depth": 1, "vocabulary": 40}, {"beam": 4}, 55, 217),
    ("gpt2", {"width": 32, "depth": 2, "heads": 4, "vocabulary": 40}, {}, 45, 244),
    ("mamba-130m", {"width": 32, "depth": 2, "vocabulary": 40}, {}, 89, 158),
]


@pytest.mark.parametrize(("name", "settings", "search", "operations", "calls"), WRITING)
@torch.no_grad()
def test_writing_a_token(
    name: str, settings: dict[str, Any], search: dict[str, Any], operations: float, calls: float
) -> None:
    model = make(name, **settings).eval()
    tokens = torch.randint(4, 40, (ROWS, 6), generator=torch.Generator().manual_seed(1))

    def write(steps: int) -> None:
        ends = {} if model.spec.encoder is None else {"begin": 1, "end": 2}
        written = model.generate(tokens, min_tokens=steps, max_tokens=steps, **ends, **search)
        assert {len(row) - (row[-1] == 2) for row in written} == {steps}

    found = measure_marginal(write)
    assert found.operations <= operations * SLACK
    assert found.calls <= calls * SLACK


# a model, and what a training step of it takes: operations and calls
LEARNING = [
    ("transformer-tiny", {"width": 32, "depth": 2, "heads": 4, "vocabulary": 40}, 421, 396),
    ("luong-feed", {"width": 32, "depth": 1, "vocabulary": 40}, 735, 514),
    ("bahdanau", {"width": 32, "vocabulary": 40}, 1326, 493),
    ("gpt2", {"width": 32, "depth": 2, "heads": 4, "vocabulary": 40}, 172, 168),
    ("mamba-130m", {"width": 32, "depth": 2, "vocabulary": 40}, 436, 187),
]


@pytest.mark.parametrize(("name", "settings", "operations", "calls"), LEARNING)
def test_learning_from_a_batch(name: str, settings: dict[str, Any], operations: float, calls: float) -> None:
    model = make(name, **settings)
    tokens = torch.randint(4, 40, (ROWS, 13), generator=torch.Generator().manual_seed(1))

    def learn() -> None:
        memory = () if model.spec.encoder is None else (model.encode(tokens[:, :7]),)
        logits = model(tokens[:, :-1], *memory)
        F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()

    learn()
    with count_cost() as found:
        learn()
    assert found.operations <= operations * SLACK
    assert found.calls <= calls * SLACK
