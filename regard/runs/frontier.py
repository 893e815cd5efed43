"""What a policy earns by how far it has gone from where it began: the curve of reward against divergence.

Training on a reward can always get more of it by moving away from the start; what matters is how much it gets for how
far it goes (Gao et al. 2023). Every checkpoint that a run kept is a point: it answers the same prompts by the same
seeds, and its answers are graded, by several rewards if there are several. Where the reward that was trained on still
rises and the true one falls, the policy is over-optimised.

The curve that needs no training stands beside: the best of n answers of the start, chosen by the last reward. It is
log n - (n - 1) / n nats from the start where no two answers earn the same, and less otherwise.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import yaml

from regard.core.model import Model
from regard.core.packed import find_precision
from regard.data.corpus import Split
from regard.data.dialogue import find_format
from regard.data.sample import Sample
from regard.decode.pipeline import Pipeline
from regard.errors import InputError, SpecError
from regard.host.meter import SILENT, Advance, Meter
from regard.host.output import put
from regard.lens.page import Figure, clean, make_page
from regard.lens.plot import Plot, Point
from regard.runs.account import insist_on_run
from regard.runs.evaluate import TestSet, check_split, choose_split, open_run, read_samples
from regard.runs.folder import Run
from regard.runs.load import load_beside, load_bundle
from regard.runs.precision import use_precision
from regard.runs.report import label_runs
from regard.runs.resolve import is_run, split_noun
from regard.tasks.feedback.examiner import ROWS, Examiner
from regard.tasks.feedback.rollout import draw_answers, rest
from regard.tasks.measures import Measure, Numbers, ratio
from regard.tasks.policy import PolicyTaskSpec
from regard.tasks.preference import PreferenceTaskSpec
from regard.tasks.rewards.reward import RewardSpec

BEST, START = "best of n", "start"
PROMPTS, POINTS, MOST, LARGEST = 200, 12, 64, 16  # usual numbers: prompts, checkpoints, tokens of an answer, n


@dataclass(frozen=True)
class Standpoint:
    """Where a policy stands: how far it went, and what that earned."""

    policy: str  # the run, or the best of n
    point: str  # the step, or n
    kl: Measure  # nats an answer
    rewards: Mapping[str, Measure]
    length: float  # tokens of an answer

    def row(self) -> dict[str, Any]:
        found: dict[str, Any] = {"policy": self.policy, "point": self.point, "kl": round(self.kl.value, 4)}
        for name, measure in self.rewards.items():
            found |= {name: measure.value, f"{name} low": measure.low, f"{name} high": measure.high}
        return found | {"length": round(self.length, 2)}


@dataclass
class Frontier:
    """Curves of rewards against divergence."""

    rewards: Sequence[str]
    data: str
    prompts: int
    start: Standpoint
    spread: Mapping[str, float]  # the standard deviation of what single answers of the start earn
    stands: list[Standpoint] = field(default_factory=list)
    precision: str = "fp32"  # what the weights of all models were packed to, except those of a judge

    def curve(self, policy: str) -> list[Standpoint]:
        """The points of one policy, nearest first."""
        return sorted((one for one in self.stands if one.policy == policy), key=lambda one: one.kl.value)

    @property
    def policies(self) -> list[str]:
        return list(dict.fromkeys(one.policy for one in self.stands))

    def rows(self) -> list[dict[str, Any]]:
        """A row for each point, as CSV and JSON have it."""
        return [self.start.row(), *(one.row() for one in self.stands)]

    def as_json(self) -> dict[str, Any]:
        told = {"data": self.data, "prompts": self.prompts, "precision": self.precision, "spread": dict(self.spread)}
        return dict(clean(told | {"points": self.rows(), "findings": self.conclude()}))

    def plots(self) -> list[Plot]:
        """A plot for each reward."""
        found = []
        for name in self.rewards:
            series = {
                policy: [
                    Point(one.kl.value, *one.rewards[name])
                    for one in (self.start, *(one for one in self.curve(policy)))
                ]
                for policy in self.policies
            }
            found.append(Plot(f"{name} by distance from the start", "KL to the start, nats an answer", name, series))
        return found

    def conclude(self) -> list[str]:
        """What each curve comes to, and whether it bends down while another reward still rises."""
        return [told for policy in self.policies for told in self._judge(policy)]

    def _judge(self, policy: str) -> list[str]:
        curve, name = self.curve(policy), self.rewards[0]
        best = max(curve, key=lambda one: one.rewards[name].value)
        gain = best.rewards[name].value - self.start.rewards[name].value
        deviations = f", {gain / self.spread[name]:+.2f} of the start's deviations" if self.spread[name] > 0 else ""
        found = [
            f"{policy}: {name} {best.rewards[name].value:.3g} at {best.kl.value:.2f} nats ({gain:+.3g}{deviations})."
        ]
        last = curve[-1]
        for other in self.rewards[1:]:
            fell = last.rewards[name].high < best.rewards[name].low
            if fell and last.rewards[other].value > best.rewards[other].value:
                found.append(
                    f"{policy}: over-optimised beyond {best.kl.value:.2f} nats: {other} still rises from "
                    f"{best.rewards[other].value:.3g} to {last.rewards[other].value:.3g}, and {name} falls to "
                    f"{last.rewards[name].value:.3g} at {last.kl.value:.2f} nats."
                )
        return found

    def page(self) -> str:
        """One whole HTML file."""
        rows = self.rows()
        cells = [[f"{value:.4g}" if isinstance(value, float) else value for value in row.values()] for row in rows]
        table = Figure("table", {"title": "All points", "columns": list(rows[0]), "rows": cells})
        text = Figure("text", {"title": "What the curves say", "text": "\n".join(self.conclude())})
        return make_page("Reward by divergence", [*(plot.figure() for plot in self.plots()), text, table])

    def save(self, path: Path) -> Path:
        """Write a page, the first plot (.png) or the table (.csv), whole or not at all."""
        kind = path.suffix.lower()
        put(path, self.plots()[0].png() if kind == ".png" else (self.csv() if kind == ".csv" else self.page()).encode())
        return path

    def csv(self) -> str:
        """The table as a spreadsheet reads it."""
        rows, told = self.rows(), io.StringIO()
        writer = csv.DictWriter(told, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return told.getvalue()


@dataclass
class Grader:
    """A reward, and whom it asks."""

    reward: RewardSpec
    judge: Pipeline | None

    def grade(self, examiner: Examiner, samples: Sequence[Sample], answers: Sequence[Sequence[int]]) -> list[float]:
        return replace(examiner, reward=self.reward, judge=self.judge).grade(samples, answers)


def trace_frontier(
    runs: Sequence[str | Path],
    rewards: Sequence[str] = (),
    data: Sequence[str] = (),
    split: str | None = None,
    prompts: int = PROMPTS,
    points: int = POINTS,
    largest: int = LARGEST,
    most: int | None = None,
    meter: Meter = SILENT,
    precision: str | None = None,
) -> Frontier:
    """Measure what runs that began as one model earn, by how far they went: each checkpoint that they kept.

    `rewards`: kinds, settings or runs that judge; the first is what matters, and the last chooses the best of n. Unless
    given, it is what the first run was trained on. `largest`: the most answers of the start that are chosen among.
    Whoever looks at a curve chooses a checkpoint, so prompts are those kept for validation unless told otherwise.
    `precision`: what the weights of the start and of all checkpoints are packed to; a judge's stay as they are.
    """
    nouns = [str(run) for run in runs]
    for noun in nouns:
        insist_on_run(noun, "frontier")
    opened = [insist_on_policy(noun) for noun in nouns]
    labels, first = label_runs(nouns), opened[0]
    start = insist_on_start(nouns, opened)
    use_precision(start, precision, nouns[0])
    chosen = find_precision(start)  # once for all: distances are between models of one precision
    graders = open_graders(rewards) or adopt_reward(nouns[0], first)
    part = None if data else check_split(split) or choose_part(first)
    samples = read_samples(first, first.spec.task, TestSet(data, part))[:prompts]
    if len(samples) < 2:
        raise InputError(f"there are {len(samples)} prompts, and a mean over so few says nothing", "--data FILE")
    examiner = make_examiner(first, start, next(iter(graders.values())), most)
    steps = {label: choose_steps(run, points) for label, run in zip(labels, opened, strict=True)}
    with meter.watch("asking checkpoints", 1 + sum(map(len, steps.values()))) as advance:
        drawn = draw_many(examiner, start, samples, largest, advance)
        graded = {name: grade_many(grader, examiner, samples, drawn) for name, grader in graders.items()}
        found = begin_frontier(graded, drawn, ", ".join(Path(file).name for file in data) or str(part))
        found.precision = chosen
        for label, run in zip(labels, opened, strict=True):
            for step in steps[label]:
                model = load_bundle(f"{run.folder.absolute()}@step-{step}", precision=chosen).model
                found.stands.append(locate(examiner, graders, model, samples, label, step))
                advance()
    if largest > 1:
        found.stands += choose_best(graded, drawn)
    return found


def insist_on_policy(noun: str) -> Run:
    """A run that learned to please; refused where it learned something else, or where a checkpoint is named."""
    run = open_run(noun)
    if run is None or split_noun(noun)[1]:
        raise InputError(f"{noun}: a curve is of all checkpoints of a run that was trained here", "regard frontier RUN")
    if not isinstance(run.spec.task, PolicyTaskSpec | PreferenceTaskSpec):
        told = f"{noun} learned {run.spec.task.kind}, and hasn't gone from a model that it pleases less than"
        raise InputError(told, "a run that learned policy or preference")
    return run


def insist_on_start(nouns: Sequence[str], runs: Sequence[Run]) -> Model:
    """The model that all runs began as; refused where they began as different ones."""
    starts = list[Model]()
    for noun, run in zip(nouns, runs, strict=True):
        found = load_beside(run.folder, START)
        if not isinstance(found, Pipeline) or not isinstance(found.model, Model):
            raise InputError(f"{noun}: it began from nothing, so there is nothing to be away from", "start: RUN")
        starts.append(found.model)
        if find_chat(run) != find_chat(runs[0]):
            told = f"{nouns[0]} reads conversations as {find_chat(runs[0])}, and {noun} as {find_chat(run)}"
            raise InputError(told, "runs with one task.format")
        if not agree(starts[0], found.model):
            raise InputError(f"{nouns[0]} and {noun} began as different models", "runs with one start")
    return starts[0]


def find_chat(run: Run) -> str:
    """The format in which a run reads conversations."""
    assert isinstance(run.spec.task, PolicyTaskSpec | PreferenceTaskSpec)
    return run.spec.task.format


def agree(one: Model, other: Model) -> bool:
    """Whether two models have the same weights, as far as both have them: one may foresee its rewards beside."""
    first, second = one.state_dict(), other.state_dict()
    shared = first.keys() & second.keys()
    return bool(shared) and all(first[name].equal(second[name]) for name in shared)


def choose_part(run: Run) -> Split:
    """The prompts that settings may be chosen on; what was kept for testing where there are no others."""
    return "validation" if run.prepared().has("validation") else choose_split(run)


def open_graders(rewards: Sequence[str]) -> dict[str, Grader]:
    """Rewards by what tables call them; by what was typed, where two would have one name."""
    if len(set(rewards)) < len(rewards):
        raise InputError(f"--reward: one of {', '.join(rewards)} is there twice", "each once")
    graders = [open_grader(name) for name in rewards]
    short = [grader.reward.describe() for grader in graders]
    labels = short if len(set(short)) == len(short) else rewards
    return dict(zip(labels, graders, strict=True))


def open_grader(name: str) -> Grader:
    """A reward by its kind, by its settings, or by the run that judges."""
    try:
        told = {"kind": "judge", "run": name} if is_run(Path(name)) else yaml.safe_load(name)
    except yaml.YAMLError:
        raise SpecError(f"--reward {name}: settings that can't be read", "--reward '{kind: judge, run: RUN}'") from None
    reward = RewardSpec.parse(told)
    judge = None if reward.judge is None else load_bundle(reward.judge).pipeline()
    if judge is not None:
        reward.insist_on_judge(judge)
    return Grader(reward, judge)


def adopt_reward(noun: str, run: Run) -> dict[str, Grader]:
    """What a run was trained on."""
    task = run.spec.task
    if not isinstance(task, PolicyTaskSpec):
        raise InputError(
            f"{noun} learned {task.kind}, which has no reward of its own", "--reward KIND, or --reward RUN"
        )
    judge = load_beside(run.folder, "judge") if task.name_judge() is not None else None
    return {task.reward.describe(): Grader(task.reward, judge if isinstance(judge, Pipeline) else None)}


def make_examiner(run: Run, start: Model, grader: Grader, most: int | None) -> Examiner:
    """Whoever asks all models: as the first run drew its answers, if it did."""
    task, tokenizer = run.spec.task, run.prepared().lexicon.tokenizer
    chat, reference = find_format(find_chat(run)), partial(rest, start)
    if not isinstance(task, PolicyTaskSpec):
        return Examiner(tokenizer, chat, grader.reward, most or MOST, 1.0, 0.0, True, grader.judge, reference)
    how = task.temperature, task.cut, task.ends
    return Examiner(tokenizer, chat, grader.reward, most or task.most, *how, grader.judge, reference)


def choose_steps(run: Run, points: int) -> list[int]:
    """At most so many of the steps that a run kept, from all over its training."""
    kept = [found.step for found in run.store.list_steps()]
    if not kept:
        raise InputError(f"{run.folder}: it has no checkpoint yet", f"regard resume {run.folder}")
    if len(kept) <= points:
        return kept
    return [kept[round(n * (len(kept) - 1) / max(1, points - 1))] for n in range(points)]


def locate(
    examiner: Examiner, graders: Mapping[str, Grader], model: Model, samples: Sequence[Sample], label: str, step: int
) -> Standpoint:
    """Where one checkpoint stands: an answer to each prompt, by seeds that are the same for all."""
    answers, nats = list[list[int]](), list[float]()
    for first in range(0, len(samples), ROWS):
        some = samples[first : first + ROWS]
        luck = [Random(f"frontier/{first + n}").getrandbits(62) for n in range(len(some))]
        answers += examiner.answer(model, some, luck)
        nats += examiner.diverge(model, some, answers[first:])
    earned = {name: average(grader.grade(examiner, samples, answers)) for name, grader in graders.items()}
    return Standpoint(label, f"step {step}", average(nats), earned, float(np.mean([len(one) for one in answers])))


def draw_many(
    examiner: Examiner, start: Model, samples: Sequence[Sample], count: int, advance: Advance
) -> list[list[list[int]]]:
    """So many answers of the start to each prompt."""
    found = list[list[list[int]]]()
    for first in range(0, len(samples), ROWS):
        prompts = examiner.encode(samples[first : first + ROWS])
        luck = [Random(f"best/{first + n // count}/{n % count}").getrandbits(62) for n in range(len(prompts) * count)]
        rows = draw_answers(start, prompts, luck, examiner.sampling, count)
        found += [rows[n * count : (n + 1) * count] for n in range(len(prompts))]
    advance()
    return found


def grade_many(
    grader: Grader, examiner: Examiner, samples: Sequence[Sample], drawn: Sequence[Sequence[Sequence[int]]]
) -> Numbers:
    """What each answer of each prompt earns: (prompts, answers)."""
    asked = [sample for sample, rows in zip(samples, drawn, strict=True) for _ in rows]
    found = grader.grade(examiner, asked, [row for rows in drawn for row in rows])
    return np.asarray(found, np.float64).reshape(len(drawn), -1)


def begin_frontier(graded: Mapping[str, Numbers], drawn: Sequence[Sequence[Sequence[int]]], data: str) -> Frontier:
    """The start's own point, by all of its answers."""
    earned = {name: average(table.mean(1).tolist()) for name, table in graded.items()}
    length = float(np.mean([len(row) for rows in drawn for row in rows]))
    start = Standpoint(START, "step 0", Measure(0.0, 0.0, 0.0), earned, length)
    return Frontier(list(graded), data, len(drawn), start, {name: float(table.std()) for name, table in graded.items()})


