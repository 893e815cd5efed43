"""A fair comparison of runs: the same samples, the same search, paired tests, and what each of them costs.

What can't be compared is refused: other tasks, other test data, targets that are cut into other tokens. With `by_text`
the last are compared by their texts, and what is counted a token is left out by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np

from regard.data.corpus import Split
from regard.data.preparation import check
from regard.data.sample import Sample
from regard.data.spool import spool_files
from regard.decode.pipeline import Pipeline
from regard.errors import InputError
from regard.host.meter import SILENT, Meter
from regard.runs.account import Account, insist_on_run, read_account
from regard.runs.breakdown import divide_by_frequency, divide_by_length
from regard.runs.comparison import Contrast, RunComparison, RunPair
from regard.runs.evaluate import TestSet, check_split, choose_split, open_run, read_samples
from regard.runs.folder import Run
from regard.runs.load import load_bundle
from regard.runs.report import compare_settings, label_runs
from regard.runs.resolve import split_noun
from regard.runs.show import draw
from regard.tasks.bleu import TextTest, compare_texts
from regard.tasks.measures import Measure
from regard.tasks.scores import SampleScores
from regard.tasks.significance import (
    PairedDifference,
    Statistic,
    compare_drawn,
    correct_holm,
    draw_values,
    enclose_values,
)
from regard.tasks.task import Pulse, TaskSpec

CONTRASTS = 6  # samples that are shown
FEW = 50  # samples below which only large differences can be shown
LENGTH = 1000  # tokens that a state is told for
SEEDS, SMALL = "one recipe with two seeds", "no further apart than two seeds of one recipe are"


@dataclass
class Contender:
    """One run of a comparison."""

    account: Account
    run: Run | None  # None: a model from elsewhere
    task: TaskSpec
    labels: frozenset[str]
    tokenizer: str  # the digest of the one that it writes with, or what tells its tokens from others'
    scores: SampleScores
    precision: str  # what its weights were packed to

    @property
    def label(self) -> str:
        return self.account.label


def compare(
    runs: Sequence[str | Path],
    data: Sequence[str] = (),
    split: str | None = None,
    meter: Meter = SILENT,
    by_text: bool = False,
    precision: str | None = None,
) -> RunComparison:
    """Compare trained runs on samples that none of them has seen: files, or what all of them kept for testing.

    `split`: another part that they kept: validation. `by_text`: runs whose tokens differ are compared by their texts.
    `precision`: what the weights of all of them are packed to.

    >>> import regard
    >>> found = regard.compare(["runs/en-fr", "runs/en-fr-2"])
    >>> found.labels
    ['en-fr', 'en-fr-2']
    >>> [pair.verdict for pair in found.pairs if pair.measure == "exact"]
    ['no difference shown']
    >>> sorted(found.as_json())[:3]
    ['by_frequency', 'by_length', 'data']
    """
    if isinstance(runs, str | Path) or len(runs) < 2:
        raise InputError("a comparison is of two runs at least", "regard compare RUN RUN; regard report RUN is of one")
    nouns = [str(run) for run in runs]
    for noun in nouns:
        insist_on_run(noun, "compare")
    labels, chosen = label_runs(nouns), check_split(split)
    if chosen is not None and data:
        raise InputError(
            f"--split {chosen} is a part that the runs kept, and --data names files: which?", "one of them"
        )
    insist_on_task(nouns, labels)
    where = "" if data else insist_on_kept(nouns, labels, chosen)
    found = []
    for noun, label in zip(nouns, labels, strict=True):
        with meter.watch(f"asking {label}, batches of samples") as advance:
            found.append(ask(noun, label, data, where or None, advance, precision))
        if not by_text:
            insist_on_tokens(found)
    agree(found)
    with meter.watch("comparing", None) as advance:
        return weigh(found, ", ".join(Path(file).name for file in data) or where, advance)


def insist_on_task(nouns: Sequence[str], labels: Sequence[str]) -> None:
    """Refuse runs that learned different tasks, before any of them is asked."""
    kinds = {}
    for noun, label in zip(nouns, labels, strict=True):
        run = open_run(noun)
        kinds[label] = load_bundle(noun).purpose().kind if run is None else run.spec.task.kind
    if len(set(kinds.values())) > 1:
        told = ", ".join(f"{label} learned {kind}" for label, kind in kinds.items())
        raise InputError(f"runs of different tasks have no measure in common: {told}", "runs that learned one task")


def insist_on_kept(nouns: Sequence[str], labels: Sequence[str], split: Split | None) -> Split:
    """The part that all runs kept to be measured on; refused where their samples differ."""
    kept: dict[str, Run] = {}
    for noun, label in zip(nouns, labels, strict=True):
        run = open_run(noun)
        if run is None:
            raise InputError(f"{noun}: there is a model in it, and nothing to test on", "--data FILE")
        kept[label] = run
    first, *others = kept.items()
    chosen = split or choose_split(first[1])
    digests = _digest(first[1], chosen)
    for label, run in others:
        if _digest(run, chosen) != digests:
            raise InputError(
                f"{first[0]} and {label} kept different samples for {chosen}, so their measures can't be compared",
                "--data FILE names a test set for all of them",
            )
    return chosen


def _digest(run: Run, split: Split) -> list[str]:
    """Equal where a part that runs kept holds the same samples."""
    prepared = run.prepared()
    if not prepared.has(split):
        prepared.samples(split)  # says which parts there are
    files = prepared.facts["files"]
    return [str(files.get(name)) for name in spool_files(split, prepared.facts["form"])]


def ask(
    noun: str, label: str, files: Sequence[str], split: Split | None, pulse: Pulse, precision: str | None = None
) -> Contender:
    """Load a run's model, and score what it makes of every sample."""
    bundle, run = load_bundle(noun, precision=precision), open_run(noun)
    task = bundle.purpose()
    if bundle.lexicon is None:
        raise InputError(f"{noun}: there is no tokenizer in it, so no text can be read")
    pipeline: Pipeline = bundle.pipeline()
    task.insist_measurable(pipeline)
    samples: list[Sample] = read_samples(run, task, TestSet(files, None if files else split))
    check(samples, task, bundle.lexicon, noun)
    scores = task.score_samples(pipeline, samples, pulse)
    words = f"{bundle.lexicon.tokenizers[1].digest if bundle.lexicon.words is not None else ''} {scores.tokens}"
    labels = frozenset(bundle.lexicon.labels)
    return Contender(read_account(noun, label), run, task, labels, words, scores, pipeline.precision)


