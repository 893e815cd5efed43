"""The best checkpoint is best by the measure that a run file names, and by no other."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from rich.console import Console

from regard.config import Document
from regard.core.model import Model
from regard.core.registry import Kinds
from regard.core.spec import Spec
from regard.errors import SpecError
from regard.lens.screen import Screen
from regard.runs.folder import Run
from regard.runs.resolve import resolve
from regard.runs.spec import RunSpec
from regard.runs.train import resume
from regard.tasks.task import TaskSpec
from regard.tasks.translation import TranslationTask, TranslationTaskSpec
from regard.train.checkpoint import verify
from regard.train.goal import Goal
from regard.train.listener import history
from regard.train.spec import TrainSpec
from regard.train.trainer import Trainer
from tests.runs.test_tasks import PICTURED
from tests.runs.test_tasks import RUNS as TEXTUAL
from tests.train.small import begun, document, trainer

RUNS = TEXTUAL | PICTURED


@pytest.mark.parametrize("name", sorted(TaskSpec.kinds))
def test_a_task_reports_what_it_declares(name: str, tmp_path: Path) -> None:
    usual = {"tokenizer": {"vocabulary": 200}, "batches": {"tokens": 256}, "train": {"steps": 1}, "device": "cpu"}
    run = Run.begin(Document({**usual, **RUNS[name], "out": str(tmp_path / "run")}))
    ready = run.trainer()
    measures = ready.run().measures
    task, declared = ready.task, run.spec.task.measures
    assert measures is not None and declared
    assert declared[task.goal] == task.rising
    for measure in declared:
        assert isinstance(measures[measure], float)
        assert Goal.choose(measure, declared) == Goal(measure, declared[measure])
        assert RunSpec.parse({**usual, **RUNS[name], "out": "x", "train": {"steps": 1, "goal": measure}})


class Known(TranslationTask):
    """A task whose evaluations are known beforehand."""

    values: list[Mapping[str, float]]

    def evaluate(self, model: Model, pulse: Any) -> Mapping[str, Any]:
        return self.values.pop(0)


def judged(run: Run, values: list[Mapping[str, float]], *listeners: Any) -> Trainer:
    ready = trainer(run, *listeners)
    task = ready.task
    known = Known(task.spec, task.prepared, task.plan, task.seed)
    known.values = values
    ready.task = known
    return ready


def told(*rows: tuple[float, float, float]) -> list[Mapping[str, float]]:
    return [{"bleu": bleu, "chrf": chrf, "loss": loss} for bleu, chrf, loss in rows]


ROWS = [(9.0, 1.0, 3.0), (1.0, 9.0, 2.0), (2.0, 2.0, 1.0), (3.0, 3.0, 4.0)]


@pytest.mark.parametrize(
    ("words", "best", "ranking"),
    [
        ([], 2, [(9.0, 2), (3.0, 8)]),
        (["train.goal=chrf"], 4, [(9.0, 4), (3.0, 8)]),
        (["train.goal=+chrf"], 4, [(9.0, 4), (3.0, 8)]),
        (["train.goal=loss"], 6, [(1.0, 6), (2.0, 4)]),
        (["train.goal=-loss"], 6, [(1.0, 6), (2.0, 4)]),
    ],
)
def test_checkpoints_are_ranked_by_the_goal(
    words: list[str], best: int, ranking: list[tuple[float, int]], tmp_path: Path
) -> None:
    run = begun(tmp_path / "run", "train.steps=8", "train.evaluate=2", "train.best=2", *words)
    output = io.StringIO()
    report = judged(run, told(*ROWS), Screen(Console(file=output, width=200))).run()
    assert report.moment.ranking == ranking
    assert resolve(f"{run.folder}@best").step == best
    marks = [line["step"] for line in history(run.folder / "metrics.jsonl") if line.get("best")]
    assert marks[-1] == best
    rows = [line.split() for line in output.getvalue().splitlines() if line.endswith("  best")]
    assert [int(row[0]) for row in rows] == marks


def test_patience_and_a_plateau_follow_the_goal(tmp_path: Path) -> None:
    schedule = "train.schedule={kind: plateau, patience: 1, shrink: 0.5, warmup: 0}"
    rows = [(1.0, 5.0, 5.0), (2.0, 4.0, 4.0), (3.0, 3.0, 3.0), (4.0, 2.0, 2.0)]
    found = {}
    for goal in ("bleu", "chrf", "loss"):
        words = ["train.steps=8", "train.evaluate=2", "train.patience=2", schedule, f"train.goal={goal}"]
        run = begun(tmp_path / goal, *words)
        report = judged(run, told(*rows)).run()
        rates = [line["rate"] for line in history(run.folder / "metrics.jsonl") if line["event"] == "step"]
        found[goal] = report.reason, report.moment.step, rates[-1] / rates[0]
    assert found == {"bleu": ("budget", 8, 1.0), "chrf": ("patience", 6, 0.5), "loss": ("budget", 8, 1.0)}


@pytest.mark.parametrize(
    ("goal", "message"),
    [
        ("chfr", r"no measure of this task is called 'chfr'; known: loss, perplexity, bleu, chrf, exact"),
        ("chfr", r"train\.goal=chrf"),
        ("accuracy", r"no measure of this task is called 'accuracy'; known: loss, perplexity, bleu, chrf, exact"),
        ("-chrf", r"-chrf, and more chrf is better"),
        ("+loss", r"\+loss, and less loss is better"),
        ("", r"names no measure"),
        ("- loss", r"names no measure"),
        ("--loss", r"names no measure"),
    ],
)
def test_a_goal_that_is_not_there_is_refused_when_the_run_file_is_read(goal: str, message: str, tmp_path: Path) -> None:
    tree = document(tmp_path / "run").tree
    tree["train"] = {**tree["train"], "goal": goal}
    with pytest.raises(SpecError, match=message):
        Run.begin(Document(tree))
    assert not (tmp_path / "run").exists()


class UndeclaredTaskSpec(TranslationTaskSpec):
    """A task of one's own that says nothing of its measures; it enters no registry."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds()
    measures: ClassVar[Mapping[str, bool]] = {}