def choose_best(graded: Mapping[str, Numbers], drawn: Sequence[Sequence[Sequence[int]]]) -> list[Standpoint]:
    """The best of 2, 4, 8, … answers by the last reward, in expectation over which of the answers are drawn."""
    *_, chooser = graded.values()
    count = chooser.shape[1]
    sizes = np.array([[len(row) for row in rows] for rows in drawn], np.float64)
    found = []
    for n in (2**power for power in range(1, count.bit_length()) if 2**power <= count):
        shares = share_best(chooser, n)
        earned = {name: average((table * shares).sum(1).tolist()) for name, table in graded.items()}
        away = math.log(n) - (n - 1) / n
        length = float((sizes * shares).sum(1).mean())
        found.append(Standpoint(BEST, f"n {n}", Measure(away, away, away), earned, length))
    return found


def share_best(scores: Numbers, n: int) -> Numbers:
    """How likely each answer is the best of n that are drawn without repetition: (prompts, answers).

    The answer of rank r among N, from the worst on, is the best of n in C(r - 1, n - 1) of C(N, n) draws. Answers that
    score the same share their chances.
    """
    count = scores.shape[1]
    by_rank = np.array([math.comb(rank, n - 1) / math.comb(count, n) for rank in range(count)])
    found = np.empty_like(scores)
    for row, own in zip(found, scores, strict=True):
        order = np.argsort(own, kind="stable")
        _, group = np.unique(own, return_inverse=True)
        ranked = np.empty(count)
        ranked[order] = by_rank
        row[:] = (np.bincount(group, ranked) / np.bincount(group))[group]
    return found


def average(values: Sequence[float]) -> Measure:
    """The mean over prompts, with its interval."""
    return ratio(list(values), [1] * len(values))