def agree(runs: Sequence[Contender]) -> None:
    """Refuse answers that can't be set side by side."""
    first = runs[0]
    if len(first.scores.examples) < 2:
        raise InputError("there is one sample, and what differs on one may be chance", "a test set of many samples")
    for run in runs[1:]:
        counts = len(first.scores.examples), len(run.scores.examples)
        if counts[0] != counts[1]:
            raise InputError(
                f"{first.label} has {counts[0]} samples of these files and {run.label} {counts[1]}: they read them "
                "differently",
                "runs whose settings of the corpus are the same",
            )
        if first.labels != run.labels:
            odd = ", ".join(sorted(first.labels ^ run.labels)[:5])
            raise InputError(f"{first.label} and {run.label} know different labels: {odd}", "runs with the same labels")


def insist_on_tokens(runs: Sequence[Contender]) -> None:
    """Refuse runs whose targets are cut into other tokens: a loss of theirs is counted in another unit."""
    counted, texts = list_measures(runs)
    first, *others = runs
    odd = next((run for run in others if run.tokenizer != first.tokenizer), None)
    if odd is None or not counted:
        return
    told = f"{first.label} and {odd.label} have different target tokens, and {', '.join(counted)} is counted a token"
    way = f", or --by-text compares {', '.join(texts)} alone" if texts else ""
    raise InputError(told, f"runs with one tokenizer (tokenizer.like) and the same levels of pixels{way}")


def list_measures(runs: Sequence[Contender]) -> tuple[list[str], list[str]]:
    """The measures that all runs have: those that are counted a token, and those of texts, samples, bytes."""
    shared = [name for name in runs[0].scores.statistics if all(name in run.scores.statistics for run in runs)]
    counted = [name for name in shared if runs[0].scores.statistics[name].per_token]
    return counted, [name for name in shared if name not in counted]


