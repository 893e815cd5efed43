"""A run that is trained in a process of its own is the run that it would be here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard.errors import RegardError
from regard.runs.apart import read_progress, train_apart
from regard.runs.campaign import Campaign, has_ended, read_divergence
from regard.runs.standing import read_standing
from tests.runs.recipes import RECURRENT, make_recipe


def test_a_run_of_a_process_of_its_own_is_the_same_run(tmp_path: Path) -> None:
    tame, wild = make_recipe(RECURRENT), make_recipe(RECURRENT, "train.optimizer.rate=1e30", "train.clip=null")
    told = {"apart": tame, "wild": wild, "here": tame}
    documents = {name: document.change([f"out={tmp_path}/{name}"]) for name, document in told.items()}
    here = Campaign({"here": documents.pop("here")}).conduct()["here"]
    campaign = Campaign(documents, apart=True, lenient=True)
    runs = campaign.conduct()
    assert campaign.diverged == ["wild"] and "loss nan" in str(read_divergence(runs["wild"].folder))
    assert has_ended(runs["apart"].folder)
    assert read_standing(runs["apart"]).measures == read_standing(here).measures
    again = Campaign(documents, apart=True, lenient=True)
    again.conduct()
    assert again.found == ["apart", "wild"] and again.diverged == ["wild"]  # nothing is tried twice


def test_why_a_process_failed_is_told(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="not a run, there is no such folder") as caught:
        train_apart(tmp_path / "nothing")
    assert caught.value.status == 4


def test_how_far_it_is_stands_in_its_journal(tmp_path: Path) -> None:
    journal = tmp_path / "metrics.jsonl"
    assert read_progress(journal) == 0
    lines = [json.dumps({"event": "step", "step": step, "progress": step / 8}) for step in (1, 2, 3)]
    journal.write_text("\n".join([*lines, '{"event": "step", "st']))
    assert read_progress(journal) == 37
