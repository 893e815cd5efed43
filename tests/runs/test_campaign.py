"""Campaigns: what is there is used, what was stopped goes on, what was told something else is refused or replaced."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

import regard.runs.folder as folder_module
from regard.config import Document
from regard.data import preparation
from regard.errors import Divergence, RegardError
from regard.host.meter import Advance, Meter
from regard.runs.campaign import Campaign, compare_told, has_ended
from regard.runs.folder import Run
from regard.runs.resolve import resolve
from regard.runs.spec import RunSpec
from regard.runs.train import train
from regard.train.listener import history
from tests.train.small import document

SHORT = ("train.steps=4", "train.evaluate=0", "train.save=2", "corpus.train=80", "corpus.test=4")


def describe(out: Path, *words: str) -> Document:
    """A run file of a few steps."""
    return document(out, *SHORT, *words)


@pytest.fixture
def preparations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders in which a corpus was made ready, as it happens."""
    found: list[str] = []
    real = preparation.prepare

    def prepare(*given: Any) -> Any:
        found.append(given[5].parent.name)
        return real(*given)

    monkeypatch.setattr(folder_module, "prepare", prepare)
    return found


class Tally(Meter):
    """Adds up what it is told."""

    def __init__(self) -> None:
        self.total: int | None = None
        self.done = 0

    @contextmanager
    def watch(self, what: str, total: int | None = None) -> Iterator[Advance]:
        self.total = total

        def advance(count: int = 1) -> None:
            assert count >= 0
            self.done += count

        yield advance


def weights(run: Run) -> dict[str, torch.Tensor]:
    newest = run.store.latest()
    assert newest is not None
    return dict(newest.tensors("model"))


def test_runs_that_are_there_are_used(tmp_path: Path) -> None:
    told = {name: describe(tmp_path / name, f"seed={seed}") for seed, name in enumerate(("one", "two"))}
    first, meter = Campaign(told), Tally()
    runs = first.conduct(meter)
    assert first.found == [] and list(runs) == ["one", "two"]
    assert meter.done == meter.total == 200
    times = [(runs[name].folder / "metrics.jsonl").stat().st_mtime_ns for name in runs]
    second, silent = Campaign(told), Tally()
    again = second.conduct(silent)
    assert second.found == ["one", "two"] and silent.total is None
    assert [(again[name].folder / "metrics.jsonl").stat().st_mtime_ns for name in again] == times


def test_a_run_that_was_moved_is_the_same_run(tmp_path: Path) -> None:
    Campaign({"run": describe(tmp_path / "here")}).conduct()
    (tmp_path / "here").rename(tmp_path / "there")
    campaign = Campaign({"run": describe(tmp_path / "there")})
    campaign.conduct()
    assert campaign.found == ["run"]


def test_a_stopped_run_goes_on_and_equals_one_that_never_was(tmp_path: Path) -> None:
    straight = Campaign({"run": describe(tmp_path / "straight")}).conduct()["run"]

    class Stop(Exception):
        pass

    class Breaker(Tally):
        @contextmanager
        def watch(self, what: str, total: int | None = None) -> Iterator[Advance]:
            def advance(count: int = 1) -> None:
                self.done += count
                if self.done >= 75:  # after the third step, so that the checkpoint of the second is what is left
                    raise Stop

            yield advance

    told = {"run": describe(tmp_path / "run")}
    with pytest.raises(Stop):
        Campaign(told).conduct(Breaker())
    assert (tmp_path / "run" / "run.yaml").exists() and not has_ended(tmp_path / "run")
    campaign, meter = Campaign(told), Tally()
    resumed = campaign.conduct(meter)["run"]
    assert campaign.found == [] and meter.done == 100 and has_ended(resumed.folder)
    one, other = weights(straight), weights(resumed)
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
    losses = [
        [(line["step"], line["loss"]) for line in history(run.folder / "metrics.jsonl")] for run in (straight, resumed)
    ]
    assert losses[0] == losses[1] and len(losses[0]) >= 4


def test_a_run_that_was_told_something_else_is_refused_by_name(tmp_path: Path) -> None:
    Campaign({"run": describe(tmp_path / "run")}).conduct()
    with pytest.raises(RegardError, match=r"train\.optimizer\.rate is 0\.001.* 0\.01") as refused:
        Campaign({"run": describe(tmp_path / "run", "train.optimizer.rate=0.01")}).conduct()
    assert "regard rm" in refused.value.hint