def test_the_goal_of_a_task_that_declares_nothing_has_a_sign_and_is_refused_at_the_first_evaluation(
    tmp_path: Path,
) -> None:
    run = begun(tmp_path / "run", "train.steps=8", "train.evaluate=2", "train.best=2")

    def made(goal: str, *values: Mapping[str, float]) -> Trainer:
        ready = judged(run, list(values))
        fields = {name: value for name, value in ready.task.spec.fields().items() if name != "kind"}
        ready.task.spec = UndeclaredTaskSpec(**fields)
        spec = ready.spec.replace(goal=goal)
        again = Trainer(ready.model, ready.task, spec, archive=ready.archive)
        newest = run.store.latest()
        if newest is not None:
            again.restore(newest)
        return again

    with pytest.raises(SpecError, match="a sign must say which way 'taste' is better") as refused:
        made("taste")
    assert "train.goal=-taste" in refused.value.hint
    with pytest.raises(SpecError, match=r"step 2 is saved, .* there is no 'taste' among what was measured: bleu, chrf"):
        made("+taste", *told(ROWS[0])).run()
    values: list[Mapping[str, float]] = [{"smell": value} for value in (3.0, 1.0, 2.0, 4.0)]
    assert made("-smell", *values).run().moment.ranking == [(1.0, 4), (2.0, 6)]  # nothing was ranked by the other


def test_a_ranking_never_mixes_measures(tmp_path: Path) -> None:
    run = begun(tmp_path / "run", "train.steps=4", "train.evaluate=2")
    judged(run, told(*ROWS[:2])).run()
    before = (run.folder / "run.yaml").read_bytes()
    for _ in range(2):
        with pytest.raises(SpecError, match=r"train\.goal: chrf, and the checkpoints of this run are ranked by bleu"):
            resume(run.folder, ["train.goal=chrf", "train.steps=6"])
        assert (run.folder / "run.yaml").read_bytes() == before
    assert resume(run.folder, ["train.goal=bleu", "train.steps=5"]).report.moment.step == 5


def test_a_goal_may_change_before_anything_is_ranked(tmp_path: Path) -> None:
    run = begun(tmp_path / "run", "train.steps=2", "train.evaluate=1")
    ready = judged(run, told((float("nan"), 1.0, 1.0), (float("nan"), 1.0, 1.0)))
    ready.run()
    assert ready.moment.stale == 2
    report = resume(run.folder, ["train.goal=chrf", "train.steps=3"]).report
    assert report.moment.goal == "chrf" and report.moment.stale == 0


def test_a_checkpoint_from_before_is_ranked_by_what_was_usual(tmp_path: Path) -> None:
    run = begun(tmp_path / "run", "train.steps=4", "train.evaluate=2", "train.keep=4")
    judged(run, told(*ROWS[:2])).run()
    newest = run.store.latest()
    assert newest is not None
    state = newest.json("state")
    del state["moment"]["goal"]
    groups = {path.stem: newest.tensors(path.stem) for path in newest.path.glob("*.safetensors")}
    files = {path.name: newest.read(path.name) for path in newest.path.glob("tokenizer*.json")}
    run.store.save(newest.step, groups, {"state": state, "spec": newest.json("spec")}, files)
    assert trainer(run).moment.ranking == [(9.0, 2)]
    other = Run(run.folder, run.spec.replace(train=run.spec.train.replace(goal="chrf")))
    with pytest.raises(SpecError, match="ranked by bleu"):
        other.trainer().restore(verify(newest.path))


def test_a_train_spec_alone_accepts_any_name() -> None:
    """What a task measures is known where there is a task."""
    assert TrainSpec(steps=1, goal="my.own-measure").goal == "my.own-measure"


def test_a_metric_that_the_task_names_can_be_the_goal() -> None:
    tree = {"corpus": {"kind": "en-fr"}, "model": "transformer-tiny", "out": "x"}
    spec = RunSpec.parse({**tree, "task": {"metrics": ["ter"]}, "train": {"steps": 1, "goal": "ter"}})
    assert spec.task.known_measures()["ter"] is False  # fewer edits are better
    with pytest.raises(SpecError, match="ter"):
        RunSpec.parse({**tree, "train": {"steps": 1, "goal": "ter"}})
