"""Evaluating runs, as the command line does it: each by what it learned, on files or on what it kept for testing."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from shlex import quote
from statistics import fmean
from typing import Any, cast, get_args

import yaml

from regard.config import assignments
from regard.core.hint import suggest
from regard.core.spec import choose_kind
from regard.data.canvas import Canvas
from regard.data.corpora.files import Files
from regard.data.corpus import SPLITS, CorpusSpec, Generated, Split
from regard.data.log import Log, Policy
from regard.data.picture import Fit
from regard.data.preparation import check
from regard.data.reader import ReaderSpec, choose_reader
from regard.data.receipt import Receipt
from regard.data.sample import Form, Sample
from regard.decode.search import Search
from regard.decode.translator import Translator, ensemble
from regard.errors import DataError, Doubt, InputError, RegardWarning, warn
from regard.host.meter import SILENT, Meter
from regard.host.output import check_file
from regard.runs.folder import Run
from regard.runs.load import insist_on_kind, load_bundle, load_translator
from regard.runs.precision import spell_precision, use_precision
from regard.runs.resolve import RUN, resolve, split_noun
from regard.runs.results import machine, note, read_page, record
from regard.tasks.bundle import Bundle
from regard.tasks.metrics.metric import MetricSpec
from regard.tasks.picture import PictureTaskSpec
from regard.tasks.task import Pulse, TaskSpec
from regard.tasks.translation import TranslationTaskSpec, evaluate_translator, list_pairs
from regard.train.listener import history

GROUPS = 16  # of sizes, at most, that a row of results tells apart
# measures by size: the column of each, and how its values are written
BY_SIZE: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "by_size": ("exact", "{:.1%}".format),
    "steps_by_size": ("steps", "{:.2f}".format),
    "error_by_size": ("error", "{:.4g}".format),
}


@dataclass(frozen=True)
class TestSet:
    """What is measured on: files, or a part that the run kept; test unless told, or validation if there is none."""

    __test__ = False  # pytest takes the name for its own
    files: Sequence[str] = ()
    split: Split | None = None
    policy: Policy = "stop"  # what becomes of a line or a picture of the files that can't be used
    fit: Fit | None = None  # and of a picture of another size; None: as it was trained

    def __post_init__(self) -> None:
        if self.split is not None and self.files:
            told = f"--split {self.split} is a part that the run kept, and --data names files: which?"
            raise InputError(told, "one of them")
        given = {"--policy": self.policy != "stop", "--fit": self.fit is not None}
        for option in (name for name, said in given.items() if said and not self.files):
            raise InputError(f"{option} is for files, and what a run kept can be used as it is", "--data FILE")


@dataclass
class Evaluation:
    """What was measured, of what, and the translations where there are any."""

    task: TaskSpec
    parameters: int  # of the first model
    measures: dict[str, Any]
    data: str  # files, or the split that the run kept
    texts: list[str] | None = None
    search: Search | None = None  # how the translations, or captions, were searched
    precision: str = "fp32"  # what the weights were packed to; `int8 + fp32` where models of an ensemble differ


def evaluate(
    nouns: Sequence[str],
    wanted: TestSet,
    how: Mapping[str, Any],
    out: Path | None = None,
    page: Path | None = None,
    metrics: Sequence[str] = (),
    meter: Meter = SILENT,
    precision: str | None = None,
) -> Evaluation:
    """Every measure on a test set: files that are given, or what the first run kept for testing.

    `out` and `page`: where the translations and the row of results will go; a place that won't do is refused at once.
    `metrics`: kinds of further ones, where texts are measured. `precision`: what weights are packed to.
    """
    for path in (out, page):
        if path is not None:
            check_file(path)
    files = wanted.files
    first, run = load_bundle(nouns[0]), open_run(nouns[0])
    task = first.purpose()
    if run is None and not files:
        raise InputError(f"{nouns[0]}: there is a model in it, and nothing to test on", "--data FILE")
    if first.lexicon is None:
        raise InputError(f"{nouns[0]}: there is no tokenizer in it, so no text can be read")
    if out is not None and not isinstance(task, TranslationTaskSpec):
        raise InputError(f"--out writes translations, and {nouns[0]} learned {task.kind}", "leave --out out")
    if how and not isinstance(task, TranslationTaskSpec) and not task.searches:
        told = f"{', '.join(how)}: {nouns[0]} learned {task.kind}, which is measured without a search"
        raise InputError(told, "leave --beam and --set out")
    task = add_metrics(task, metrics, nouns[0])
    if page is not None:
        read_page(page)
        if run is None:
            raise InputError(f"{nouns[0]}: only what was trained here is recorded", "leave --record out")
        _last_step(run)
    split = wanted.split if wanted.split or files else choose_split(run)
    samples = read_samples(run, task, wanted, first.lexicon.canvas)
    count = first.model.parameter_count()
    use_precision(first.model, precision, nouns[0])
    data = ", ".join(Path(file).name for file in files) or str(split)
    if isinstance(task, TranslationTaskSpec):
        translator = ensemble(
            [
                insist_on_kind(first.pipeline(), nouns[0], Translator, "only translators make an ensemble"),
                *(load_translator(noun, precision) for noun in nouns[1:]),
            ]
        )
        search = translator.settings(how)
        with meter.watch("evaluating, batches of sentences") as advance:
            measures, texts = evaluate_translator(
                translator, list_pairs(samples), search, metrics=task.metrics, pulse=advance
            )
        if measures["cut"]:
            warn(f"{measures['cut']} of {len(texts)} translations were cut by a limit; --set max_tokens=N allows more")
        reported = task.report_measures(measures, samples, texts)
        return Evaluation(task, count, reported, data, texts, search, translator.precision)
    if len(nouns) > 1:
        raise InputError(f"{nouns[1]}: only translators make an ensemble", "one run at a time")
    pipeline = first.pipeline()
    chosen: Search | None = pipeline.settings(how) if task.searches else None
    task = task if chosen is None else task.replace(search=chosen)
    with meter.watch("evaluating, batches of samples") as advance:
        measures = _measure(nouns[0], first, task, samples, advance)
    return Evaluation(task, count, measures, data, None, chosen, pipeline.precision)


def check_policy(name: str) -> Policy:
    """A policy by its name."""
    if name not in get_args(Policy):
        raise InputError(f"--policy {name}: unknown{suggest(name, get_args(Policy))}")
    return cast(Policy, name)


def check_split(name: str | None) -> Split | None:
    """A split by its name."""
    if name is not None and (name not in SPLITS or name == "train"):
        raise InputError(f"--split {name}: no part that a run keeps to measure on{suggest(name, SPLITS[1:])}")
    return cast(Split | None, name)


def add_metrics(task: TaskSpec, kinds: Sequence[str], noun: str) -> TaskSpec:
    """A task that measures more than it does by itself."""
    if not kinds:
        return task
    if not isinstance(task, TranslationTaskSpec):
        raise InputError(f"--metric measures texts, and {noun} learned {task.kind}", "leave --metric out")
    more = [choose_kind(MetricSpec, kind, "--metric") for kind in kinds]
    kept = [metric for metric in task.metrics if metric.kind not in kinds]
    return task.replace(metrics=(*kept, *more))


def _measure(noun: str, given: Bundle, task: TaskSpec, samples: Sequence[Sample], pulse: Pulse) -> dict[str, Any]:
    assert given.lexicon is not None
    pipeline = given.pipeline()
    task.insist_measurable(pipeline)  # before its labels are looked for in the samples
    check(samples, task, given.lexicon, noun)
    return dict(task.measure(pipeline, samples, pulse))


def open_run(noun: str) -> Run | None:
    """The run that a noun names; None for a model from elsewhere."""
    folder = Path(split_noun(noun)[0])
    return Run.open(folder) if (folder / RUN).is_file() else None


def choose_split(run: Run | None) -> Split:
    """What a run is measured on unless another is named."""
    return "test" if run is not None and run.prepared().has("test") else "validation"


def read_samples(run: Run | None, task: TaskSpec, wanted: TestSet, canvas: Canvas | None = None) -> list[Sample]:
    """The samples of files, or of a split that a run kept: test unless told, or validation if there is none.

    What can't be used is told with its place, and left out where that is asked for. `canvas`: what pictures
    must be like.
    """
    if not wanted.files:
        assert run is not None
        return run.prepared().samples(wanted.split or choose_split(run))
    files, log = wanted.files, Log(wanted.policy, remedy="--policy skip")
    if isinstance(task, PictureTaskSpec) and canvas is not None:
        task = task.take_like(canvas, wanted.fit)
    elif wanted.fit is not None:
        raise InputError(f"--fit {wanted.fit}: is for pictures, and this model learned {task.kind}", "leave --fit out")
    receipt = Receipt(task)
    try:
        read = enumerate(_read(run, task, files, log), 1)
        taken = (receipt.take(sample, "test", number, log) for number, sample in read)
        samples = [sample for sample in taken if sample is not None]
    except Doubt as doubt:
        if len(files) == 1 and not files[0].startswith("{"):
            doubt.hint = "; or ".join(f"{spell_data(files[0], way)} ({told})" for told, way in doubt.ways.items())
        raise
    if not samples:
        raise DataError(
            f"{', '.join(files)}: there is nothing in it", log.advise() if log.skipped else "check the files"
        )
    if log.skipped or log.repaired:
        warn(f"{', '.join(files)}: {log.summary()}")
    return samples


def spell_data(file: str, way: Mapping[str, Any]) -> str:
    """A way out of a doubt about a file, as it is typed where there is no run file to write it into."""
    told = yaml.safe_dump({"path": file, **way}, default_flow_style=True, width=2**20, sort_keys=False)
    return f"--data {quote(told.strip())}"


def _read(run: Run | None, task: TaskSpec, files: Sequence[str], log: Log) -> Iterator[Sample]:
    """The samples of files, or the test of a corpus that is made here, by its settings: {kind: copy, …}."""
    told = assignments([f"data={files[0]}"])["data"] if len(files) == 1 and files[0].startswith("{") else {}
    made = CorpusSpec.kinds.get(str(told.get("kind")))
    if made is None or not issubclass(made, Generated):
        return _reader(run, task.form, files).read(task.form, log)
    corpus = made.parse(told)
    corpus.must_give(task.form, task.kind)
    return corpus.samples(task.form, "test", Path(), log)


def _reader(run: Run | None, form: Form, files: Sequence[str]) -> ReaderSpec:
    """The reader that the run was trained with, on other files; otherwise what a user means by the names of files."""
    corpus = None if run is None else run.spec.corpus
    own = corpus.train if isinstance(corpus, Files) and form in corpus.train.forms() else None
    if len(files) == 1 and files[0].startswith("{"):  # settings, as in a run file
        return ReaderSpec.parse(assignments([f"data={files[0]}"])["data"]).settle(form, "test", Path())
    return (None if own is None else own.turn_to(files, form)) or choose_reader(form, files)


def record_evaluation(page: Path, nouns: Sequence[str], files: Sequence[str], done: Evaluation) -> None:
    """Write what an evaluation found to the results' page, beside how its model was trained, and note it in the run."""
    run = Run.open(Path(split_noun(nouns[0])[0]))
    last, found = _last_step(run), done.measures
    name = Path(files[0]).stem if files else _name_corpus(run)
    split = "" if files or done.data == choose_split(run) else f" --split {done.data}"
    packed = "" if done.precision == "fp32" else f", {done.precision}"
    asked = spell_precision(done.precision)
    row = {
        # a row is known by its first cell: two runs of one preset are two rows
        "model": f"{' + '.join(name_model(noun) for noun in nouns)} ({Path(run.folder).name}{packed})",
        "parameters": f"{done.parameters:,}",
        "trained": f"{last['seconds'] / 60:.1f} min, {last['step']:,} steps",
    }
    translated = "bleu" in found  # answers of an algorithm are searched and have none
    if translated and done.search is not None and isinstance(done.task, TranslationTaskSpec):
        row |= _translation(last, done.search, found, done.task)
    else:
        row |= {key: _format(value) for key, value in found.items() if isinstance(value, int | float | str)}
    given = "".join(f" --data {quote(Path(file).name)}" for file in files)
    beam = "" if done.search is None else f" --beam {done.search.beam}"
    row |= {"machine": machine(), "command": f"`regard eval RUN{split}{asked}{given}{beam}`"}
    if translated:
        row["BLEU's signature"] = f"`{found['signatures']['bleu']}`"
    title = f"{done.task.kind.capitalize()}: {name}{f', {done.data}' if split else ''}"
    record(page, title, row)
    if sizes := tell_sizes(found):
        record(page, f"{title}, by size", {"model": row["model"], **sizes, "command": row["command"]})
    search = {} if done.search is None else {"search": done.search.model_dump(mode="json")}
    others: dict[str, Any] = {"with": [Path(noun).name for noun in nouns[1:]]} if len(nouns) > 1 else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RegardWarning)  # what there is to say of checkpoints was said before
        step = resolve(nouns[0]).step
    others |= {"precision": done.precision} if packed else {}
    note(run.folder, {"step": step, "data": done.data, **others, "measures": found, **search})