def test_nothing_is_trained_before_all_are_checked(tmp_path: Path) -> None:
    Campaign({"old": describe(tmp_path / "old")}).conduct()
    told = {"new": describe(tmp_path / "new"), "old": describe(tmp_path / "old", "seed=5")}
    with pytest.raises(RegardError, match="seed is 1"):
        Campaign(told).conduct()
    assert not (tmp_path / "new").exists()


def test_a_run_that_was_told_something_else_is_replaced_where_it_is_ours(tmp_path: Path) -> None:
    before = weights(Campaign({"run": describe(tmp_path / "run")}).conduct()["run"])
    campaign = Campaign({"run": describe(tmp_path / "run", "seed=5")}, redo=True)
    run = campaign.conduct()["run"]
    assert campaign.found == [] and run.spec.seed == 5 and has_ended(run.folder)
    assert any(not torch.equal(before[name], tensor) for name, tensor in weights(run).items())


def test_two_runs_at_one_place_are_refused(tmp_path: Path) -> None:
    told = {"one": describe(tmp_path / "run"), "two": describe(tmp_path / "." / "other" / ".." / "run", "seed=2")}
    with pytest.raises(RegardError, match="two runs"):
        Campaign(told).conduct()
    assert not (tmp_path / "run").exists()


def test_runs_that_read_the_same_share_a_corpus(tmp_path: Path, preparations: list[str]) -> None:
    told = {str(seed): describe(tmp_path / str(seed), f"seed={seed}") for seed in (1, 2)}
    told["other"] = describe(tmp_path / "other", "corpus.train=90")
    runs = Campaign(told).conduct()
    assert preparations == ["1", "other"]
    digests = {name: run.prepared().digest for name, run in runs.items()}
    assert digests["1"] == digests["2"] != digests["other"]
    more = {"1": told["1"], "3": describe(tmp_path / "3", "seed=3"), "2": describe(tmp_path / "2", "seed=4")}
    Campaign(more, redo=True).conduct()
    assert preparations == ["1", "other"]  # a run that was found lends its corpus, also to one that is replaced


def test_a_decoder_alone_gets_a_corpus_of_its_own(tmp_path: Path, preparations: list[str]) -> None:
    """It reads both sides in one row, between which a token stands that others don't have."""
    alone = describe(tmp_path / "alone")
    alone.tree["model"] = {"kind": "decoder-tiny", "width": 16, "depth": 1, "heads": 2}
    runs = Campaign({"both": describe(tmp_path / "both"), "alone": alone}).conduct()
    assert preparations == ["both", "alone"]
    assert resolve(str(runs["alone"].folder)).step == 4


def test_a_run_that_diverges_ends_all_or_is_passed_over(tmp_path: Path) -> None:
    wild = ("train.optimizer.kind=sgd", "train.optimizer.rate=1e30", "train.clip=null", "train.schedule.warmup=0")
    told = {"wild": describe(tmp_path / "wild", *wild), "tame": describe(tmp_path / "tame")}
    with pytest.raises(Divergence):
        Campaign(told).conduct()
    assert not (tmp_path / "tame").exists()
    campaign, meter = Campaign(told, lenient=True), Tally()
    runs = campaign.conduct(meter)
    assert campaign.diverged == ["wild"] and campaign.found == []
    assert meter.done == meter.total == 200
    assert has_ended(runs["tame"].folder) and not has_ended(runs["wild"].folder)


def test_what_differs_is_named_and_places_do_not_count(tmp_path: Path) -> None:
    run = Run.open(train(describe(tmp_path / "run")).folder)
    assert compare_told(run.spec, run.spec) == {}
    other = Run.begin(describe(tmp_path / "other", "seed=9", "model.dropout=0.3")).spec
    assert compare_told(run.spec, other) == {"seed": (1, 9), "model.dropout": (0.1, 0.3)}


def test_another_start_or_folder_of_data_is_another_run(tmp_path: Path) -> None:
    specs = [
        RunSpec.parse(describe(tmp_path / "one", "model=null", f"start={start}", f"data={data}").tree)
        for start, data in (("a", "x"), ("b", "x"), ("a", "y"))
    ]
    assert compare_told(specs[0], specs[1]) == {"start": ("a", "b")}
    assert compare_told(specs[0], specs[2]) == {"data": ("x", "y")}


def test_a_damaged_journal_has_no_end(tmp_path: Path) -> None:
    assert not has_ended(tmp_path)
    end = json.dumps({"event": "end", "step": 3})
    (tmp_path / "metrics.jsonl").write_text(f"{end}\n")
    assert has_ended(tmp_path)
    (tmp_path / "metrics.jsonl").write_text(end[:-4])
    assert not has_ended(tmp_path)