def weigh(runs: Sequence[Contender], data: str, pulse: Pulse) -> RunComparison:
    """Measures, differences, groups and examples of runs whose answers are there."""
    scores = [run.scores for run in runs]
    statistics, notes = choose_statistics(runs)
    measures, pairs, signatures = weigh_pairs(statistics, [run.label for run in runs], scores, pulse)
    pairs, doubts = doubt_pairs(pairs, find_seeds([run.account for run in runs]))
    goal = runs[0].account.goal
    main = goal if goal in statistics else next(iter(statistics))
    lengths = []
    for name in statistics:
        pulse()
        lengths.append(divide_by_length(name, scores))
    counts = {} if runs[0].run is None else runs[0].task.count_training(runs[0].run.prepared())
    frequencies = [divide_by_frequency(kind, scores, counts.get(kind)) for kind in scores[0].portions]
    first = runs[0].task
    return RunComparison(
        task=first.kind,
        data=data,
        samples=len(scores[0].examples),
        labels=[run.label for run in runs],
        main=main,
        rising={name: one[0].rising for name, one in statistics.items()},
        measures=measures,
        pairs=pairs,
        costs=[count_costs(run) for run in runs],
        precisions=[run.precision for run in runs],
        by_length=[one for one in lengths if one is not None],
        by_frequency=[one for one in frequencies if one is not None],
        contrasts=find_contrasts(scores),
        telling=scores[0].telling,
        roles=first.roles,
        signatures=signatures,
        notes=[*notes, *describe_differences(runs), *doubts],
    )


def choose_statistics(runs: Sequence[Contender]) -> tuple[dict[str, list[Statistic]], list[str]]:
    """Every measure that can be compared, of each run; and what was left out, and why."""
    counted, texts = list_measures(runs)
    shared, notes = [name for name in runs[0].scores.statistics if name in {*counted, *texts}], list[str]()
    if counted and len({run.tokenizer for run in runs}) > 1:
        shared = texts
        notes = [f"{', '.join(counted)}: left out, since these runs have different tokens and it is counted a token."]
    if not shared:
        raise InputError(
            f"{', '.join(counted)} is counted a token, and all that is measured", "runs with one tokenizer"
        )
    return {name: [run.scores.statistics[name] for run in runs] for name in shared}, notes


def weigh_pairs(
    statistics: Mapping[str, list[Statistic]], labels: Sequence[str], scores: Sequence[SampleScores], pulse: Pulse
) -> tuple[dict[str, list[Measure]], list[RunPair], dict[str, str]]:
    """Every measure with its interval, every pair of runs with its tests, and signatures of what others computed."""
    measures, pairs = {}, []
    texts: dict[tuple[str, int, int], TextTest] = {}
    signatures: dict[str, str] = {}
    if any(one[0].signature for one in statistics.values()):
        answers = [[example.answer[0] for example in one.examples] for one in scores]
        texts, signatures = compare_texts(answers, [example.expected[0] for example in scores[0].examples])
    for name, own in statistics.items():
        pulse()
        drawn = draw_values(own)
        measures[name] = [enclose_values(one.total(), values) for one, values in zip(own, drawn, strict=True)]
        found: list[tuple[int, int, PairedDifference]] = []
        for one, other in combinations(range(len(own)), 2):
            difference = compare_drawn(own[one], own[other], (drawn[one], drawn[other]))
            if (name, one, other) in texts:
                likely = texts[name, one, other]
                difference = PairedDifference(difference.value, difference.low, difference.high, *likely)
            found.append((one, other, difference))
        corrected = correct_holm([difference.randomisation for *_, difference in found])
        pairs += [
            RunPair(name, labels[one], labels[other], own[0].rising, difference, holm)
            for (one, other, difference), holm in zip(found, corrected, strict=True)
        ]
    return measures, pairs, signatures


