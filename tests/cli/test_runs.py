"""Runs as their owner looks after them: listed, followed, shown, deleted, replaced."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import patch

import pytest
import torch

from regard.core.model import ModelSpec
from regard.errors import Busy, CheckpointError
from regard.models import preset
from regard.runs.convert import save
from regard.runs.folder import Run
from regard.runs.follow import Tail, follow
from regard.runs.listing import describe_run
from regard.runs.lock import hold, is_held
from regard.runs.resolve import resolve
from tests.cli.test_cli import Done, regard
from tests.cli.test_verbs import told
from tests.train.small import document

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of six steps."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("looked-after")
    tree = document(folder / "runs/one", "train.steps=6", "train.evaluate=3", "train.save=2").tree
    (folder / "one.yaml").write_text(json.dumps(tree))
    done = regard("train", str(folder / "one.yaml"))
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def place(trained: Path, tmp_path: Path) -> Path:
    """A copy of it, to spoil."""
    shutil.copytree(trained, tmp_path / "copy")
    return tmp_path / "copy"


def again(place: Path, *words: str) -> Done:
    return regard("train", str(place / "one.yaml"), f"out={place / 'runs/one'}", *words)


def test_a_run_is_a_row(trained: Path) -> None:
    (row,) = told(regard("runs", str(trained / "runs"), "--json"))
    assert (row["task"], row["model"], row["state"], row["step"]) == ("translation", "transformer-tiny", "done", 6)
    assert row["measure"] == "bleu" and row["best"] is not None
    spec = ModelSpec.parse(resolve(row["run"]).json("spec"))
    assert row["parameters"] == spec.build("meta").parameter_count()
    files = [path for path in (trained / "runs/one").rglob("*") if path.is_file()]
    assert row["bytes"] == sum(path.stat().st_size for path in files)
    assert abs(row["changed"] - time.time()) < 600
    table = regard("runs", str(trained / "runs")).stdout.splitlines()
    assert table[0].split() == ["run", "task", "model", "size", "step", "best", "state", "when", "space"]
    assert "10.4K" in table[1] and "done" in table[1]


def test_states_are_told_apart(place: Path) -> None:
    runs = place / "runs"
    for name in ("stopped", "old", "damaged", "mess", "made", "training"):
        shutil.copytree(runs / "one", runs / name)
    journal = runs / "stopped/metrics.jsonl"
    journal.write_text("".join(line + "\n" for line in journal.read_text().splitlines() if '"end"' not in line))
    settings = (runs / "stopped/run.yaml").read_text()
    (runs / "stopped/run.yaml").write_text(settings.replace("steps: 6", "steps: 60"))
    (runs / "old/metrics.jsonl").write_text("")  # an earlier version's doesn't tell the end, its checkpoint does
    facts = json.loads((runs / "old/run.json").read_text())
    (runs / "old/run.json").write_text(json.dumps({**facts, "parameters": None}))
    (runs / "damaged/checkpoints/step-6/model.safetensors").write_bytes(b"")
    (runs / "mess/run.yaml").write_text("{{{")
    shutil.rmtree(runs / "made")
    (runs / "made").mkdir()
    (runs / "made/preparing").write_text("")
    with hold(runs / "training"):
        rows = {Path(row["run"]).name: row for row in told(regard("runs", str(runs), "--json"))}
        assert told(regard("runs", str(runs), "--state", "training", "--json")) == [rows["training"]]
    assert {name: row["state"] for name, row in rows.items()} == {
        "one": "done",
        "stopped": "stopped",
        "old": "done",
        "damaged": "damaged",
        "mess": "damaged",
        "made": "stopped",
        "training": "training",
    }
    assert "model.safetensors" in rows["damaged"]["problem"]
    assert rows["old"]["parameters"] == rows["one"]["parameters"]
    shown = regard("runs", str(runs))
    assert shown.returncode == 0
    assert "run.yaml" in shown.stderr and "Traceback" not in shown.stderr


def test_runs_are_sorted_and_chosen(place: Path) -> None:
    runs = place / "runs"
    shutil.copytree(runs / "one", runs / "deep/two")
    (runs / "deep/two/data/notes").write_text("x" * 10**6)
    names = lambda *words: [Path(row["run"]).name for row in told(regard("runs", str(runs), *words, "--json"))]  # noqa: E731
    assert names() == ["two", "one"]  # by their paths
    assert names("--sort", "space") == ["two", "one"]
    assert names("--task", "language") == []
    assert names("--model", "transformer-tiny", "--task", "translation") == ["two", "one"]
    assert regard("runs", str(runs), "--sort", "colour").returncode == 2
    assert regard("runs", str(place / "none")).returncode == 3


def test_a_run_is_deleted_and_nothing_else(place: Path) -> None:
    run = place / "runs/one"
    mine = [run / "notes.txt", run / "checkpoints/step-6/mine", run / "data/mine.txt"]
    for path in mine:
        path.write_text("mine")
    done = regard("rm", str(run), "--yes")
    assert done.returncode == 0, done.stderr
    assert sorted(path for path in run.rglob("*") if path.is_file()) == sorted(mine)
    for path in mine:
        assert f"{path}: left" in done.stderr
        path.unlink()
    assert regard("rm", str(run), "--yes").returncode == CheckpointError.status  # it isn't a run any more


def test_rm_refuses_before_it_deletes_anything(place: Path) -> None:
    run = place / "runs/one"
    with hold(run):
        done = regard("rm", str(run), "--yes")
    assert done.returncode == Busy.status
    assert "regard log" in done.stderr
    assert regard("rm", str(run), str(place / "none"), "--yes").returncode == CheckpointError.status
    asked = regard("rm", str(run))
    assert asked.returncode == 2 and "--yes" in asked.stderr
    assert resolve(f"{run}@latest").step == 6


@pytest.mark.parametrize(("answer", "gone"), [("y", True), ("", False), ("no", False)])
def test_rm_asks_on_a_terminal(place: Path, answer: str, gone: bool) -> None:
    run = place / "runs/one"
    with patch.object(sys.stdin, "isatty", lambda: True), patch("builtins.input", lambda _: answer):
        done = regard("rm", str(run))
    assert f"{run}: transformer-tiny, step 6" in done.stderr
    assert run.exists() != gone
    assert (done.returncode == 0) == gone


def test_a_damaged_run_can_be_deleted(place: Path) -> None:
    (place / "runs/one/run.yaml").write_text("{{{")
    assert regard("rm", str(place / "runs/one"), "--yes").returncode == 0
    assert not (place / "runs/one").exists()


def test_force_replaces_a_run(place: Path) -> None:
    run = place / "runs/one"
    (run / "notes.txt").write_text("mine")
    refused = again(place)
    assert refused.returncode == 1
    assert "--force" in refused.stderr
    done = again(place, "--force", "train.steps=3", "--json")
    assert told(done)[0]["run"] == str(run)
    assert str(run) + ".tmp" not in done.stderr
    assert sorted(path.name for path in (run / "checkpoints").glob("step-*")) == ["step-2", "step-3"]
    assert Run.open(run).spec.train.steps == 3
    assert (run / "notes.txt").read_text() == "mine"
    assert [path.name for path in run.parent.iterdir()] == ["one"]
    assert regard("resume", str(run), "train.steps=4").returncode == 0


def test_force_where_nothing_is_begins_as_usual(place: Path) -> None:
    out = place / "runs/new"
    assert regard("train", str(place / "one.yaml"), f"out={out}", "train.steps=2", "--force").returncode == 0
    assert resolve(str(out)).step == 2


@pytest.mark.parametrize("words", [["model.heads=7"], ["corpus.train=0"], ["tokenizer.like=none"]], ids=str)
def test_the_old_run_stays_if_the_new_one_cannot_begin(place: Path, words: list[str]) -> None:
    run = place / "runs/one"
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != "lock"}
    assert again(place, "--force", *words).returncode != 0
    assert {path: path.read_bytes() for path in before} == before
    assert [path.name for path in run.parent.iterdir()] == ["one"]


def test_force_refuses_a_run_that_is_trained_or_holds_others_files(place: Path) -> None:
    run = place / "runs/one"
    with hold(run):
        assert again(place, "--force").returncode == Busy.status
    (run / "data/mine.txt").write_text("mine")
    done = again(place, "--force")
    assert done.returncode == 1
    assert "data/mine.txt" in done.stderr
    assert resolve(f"{run}@latest").step == 6


def test_whoever_looks_does_not_stop_a_trainer(place: Path) -> None:
    """A look holds the lock for a moment; a trainer that comes just then tries again."""
    run = place / "runs/one"
    assert not is_held(run)
    code = (
        "import fcntl, sys, time\nfile = open(sys.argv[1])\nfcntl.flock(file, fcntl.LOCK_SH)\n"
        "print('held', flush=True)\ntime.sleep(0.08)"
    )
    looker = subprocess.Popen([sys.executable, "-c", code, str(run / "lock")], stdout=subprocess.PIPE)
    assert looker.stdout is not None and looker.stdout.readline()
    with hold(run):
        assert is_held(run)
    looker.wait()
    looker.stdout.close()


def test_show_draws_a_run_a_checkpoint_and_a_folder(place: Path) -> None:
    run = place / "runs/one"
    (drawn,) = told(regard("show", str(run), "--json"))
    assert drawn["parameters"] == describe_run(run).parameters
    assert told(regard("show", f"{run}@step-6", "--json"))[0]["tree"]["children"] == drawn["tree"]["children"]
    for path in run.rglob("*.safetensors"):  # of the right size, and without a weight in it
        path.write_bytes(b"\0" * path.stat().st_size)
    assert told(regard("show", str(run), "--json")) == [drawn]
    assert "blocks.0" in regard("show", str(run)).stdout
    refused = regard("show", str(run), "depth=2")
    assert refused.returncode == 2 and "depth=2" in refused.stderr
    shutil.rmtree(run / "checkpoints")
    assert told(regard("show", str(run), "--json")) == [drawn]
    config = {"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 100, "n_positions": 16}
    (place / "hf").mkdir()
    (place / "hf/config.json").write_text(json.dumps({**config, "architectures": ["GPT2LMHeadModel"]}))
    (found,) = told(regard("show", str(place / "hf"), "--json"))
    (preset,) = told(regard("show", "gpt2", "width=32", "depth=2", "heads=2", "vocabulary=100", "context=16", "--json"))
    assert found["parameters"] == preset["parameters"]


def test_a_preset_is_not_a_folder_of_its_name(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    (place / "runs/one").rename(place / "gpt2")
    preset, folder = regard("show", "gpt2", "--json"), regard("show", "./gpt2", "--json")
    assert "./gpt2 means the folder" in preset.stderr
    assert told(preset)[0]["parameters"] > 10**8 > told(folder)[0]["parameters"]


def test_log_tells_what_happened(trained: Path) -> None:
    run = trained / "runs/one"
    done = regard("log", str(run))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split()[:3] == ["step", "time", "loss"]
    assert [line.split()[0] for line in lines[1:3]] == ["3", "6"]
    assert lines[3].startswith("step 6  loss ") and "100%" in lines[3]
    assert lines[4].startswith("done at step 6, best bleu")
    assert max(map(len, lines)) <= 90 and "\x1b" not in done.stdout
    entries = told(regard("log", str(run), "--json"))
    assert [entry["event"] for entry in entries].count("step") == 6
    assert entries[-1]["event"] == "end" and entries[-1]["reason"] == "budget"
    assert regard("log", str(trained)).returncode == CheckpointError.status


def test_log_follows_a_run_until_it_ends(place: Path) -> None:
    """Another process trains; every step is told once, and the log ends with the run."""
    out = place / "runs/live"
    words = ["train", str(place / "one.yaml"), f"out={out}", "train.steps=30", "train.evaluate=10"]
    trainer = subprocess.Popen(
        [sys.executable, "-m", "regard", *words], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while not (out / "run.yaml").exists() or not is_held(out):  # the lock comes first
        assert trainer.poll() is None
        time.sleep(0.02)
    assert told(regard("log", str(out), "--no-follow", "--json")) is not None  # comes back at once
    entries = told(regard("log", str(out), "--json"))
    assert trainer.wait() == 0
    assert [entry["step"] for entry in entries if entry["event"] == "step"] == list(range(1, 31))
    assert entries[-1]["event"] == "end"


def test_a_journal_that_was_put_in_its_place_is_read_on(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    tail = Tail(path)
    assert tail.read() == []
    lines = [json.dumps({"event": "step", "step": n, "loss": 1.0}) + "\n" for n in range(1, 5)]
    path.write_text("".join(lines[:3]) + lines[3][:9])
    assert [entry["step"] for entry in tail.read()] == [1, 2, 3]
    other = json.dumps({"event": "step", "step": 3, "loss": 0.5}) + "\n"  # it goes on from step 2
    (tmp_path / "new").write_text("".join(lines[:2]) + other)
    (tmp_path / "new").replace(path)
    assert [(entry["step"], entry["loss"]) for entry in tail.read()] == [(3, 0.5)]


def test_a_run_that_goes_on_is_not_at_its_end(place: Path) -> None:
    run = place / "runs/one"
    assert regard("resume", str(run), "train.steps=8").returncode == 0
    ends = [entry["step"] for group in follow(run, wait=False) for entry in group if entry["event"] == "end"]
    assert ends == [8]


def test_a_model_that_was_saved_by_itself_is_listed_shown_and_deleted(tmp_path: Path) -> None:
    model = preset("gpt2", width=16, depth=1, heads=2, vocabulary=30).build()
    save(model, tmp_path / "mine")
    (row,) = told(regard("runs", str(tmp_path), "--json"))
    assert (row["state"], row["model"], row["parameters"]) == ("saved", "gpt2", model.parameter_count())
    assert told(regard("show", row["run"], "--json"))[0]["parameters"] == model.parameter_count()
    assert regard("rm", row["run"], "--yes").returncode == 0
    assert not (tmp_path / "mine").exists()
