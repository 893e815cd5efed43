"""Reward by divergence: the best of n against enumeration, what curves say, and a curve of real runs."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard.errors import InputError, RegardError
from regard.runs.folder import Run
from regard.runs.frontier import Frontier, Standpoint, choose_best, choose_steps, share_best, trace_frontier
from regard.tasks.measures import Measure
from tests.cli.test_cli import regard as run_here

SMALL = {"kind": "gpt2", "width": 16, "depth": 1, "heads": 2, "context": 40, "dropout": 0.0}
COPY = {"kind": "copy", "sizes": [1, 2], "symbols": 3, "train": 60, "validation": 12, "test": 12}
TRAIN = {"steps": 4, "evaluate": 2, "save": 2, "keep": 5}


def train(folder: Path, name: str, **tree: Any) -> str:
    file = folder / f"{name}.yaml"
    usual = {"corpus": COPY, "train": TRAIN, "device": "cpu", "out": str(folder / name)}
    file.write_text(json.dumps({**usual, **tree}))
    regard.fit(file)
    return str(folder / name)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    place = tmp_path_factory.mktemp("frontier")
    task = {"kind": "instruction", "context": 40}
    start = train(place, "begun", task=task, model=SMALL, tokenizer={"pieces": "word"}, batches={"tokens": 400})
    policy: dict[str, Any] = {"kind": "policy", "reward": "right", "samples": 2, "most": 6, "validation": 6}
    shared: dict[str, Any] = {"start": start, "batches": {"rows": 8}}
    found = {"begun": start, "ppo": train(place, "ppo", task=policy, **shared)}
    found["grpo"] = train(place, "grpo", task={**policy, "method": "grpo"}, **shared)
    found["plain"] = train(place, "plain", task={**policy, "format": "plain"}, **shared)
    other = train(place, "other", task=task, model=SMALL, tokenizer={"pieces": "word"}, seed=2)
    found["strange"] = train(place, "strange", task=policy, start=other, batches={"rows": 8})
    return found


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_the_best_of_n_is_that_of_all_choices(n: int) -> None:
    scores = np.array([[0.3, -1.0, 2.0, 0.7, 0.1], [1.0, 1.0, 0.0, 1.0, 0.0]])
    shares = share_best(scores, n)
    assert shares.sum(1) == pytest.approx([1.0, 1.0])
    for row, own in zip(scores, shares, strict=True):
        best = [max(row[list(some)]) for some in combinations(range(5), n)]
        assert float((row * own).sum()) == pytest.approx(float(np.mean(best)))
    assert shares[1][0] == pytest.approx(shares[1][3])  # equal answers have equal chances


def test_the_last_reward_chooses_and_all_are_told() -> None:
    true, learned = np.array([[0.0, 1.0, 2.0, 3.0]] * 3), np.array([[3.0, 2.0, 1.0, 0.0]] * 3)
    found = choose_best({"true": true, "learned": learned}, [[[1], [1, 2], [1], [1]]] * 3)
    assert [one.point for one in found] == ["n 2", "n 4"]
    assert found[-1].rewards["learned"].value == 3 and found[-1].rewards["true"].value == 0
    assert found[-1].kl.value == pytest.approx(np.log(4) - 3 / 4)


def make_frontier(*curve: tuple[float, float, float]) -> Frontier:
    def stand(label: str, kl: float, true: float, learned: float) -> Standpoint:
        earned = {
            name: Measure(value, value - 0.1, value + 0.1) for name, value in (("true", true), ("judge", learned))
        }
        return Standpoint(label, "step 1", Measure(kl, kl, kl), earned, 5.0)

    start = stand("start", 0.0, 0.0, 0.0)
    stands = [stand("ppo", *point) for point in curve]
    return Frontier(["true", "judge"], "test", 20, start, {"true": 0.5, "judge": 1.0}, stands)


def test_over_optimisation_is_told_where_it_is_seen() -> None:
    bent = make_frontier((9.0, 0.4, 3.0), (2.0, 1.0, 1.0), (1.0, 0.5, 0.6)).conclude()
    assert bent[0] == "ppo: true 1 at 2.00 nats (+1, +2.00 of the start's deviations)."
    assert "over-optimised beyond 2.00 nats: judge still rises from 1 to 3, and true falls to 0.4" in bent[1]
    assert len(make_frontier((1.0, 0.5, 0.6), (2.0, 1.0, 1.0)).conclude()) == 1
    assert len(make_frontier((2.0, 1.0, 1.0), (9.0, 0.95, 3.0)).conclude()) == 1  # that may be chance


def test_checkpoints_of_runs_become_curves(runs: dict[str, str], tmp_path: Path) -> None:
    found = trace_frontier([runs["ppo"], runs["grpo"]], prompts=8, largest=4)
    assert found.data == "validation"  # whoever looks at a curve chooses by it
    assert found.policies == ["ppo", "grpo", "best of n"] and found.rewards == ["right"] and found.prompts == 8
    assert [one.point for one in found.stands if one.policy == "ppo"] == ["step 2", "step 4"]
    assert all(one.kl.value > -1e-5 for one in found.stands) and all(one.length >= 1 for one in found.stands)
    told = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert len(told["points"]) == 1 + 4 + 2
    page = found.save(tmp_path / "curve.html")
    assert page.read_text().startswith("<!doctype html>")
    again = trace_frontier([runs["ppo"], runs["grpo"]], prompts=8, largest=4)
    assert again.rows() == found.rows()  # the same prompts by the same seeds
    assert choose_steps(Run.open(Path(runs["ppo"])), 1) == [2]


def test_a_curve_is_drawn_in_one_precision(tmp_path: Path) -> None:
    task, wide = {"kind": "instruction", "context": 40}, {**SMALL, "width": 128}
    start = train(tmp_path, "begun", task=task, model=wide, tokenizer={"pieces": "word"}, batches={"tokens": 400})
    policy = {"kind": "policy", "reward": "right", "samples": 2, "most": 6, "validation": 6}
    still = {**TRAIN, "optimizer": {"kind": "adamw", "rate": 1e-9}}  # so it goes nowhere
    run = train(tmp_path, "ppo", task=policy, start=start, batches={"rows": 8}, train=still)
    whole, packed = (trace_frontier([run], prompts=6, largest=1, precision=bits) for bits in (None, "int4"))
    assert whole.as_json()["precision"] == "fp32" and packed.as_json()["precision"] == "int4"
    # distances are between models of one precision: had the start more bits, rounding would be a distance
    assert all(abs(one.kl.value) < 1e-4 for one in packed.stands)
    done = run_here("frontier", run, "--prompts", "6", "--best-of", "1", "--precision", "int8")
    assert done.returncode == 0 and "6 prompts of validation, in int8" in done.stdout, done.stderr


def test_what_has_no_curve_is_refused(runs: dict[str, str]) -> None:
    def refuse(nouns: list[str], words: str, **settings: Any) -> None:
        with pytest.raises(RegardError, match=words) as caught:
            trace_frontier(nouns, **settings)
        assert caught.value.hint

    refuse([runs["begun"]], "learned instruction")
    refuse([runs["ppo"], runs["strange"]], "began as different models")
    refuse([f"{runs['ppo']}@step-2"], "all checkpoints")
    refuse([runs["ppo"]], "is there twice", rewards=["right", "right"])
    refuse([runs["ppo"]], "can't be read", rewards=["{kind: right"])
    refuse([runs["ppo"], runs["plain"]], "ppo reads conversations as turns, and .*plain as plain")
    with pytest.raises(InputError, match="1 prompts"):
        trace_frontier([runs["ppo"]], prompts=1)


def test_the_verb_tells_curves(runs: dict[str, str], tmp_path: Path) -> None:
    done = run_here("frontier", runs["ppo"], "--prompts", "6", "--best-of", "2", "--out", str(tmp_path / "curve.csv"))
    assert done.returncode == 0, done.stderr
    assert "best of n" in done.stdout and "KL, nats" in done.stdout and max(map(len, done.stdout.splitlines())) <= 80
    assert (tmp_path / "curve.csv").read_text().startswith("policy,point,kl,right,right low,right high,length\n")
    told = json.loads(run_here("frontier", runs["ppo"], "--prompts", "6", "--best-of", "1", "--json").stdout)
    assert {point["policy"] for point in told["points"]} == {"start", "ppo"}
