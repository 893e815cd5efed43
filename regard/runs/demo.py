"""The main job: the path from the bottleneck to the Transformer, walked on the built-in corpus in a few minutes.

Three models get the same sentences in the same order: two recurrent networks without attention, the
same with attention, a Transformer. Every number in the table is measured in this run; each model is a run of its own
that can be translated with, resumed and looked at.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regard.config import Document
from regard.data.prepared import Prepared
from regard.data.reader import Pair
from regard.decode.translator import Translation
from regard.errors import RegardError
from regard.host.files import explain_disk_errors, replace
from regard.host.machine import give_way
from regard.lens import chart
from regard.lens.grid import by_word
from regard.lens.screen import Screen
from regard.runs.folder import Run, flatten
from regard.runs.load import load_translator
from regard.runs.resolve import RUN
from regard.runs.train import train
from regard.tasks.translation import evaluate_translator, list_pairs
from regard.train.listener import history

FACTS = "demo.json"  # what was measured; it is written before the pictures, so it shows whose they are
SENTENCE = "I like the green cat."
LENGTHS = {"1-6 words": (1, 6), "7-10 words": (7, 10), "11-15 words": (11, 15), "16+ words": (16, 99)}
# all three look at the same sentences in the same order, so the budget is in tokens
MODELS: dict[str, dict[str, Any]] = {
    "no attention": {"kind": "seq2seq", "cell": "gru", "width": 128, "dropout": 0.0},
    "attention": {"kind": "luong", "cell": "gru", "width": 128, "dropout": 0.0},
    "transformer": {
        "kind": "transformer-tiny",
        "depth": 1,
        "heads": 8,
        "mix": {"kind": "attention", "heads": 8, "position": "rotary"},
        "dropout": 0.0,
    },
}

VALIDATION = 300  # sentences: settings are chosen on these, and the table shows others
# chosen on validation sentences: among 0.003, 0.004, 0.006 and 0.008, and among 0.0035, 0.004 and 0.0045;
# `regard sweep` at half of the tokens finds 0.0045 and 0.004 best of three again, and 0.01 near 0.008 without attention
RATES = {"no attention": 0.008, "attention": 0.0045, "transformer": 0.004}


@dataclass
class DemoRow:
    """One model's line in the table."""

    model: str
    parameters: int
    tokens_per_second: float  # target tokens, in training
    steps: int
    seconds: float  # of training
    exact: float  # the share of the test set that is right to the letter
    combinations: float  # the same for combinations of words and patterns that training never saw
    lengths: dict[str, float]  # the same by words of the English sentence
    bleu: float
    source: str
    translation: str
    run: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class DemoResult:
    """A row, and the translation that it shows with what it looked at."""

    row: DemoRow
    example: Translation