def count_costs(run: Contender) -> dict[str, float]:
    """What a run cost to train, and costs to use, by the names in COSTS."""
    facts, scores = run.account.facts, run.scores
    outline = draw(run.account.noun if run.run is None else _spell_place(run.account))
    writes = any(child.name == "decoder" for child in outline.tree.children)
    grows = outline.state_bytes_per_token + outline.state_bytes_per_source_token
    found = {
        "parameters": outline.parameters,
        "training tokens": facts.get("tokens"),
        "training time": facts.get("time"),
        "training speed": facts.get("speed"),
        "peak memory": facts.get("peak memory"),
        "state of a token": outline.state_bytes_per_token if writes else None,
        "state of a source token": outline.state_bytes_per_source_token or None,
        "state whatever the length": outline.state_bytes_fixed if writes else None,
        "state at 1,000 tokens": outline.state_bytes_fixed + LENGTH * grows if writes else None,
        "answering": len(scores.examples) / max(scores.seconds, 1e-9),
        "writing": scores.written / max(scores.seconds, 1e-9) if scores.written else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _spell_place(account: Account) -> str:
    """A noun by its whole path: a folder may have the name of a preset."""
    which = split_noun(account.noun)[1]
    return f"{account.folder.absolute()}{f'@{which}' if which else ''}"


def find_contrasts(runs: Sequence[SampleScores]) -> list[Contrast]:
    """The samples that runs differ most on, and of those some where each run is the best."""
    statistics = [run.statistics[run.telling] for run in runs]
    values = np.stack([one.value(one.rows) for one in statistics])  # (runs, samples)
    spread = values.max(0) - values.min(0)
    best = values.argmax(0) if statistics[0].rising else values.argmin(0)
    order = np.argsort(-spread, kind="stable")
    queues = [[int(n) for n in order if best[n] == run and spread[n] > 0] for run in range(len(runs))]
    chosen = [queue[turn] for turn in range(CONTRASTS) for queue in queues if turn < len(queue)][:CONTRASTS]
    return [Contrast(n, [run.examples[n] for run in runs], values[:, n].tolist()) for n in chosen]


def describe_differences(runs: Sequence[Contender]) -> list[str]:
    """What a reader should know before believing a verdict."""
    found, count = list[str](), len(runs[0].scores.examples)
    if count < FEW:
        found.append(f"There are only {count} samples: small differences can't be shown with so few.")
    if len({run.account.digest for run in runs}) > 1:
        told = f"; how often training saw something is counted in {runs[0].label}'s" if runs[0].scores.portions else ""
        found.append(f"These runs were trained on different data{told}.")
    packed = [f"{run.label} {run.precision}" for run in runs]
    if any(run.precision != "fp32" for run in runs):
        found.append(f"Weights were packed for use: {', '.join(packed)}.")
    return found + [f"{run.label}: {run.scores.note}." for run in runs if run.scores.note]


def find_seeds(runs: Sequence[Account]) -> set[tuple[str, str]]:
    """Pairs of runs that differ in their seed and in nothing else."""
    found = set()
    for one, other in combinations(runs, 2):
        settings = compare_settings([one, other])
        if {key for key, values in settings.items() if values[0] != values[1]} == {"seed"}:
            found.add((one.label, other.label))
    return found


def doubt_pairs(pairs: Sequence[RunPair], seeds: set[tuple[str, str]]) -> tuple[list[RunPair], list[str]]:
    """Pairs with doubts where seeds alone bring as much about; and what is to be said of that.

    Weights of two seeds do differ, and a test over samples shows it where there are enough of them. But one recipe
    isn't better than itself: what differs is what chance in training does, and a yardstick for the other pairs.
    """
    spread: dict[str, float] = {}
    for pair in pairs:
        if (pair.one, pair.other) in seeds:
            spread[pair.measure] = max(spread.get(pair.measure, 0.0), abs(pair.difference.value))
    found, told = [], dict[str, list[str]]()
    for pair in pairs:
        same = (pair.one, pair.other) in seeds
        small = abs(pair.difference.value) <= spread.get(pair.measure, -1.0)
        doubt = SEEDS if same else SMALL if small else ""
        found.append(replace(pair, doubt=doubt))
        if found[-1].is_doubted:
            told.setdefault(f"{pair.one} and {pair.other}: {doubt}", []).append(f"{pair.measure} p {pair.holm:.2g}")
    return found, [
        f"* {what}. These weights do differ ({', '.join(measures)}), but chance in training does as much."
        for what, measures in told.items()
    ]
