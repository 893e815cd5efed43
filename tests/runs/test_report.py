"""Reports: all that is known of runs, side by side, whatever state their folders are in."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.errors import CheckpointError, InputError
from regard.runs.account import Account, read_account
from regard.runs.lock import hold
from regard.runs.report import (
    MOST,
    RunReport,
    collect_report,
    compare_settings,
    find_incomparable,
    find_winners,
    label_runs,
)
from regard.tasks.translation import TranslationTaskSpec
from regard.train.listener import read_journal
from tests.train.small import begun, trainer

KEPT = Path(__file__).parent.parent / "fixtures" / "0.1"
WORDS = ["train.steps=6", "train.evaluate=3", "train.save=3"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two small runs on the same data."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("reported")
    for name, words in {"transformer": [], "attentive": ["train.optimizer.rate=0.01", "seed=3"]}.items():
        trainer(begun(folder / name, *WORDS, *words, model=name)).run()
    return folder


@pytest.fixture
def place(trained: Path, tmp_path: Path) -> Path:
    """A copy of them, to spoil."""
    return Path(shutil.copytree(trained, tmp_path / "copy"))


def find(report: RunReport, kind: str) -> Any:
    """The data of the figure of a kind."""
    (found,) = [figure.data for figure in report.figures() if figure.kind == kind]
    return found


def test_a_report_tells_what_the_folder_and_the_model_say(trained: Path) -> None:
    report = collect_report([str(trained / "transformer")], samples=2)
    (run,), (asked,) = report.runs, report.asked
    entries = read_journal(run.folder / "metrics.jsonl")
    steps = [entry for entry in entries if entry["event"] == "step"]
    last = [entry for entry in entries if entry["event"] == "evaluation"][-1]
    facts = run.facts
    assert facts["state"] == "done" and facts["model"] == "transformer-tiny" and facts["seed"] == "1"
    assert facts["steps"] == 6 and facts["tokens"] == steps[-1]["tokens"]
    assert facts["time"] == entries[-1]["seconds"] >= last["seconds"]
    assert facts["peak memory"] == max(entry["peak_memory"] for entry in entries if "peak_memory" in entry) > 10**7
    assert facts["data"] == json.loads((run.folder / "run.json").read_text())["data"]
    assert f"torch {torch.__version__}" in facts["versions"] and " × " in facts["machine"]
    assert run.curves.series["loss"].value == pytest.approx([entry["loss"] for entry in steps])
    assert run.curves.measures["bleu"].value[-1] == last["bleu"]
    assert run.goal == "bleu" and run.rising["bleu"] and not run.rising["loss"]
    assert run.notes == []
    assert asked.roles == TranslationTaskSpec.roles and asked.split == "validation" and len(asked.examples) == 2
    told = json.loads(json.dumps(report.as_json(), allow_nan=False))
    assert told["runs"][0]["facts"] == facts and len(told["runs"][0]["asked"]["examples"]) == 2


def test_a_page_is_small_and_has_all_parts(trained: Path) -> None:
    report = collect_report([str(trained / name) for name in ("transformer", "attentive")], ["I like the cat."])
    kinds = [figure.kind for figure in report.figures()]
    assert kinds == ["summary", "curves", "evaluations", "samples", "looks", "settings"]
    page = report.page()
    assert len(page) < 500_000
    assert page.count("<script") == 2 + page.count('id="chunk-')  # the data, the viewer, and arrays: nothing is fetched
    assert "http://www.w3.org/2000/svg" in page and "https://" not in page
    samples = find(report, "samples")
    assert [answer["run"] for answer in samples["groups"][0]["answers"]] == [0, 1]  # same data, same questions
    assert samples["groups"][-1]["given"] == ["I like the cat."] and samples["groups"][-1]["expected"] == []
    (text,) = find(report, "looks")["texts"]
    assert [look["run"] for look in text["looks"]] == [0, 1]


def test_only_what_differs_is_listed_as_different(trained: Path) -> None:
    report = collect_report([str(trained / name) for name in ("transformer", "attentive")], model=False)
    settings = find(report, "settings")
    differing = {one["key"]: one["values"] for one in settings["differing"]}
    assert differing["train.optimizer.rate"] == ["0.001", "0.01"] and differing["seed"] == ["1", "3"]
    assert differing["model.kind"] == ["transformer-tiny", "luong-feed"]
    assert differing["model.heads"] == ["2", None]  # the other model has none
    equal = {one["key"]: one["value"] for one in settings["equal"]}
    assert equal["train.steps"] == "6" and not equal.keys() & differing.keys() and "out" not in {**equal, **differing}
    keys = list(differing)
    assert keys.index("model.heads") == keys.index("model.kind") + 1 or keys.index("model.heads") < keys.index("seed")
    assert len(settings["files"]) == 2 and settings["files"][0]["text"] == report.runs[0].text


def test_settings_that_an_earlier_version_did_not_know_are_filled_in() -> None:
    run = read_account(str(KEPT / "translation"), "old")
    assert "goal:" not in run.text and run.settings["train.goal"] is None
    assert run.goal == "bleu"  # found by its value: that version kept no name
    assert run.facts["best"].startswith("bleu ") and "peak memory" not in run.facts


def test_runs_of_different_tasks_stand_side_by_side() -> None:
    names = ("translation", "language", "classification", "tagging")
    report = collect_report([str(KEPT / name) for name in names], samples=1)
    found = find(report, "evaluations")
    assert "different tasks" in found["note"] and found["winners"] == {}
    groups = find(report, "samples")["groups"]
    assert [group["roles"][0] for group in groups] == ["source", "prompt", "text", "words"]
    assert [bool(group["aligned"]) for group in groups] == [False, False, False, True]
    report.page()


def account(label: str, task: str = "translation", data: str = "a", tokens: str = "t") -> Account:
    found = read_account(str(KEPT / "translation"), label)
    found.row.task, found.facts["data"], found.tokenizers = task, data, {"tokenizer.json": tokens}
    return found


def test_what_cannot_be_compared_is_not() -> None:
    assert find_incomparable([account("a"), account("b")]) == (set(), "")
    names = set(account("a").curves.measures)
    assert find_incomparable([account("a"), account("b", task="language")])[0] == names
    assert find_incomparable([account("a"), account("b", data="other")])[0] == names
    blind, note = find_incomparable([account("a"), account("b", tokens="other")])
    assert blind == {"loss", "perplexity"} and "tokens" in note


def test_the_best_is_the_largest_or_the_smallest_and_ties_share_it() -> None:
    def row(run: int, bleu: float | None, loss: float) -> dict[str, Any]:
        return {"run": run, "values": {"bleu": [bleu, None, None], "loss": [loss, None, None]}}

    rows = [row(0, 30.0, 2.0), row(1, 31.0, 1.0), row(2, None, 1.0)]
    assert find_winners(rows, {"bleu": True, "loss": False}) == {"bleu": [1], "loss": [1, 2]}
    assert find_winners(rows[:1], {"bleu": True}) == {}  # nobody wins alone
    assert find_winners(rows, {}) == {}


def test_runs_are_called_by_as_much_of_their_paths_as_tells_them_apart(tmp_path: Path) -> None:
    assert label_runs([f"{tmp_path}/a/x", f"{tmp_path}/b/y"]) == ["x", "y"]
    assert label_runs([f"{tmp_path}/a/x", f"{tmp_path}/b/x", f"{tmp_path}/b/y"]) == ["a/x", "b/x", "y"]
    with pytest.raises(InputError, match="twice"):
        label_runs([f"{tmp_path}/a", f"{tmp_path}/b/../a"])


def test_two_checkpoints_of_a_run_are_two(trained: Path) -> None:
    run = trained / "transformer"
    report = collect_report([f"{run}@step-3", f"{run}@latest"], samples=1)
    assert report.labels == ["transformer@step-3", "transformer@latest"]
    assert compare_settings(report.runs)["seed"] == ["1", "1"]


def test_what_is_no_run_is_refused_before_anything_is_read(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no such folder") as error:
        collect_report([str(trained / "transformer"), str(trained / "transformr")])
    assert "did you mean" in error.value.hint and "transformer" in error.value.hint
    with pytest.raises(CheckpointError, match="there are 2 in it") as error:
        collect_report([str(trained)])
    assert "/*" in error.value.hint
    with pytest.raises(CheckpointError, match=r"no run\.yaml"):
        collect_report([str(tmp_path)])
    with pytest.raises(InputError, match="at most"):
        collect_report([str(trained / "transformer")], ["x"] * (MOST + 1))


def test_a_run_that_is_trained_now_says_so(place: Path) -> None:
    with hold(place / "transformer"):
        report = collect_report([str(place / "transformer")], model=False)
    assert report.runs[0].facts["state"].startswith("training")


def test_a_run_that_was_only_begun_has_a_report(tmp_path: Path) -> None:
    run = begun(tmp_path / "run")
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "preparing").write_text("")
    report = collect_report([str(run.folder), str(tmp_path / "made")])
    assert [one.facts["state"] for one in report.runs] == ["stopped", "stopped"]
    assert any("metrics.jsonl" in note for note in report.runs[0].notes)
    assert any("nothing was saved yet" in note for note in report.asked[0].notes)
    assert find(report, "curves")["panels"] == [] and find(report, "evaluations")["rows"] == []
    report.page()


def test_damaged_weights_cost_the_samples_and_nothing_else(place: Path) -> None:
    for path in (place / "transformer/checkpoints").glob("*/model.safetensors"):
        path.write_bytes(b"\0" * path.stat().st_size)
    report = collect_report([str(place / "transformer"), str(place / "attentive")], samples=1)
    assert "model.safetensors: damaged" in report.asked[0].notes[0] and report.asked[0].examples == []
    assert len(report.asked[1].examples) == 1 and report.asked[1].notes == []
    assert report.runs[0].curves.series["loss"].value
    notes = find(report, "samples")["notes"]
    assert [note["run"] for note in notes] == [0]
    report.page()


def test_an_older_checkpoint_that_is_used_is_noted(place: Path) -> None:
    newest = place / "transformer/checkpoints/step-6/model.safetensors"
    newest.write_bytes(b"\0" * newest.stat().st_size)
    (asked,) = collect_report([f"{place / 'transformer'}@latest"], samples=1).asked
    assert any("an older one is used" in note for note in asked.notes) and len(asked.examples) == 1


READ = ("run.yaml", "run.json", "metrics.jsonl", "data/data.json", "data/validation.jsonl", "checkpoints/latest")
SAVED = ("MANIFEST.json", "state.json", "spec.json", "model.safetensors", "tokenizer.json")


@pytest.mark.parametrize("harm", ["gone", "cut", "wrong types"])
def test_whatever_is_damaged_a_report_is_made(harm: str, place: Path) -> None:
    """Each file that a report reads in turn; the report comes, and its page can be written."""
    run = place / "transformer"
    for name in [*READ, *(f"checkpoints/step-6/{name}" for name in SAVED)]:
        path = run / name
        content = path.read_bytes()
        strange = b"[1, null, {}]" if name.endswith(".json") else b'{"step": 1, "event": "step", "loss": {}}\n'
        if harm != "gone":
            path.write_bytes(content[: len(content) // 2] if harm == "cut" else strange)
        elif name != "run.yaml":  # without it, it isn't a run
            path.unlink()
        asked = harm == "cut" and name.startswith(("data/", "checkpoints/step-6/"))  # models are slow to ask
        report = collect_report([str(run)], samples=1, model=asked)
        json.dumps(report.as_json(), allow_nan=False)
        report.page()
        path.write_bytes(content)


def test_facts_of_a_strange_kind_are_text(place: Path) -> None:
    run = place / "transformer"
    facts = json.loads((run / "run.json").read_text())
    facts |= {"machine": {"a": [1]}, "versions": ["x"], "parameters": 10**400, "plugins": 7}
    (run / "run.json").write_text(json.dumps(facts))
    found = read_account(str(run), "run").facts
    assert found["machine"] == "{'a': [1]}" and "parameters" not in found and "plug-ins" not in found
    json.dumps(found, allow_nan=False)


def test_numbers_that_json_does_not_know_are_no_mistake(place: Path) -> None:
    run = place / "transformer"
    (run / "evaluations.jsonl").write_text('{"step": 3, "measures": {"bleu": NaN, "loss": 1.5}, "time": Infinity}\n')
    (run / "run.yaml").write_text((run / "run.yaml").read_text().replace("seed: 1", "seed: .nan"))
    report = collect_report([str(run)], model=False)
    json.dumps(report.as_json(), allow_nan=False)
    (test,) = find(report, "evaluations")["tests"]
    assert test["values"]["loss"] == [1.5, None, None]
    assert report.save(place / "page.html").stat().st_size > 10_000


def test_a_folder_with_the_name_of_a_preset_is_the_run(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    (place / "transformer").rename(place / "gpt2")
    facts = read_account("gpt2", "gpt2").facts
    assert (
        facts["memory of a generated token"]
        == read_account(str(place / "gpt2"), "x").facts["memory of a generated token"]
    )
    assert facts["memory of a generated token"] < 1000  # of 16 channels and one layer, and not of GPT-2


def test_names_and_texts_are_never_markup(trained: Path, tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>\u202e</script><script>alert(2)</script>"
    run = shutil.copytree(trained / "transformer", tmp_path / evil.replace("/", "\u2215"))
    page = collect_report([str(run)], [evil], samples=1).page()
    assert "<img" not in page and "<script>alert" not in page and "alert(2)</script>" not in page
    assert page.count("<script") == 2 + page.count('id="chunk-')


def test_a_text_that_cannot_be_answered_loses_no_other(tmp_path: Path) -> None:
    report = collect_report([str(KEPT / "language")], ["the cat", "word " * 5000], samples=1)
    (asked,) = report.asked
    assert len(asked.examples) == 2 and any("no answer" in note for note in asked.notes)
    assert any("no look" in note for note in asked.notes)