def recipe(name: str, out: Path, tokens: int) -> Document:
    """The run file of one of the models."""
    tree = {
        "corpus": {
            "kind": "en-fr",
            "level": "first",
            "train": max(1000, tokens // 12),
            "validation": VALIDATION,
            "combinations": 500,
        },
        "tokenizer": {"pieces": "bpe", "vocabulary": 2000},
        "batches": {"tokens": 512, "buckets": 40},
        "task": {"kind": "translation", "smoothing": 0.0},
        "model": MODELS[name],
        "train": {
            "tokens": tokens,
            "optimizer": {"kind": "adamw", "rate": RATES[name], "decay": 0.0},
            "schedule": {"kind": "linear"},
            "evaluate": 0,
            "save": 100_000,
        },
        "seed": 1,
        "out": str(out / name.replace(" ", "-")),
    }
    return Document(tree)


def run_demo(out: Path, tokens: int, report: Callable[[str], None]) -> Iterator[DemoResult]:
    """Train and measure each model in turn."""
    _clear(out, tokens)
    ready: Prepared | None = None
    for name in MODELS:
        report(f"\n{name}: {tokens:,} words and pieces of French to learn from")
        trained = train(recipe(name, out, tokens), report, ready, [Screen()])
        run = Run.open(trained.folder)
        ready = ready or run.prepared()
        with give_way():  # as training does
            shown = measure(name, run, ready)
        yield shown


def _clear(out: Path, tokens: int) -> None:
    """Make room for the demo's own runs; nothing goes but runs that are told what the demo tells them, and no more.

    A run that went on with other settings is somebody's work.
    """
    own = {Path(recipe(name, out, tokens).tree["out"]): name for name in MODELS}
    runs = [Run.open(folder) for folder in own if (folder / RUN).exists()]
    for run in runs:
        asked = flatten(recipe(own[run.folder], out, run.spec.train.tokens or tokens).tree)
        told = flatten(run.spec.model_dump(mode="json"))
        told["corpus.validation"] = told["corpus.validation"] or VALIDATION  # demos of before had none
        alike = all(told.get(name) == value for name, value in asked.items() if name != "out")
        if not alike or not run.untouched:
            raise RegardError(f"{run.folder}: it isn't a run as the demo makes it, so it stays", "--out ANOTHER")
    strange = [path for path in outputs(out) if path.exists() and not (out / FACTS).exists()]
    if strange:
        raise RegardError(f"{strange[0]}: is there already, and no demo wrote it", "--out ANOTHER")
    for run in runs:
        with run.lock():
            pass  # nobody is training in it
        if not run.discard():
            raise RegardError(f"{run.folder}: files that aren't the demo's are in it, and stay", "--out ANOTHER")


def outputs(out: Path) -> list[Path]:
    """The pictures that a demo makes."""
    looked = [out / f"attention-{name.replace(' ', '-')}.png" for name in MODELS]
    return [out / "exact-by-length.png", out / "curves.png", *looked]


def measure(name: str, run: Run, prepared: Prepared) -> DemoResult:
    """What one trained model can do."""
    pipeline = load_translator(str(run.folder))
    test, combinations = list_pairs(prepared.samples("test")), list_pairs(prepared.samples("combinations"))
    measures, texts = evaluate_translator(pipeline, test)
    held_out, _ = evaluate_translator(pipeline, combinations)
    steps = [line for line in history(run.folder / "metrics.jsonl") if line["event"] == "step"]
    last = steps[-1]
    example = pipeline.translate(SENTENCE, attention=bool(pipeline.model.alignments), beam=5)
    row = DemoRow(
        name,
        pipeline.model.parameter_count(),
        last["tokens"] / last["seconds"],
        last["step"],
        last["seconds"],
        measures["exact"],
        held_out["exact"],
        by_length(test, texts),
        measures["bleu"],
        SENTENCE,
        example.text,
        str(run.folder),
    )
    return DemoResult(row, example)


def by_length(pairs: Sequence[Pair], texts: Sequence[str]) -> dict[str, float]:
    """Exact match by the number of words of the English sentence."""
    found: dict[str, float] = {}
    for name, (least, most) in LENGTHS.items():
        right = [
            text == target
            for (source, target), text in zip(pairs, texts, strict=True)
            if least <= len(source.split()) <= most
        ]
        if right:
            found[name] = sum(right) / len(right)
    return found


def pictures(shown: Sequence[DemoResult], out: Path) -> list[Path]:
    """The PNGs: exact match by length, learning curves, and what the last two models looked at."""
    with explain_disk_errors(out, 0):
        facts = [item.row.as_json() for item in shown]
        replace(out / FACTS, json.dumps(facts, indent=1, ensure_ascii=False).encode())
    paths = outputs(out)[:2]
    groups = {item.row.model: {name: 100 * share for name, share in item.row.lengths.items()} for item in shown}
    chart.bars(groups, paths[0], "Exact match by the length of the English sentence", "%")
    histories = {item.row.model: history(Path(item.row.run) / "metrics.jsonl") for item in shown}
    chart.curves(histories, paths[1])
    for item in shown:
        if item.example.attention is not None:
            path = out / f"attention-{item.row.model.replace(' ', '-')}.png"
            columns, rows, weights = by_word(item.example.source_tokens, item.example.tokens, item.example.attention)
            chart.heatmap(columns, rows, weights, path, f"{item.row.model}: {item.row.translation}")
            paths.append(path)
    return paths