def _last_step(run: Run) -> dict[str, Any]:
    """How training ended, by the journal, which a row of results tells beside what was measured."""
    journal = run.folder / "metrics.jsonl"
    steps = [line for line in history(journal) if line["event"] == "step" and {"seconds", "tokens"} <= line.keys()]
    if not steps:
        raise DataError(
            f"{journal}: it tells of no step, and a row of results says how long training took", "leave --record out"
        )
    return steps[-1]


def count_training(run: Run) -> tuple[float, int]:
    """How long a run trained: seconds and steps."""
    last = _last_step(run)
    return float(last["seconds"]), int(last["step"])


def _name_corpus(run: Run) -> str:
    corpus = run.spec.corpus.kind
    return Path(run.spec.data).resolve().name if corpus == "files" else corpus


def name_model(noun: str) -> str:
    """What a run's model is called."""
    spec = Run.open(Path(split_noun(noun)[0])).spec
    return str(spec.start if spec.model is None else spec.model.name)


def tell_sizes(measures: Mapping[str, Any]) -> dict[str, str]:
    """What was measured of problems by their size, a cell each; nothing where all are of one size.

    Many sizes stand in groups of neighbours, each with the mean of its sizes.
    """
    told = {}
    for key, (title, spell) in BY_SIZE.items():
        found = sorted(measures.get(key, {}).items())
        if len(found) > 1:
            width = ceil(len(found) / GROUPS)
            groups = [found[first : first + width] for first in range(0, len(found), width)]
            told[title] = ", ".join(_tell_group(group, spell) for group in groups)
    return told


def _tell_group(group: Sequence[tuple[int, float]], spell: Callable[[float], str]) -> str:
    first, last = group[0][0], group[-1][0]
    return f"{first}{f' to {last}' if last > first else ''}: {spell(fmean(value for _, value in group))}"


def _format(value: float | str) -> str:
    return f"{value:.4f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value


def _translation(
    last: dict[str, Any], settings: Search, found: dict[str, Any], task: TranslationTaskSpec
) -> dict[str, str]:
    return {
        "target tokens/s": f"{last['tokens'] / last['seconds']:,.0f}",
        "BLEU": f"{found['bleu']:.1f}",
        "chrF": f"{found['chrf']:.1f}",
        "exact": f"{found['exact']:.1%}",
        **{metric.kind: f"{found[metric.kind]:.1f}" for metric in task.metrics},
        "search": f"beam {settings.beam}, {found['decoding_seconds']:.1f} s for {found['sentences']:,}",
    }
