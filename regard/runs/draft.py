"""A run file to start from: the corpus as it was guessed, sizes that fit it, and beside each setting what it means.

What a setting means is told by its own description; why it has this value is told here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from regard.data.corpus import CorpusSpec, Generated, list_givers
from regard.data.guess import divide_files
from regard.data.hunch import has_pictures
from regard.data.packing import strip_packing
from regard.errors import InputError
from regard.runs.commented import write_commented
from regard.runs.look import CorpusLook, find_form, find_tasks, look_at_corpus, look_at_files
from regard.runs.sizing import Amount, Machine, Sizes, choose_sizes
from regard.runs.spec import RunSpec
from regard.tasks.task import TaskSpec

GLANCE = 500  # samples of a corpus that is made here: they are all alike
# what to learn from where no files are given: small enough for minutes
BUILT_IN: dict[str, dict[str, Any]] = {
    "translation": {"kind": "en-fr", "level": "first", "train": 20_000},
    "embedding": {"kind": "en-fr", "level": "first", "train": 20_000},
    "tagging": {"kind": "en-fr", "level": "first", "train": 20_000},
    "masking": {"kind": "en-fr", "level": "first", "train": 20_000},
    "language": {"kind": "python-stdlib", "most": 200},
    "instruction": {"kind": "manners", "train": 20_000},
    "reward": {"kind": "manners", "train": 20_000},
    "preference": {"kind": "manners", "train": 20_000},
    "policy": {"kind": "manners", "train": 20_000},
    "classification": {"kind": "grammaticality", "level": "first", "train": 20_000},
    "algorithm": {"kind": "copy", "train": 20_000, "sizes": [1, 10], "test_sizes": [1, 20]},
    "regression": {"kind": "adding", "train": 20_000, "sizes": [20, 40]},
    "pointing": {"kind": "hull", "train": 20_000, "sizes": [5, 10]},
    "reckoning": {"kind": "addition", "train": 20_000, "sizes": [1, 3]},
    "question": {"kind": "tables", "train": 20_000},
    "graphs": {"kind": "trees", "train": 2_000},
    "images": {"kind": "scenes", "train": 20_000, "combinations": 0},
    "captioning": {"kind": "scenes", "train": 20_000, "combinations": 200},
    "pixels": {"kind": "scenes", "train": 20_000, "combinations": 0},
}
MODELS = {
    "translation": "transformer-tiny",
    "embedding": "bert-tiny",
    "tagging": "bilstm",
    "masking": "bert-tiny",
    "language": "decoder-tiny",
    "instruction": "decoder-tiny",
    "reward": "decoder-tiny",
    "preference": "decoder-tiny",
    "policy": "decoder-tiny",
    "classification": "bert-tiny",
    "algorithm": "decoder-tiny",
    "regression": "gru",
    "pointing": "pointer-network",
    "reckoning": "gru",
    "question": "neural-programmer",
    "graphs": "gin",
    "images": "cct-2-3x2",
    "captioning": "captioner",
    "pixels": "pixelcnn",
}
BEST = {
    "pairs": "translation",
    "documents": "language",
    "labels": "classification",
    "tags": "tagging",
    "images": "images",
    "captions": "captioning",
    "pictures": "pixels",
    "conversations": "instruction",
    "preferences": "preference",
    "prompts": "policy",
}
GENERIC = ("train", "training", "data", "corpus", "input", "text")  # names of files that tell nothing
CONTEXT = 128  # tokens of a row of running text
SIDE = {"images": 64, "captioning": 96, "pixels": 28}  # pixels of a picture's side, at most, for a first try
ROWS = {"images": 64, "captioning": 32, "pixels": 16}  # pictures of a batch


@dataclass
class Draft:
    """A run file that was written down but not to a disk."""

    task: str
    tree: dict[str, Any]
    reasons: dict[str, str]  # why a setting is as it is, by its name in the file
    about: list[str]  # what stands at its top
    look: CorpusLook

    @property
    def text(self) -> str:
        return write_commented(self.tree, self.reasons, self.about, RunSpec)


@dataclass
class Plan:
    """What a draft is made from."""

    task: str
    look: CorpusLook
    amount: Amount
    sizes: Sizes
    machine: Machine
    reasons: dict[str, str] = field(default_factory=dict)


def draft(
    task: str | None = None,
    paths: Sequence[str] = (),
    told: Mapping[str, Any] | None = None,
    machine: Machine | None = None,
    out: str | None = None,
) -> Draft:
    """A run file for a task, on files or on a corpus that is built in; without a task, the files tell it.

    `told`: settings of the files' reader that are known; `machine`: the one to fit it to, if not this one.
    """
    if paths:
        seen, scale = look_at_files(paths, task, told, firm=True), 1
        task = task or _choose_task(seen)
    else:
        task = task or "translation"
        seen, scale = _look_at_built_in(task)
    seen.insist_on_samples()
    amount, machine = Amount.measure(seen.survey.splits["train"], scale), machine or Machine.look()
    plan = Plan(task, seen, amount, choose_sizes(amount, machine), machine)
    tree = {
        "task": _draft_task(plan),
        "corpus": _draft_corpus(plan, bool(paths)),
        **_draft_tokens(plan),
        "batches": _draft_batches(plan),
        "model": _draft_model(plan),
        "train": _draft_train(plan),
        "device": "auto",
        "out": out or f"runs/{_name(task, paths)}",
    }
    RunSpec.parse(tree)
    source = f"{', '.join(Path(path).name for path in paths)}" if paths else "a corpus that is built in"
    about = [
        f"A run file for the task {task}, with {source}.",
        f"Sizes are a first try for {amount.samples:,} samples{_count_words(seen, amount)} on {machine.describe()}.",
        "Settings can be changed here or where the run is started: regard train FILE train.minutes=30",
    ]
    return Draft(task, tree, plan.reasons, about, seen)


def _count_words(seen: CorpusLook, amount: Amount) -> str:
    return "" if has_pictures(seen.form) else f" with {amount.words:,} words"


def _choose_task(seen: CorpusLook) -> str:
    known = find_tasks(seen.form)
    best = BEST.get(seen.form, "")
    if not known:
        raise InputError(f"{seen.form}: no task learns from such samples", "regard data FILE shows what is there")
    return best if best in known else known[0]


def _look_at_built_in(task: str) -> tuple[CorpusLook, int]:
    """A corpus for a task where no files are given, and how many times as large it is as what was looked at."""
    form = find_form(task)
    tree = BUILT_IN.get(task)
    if tree is None:
        kinds = [name for name in list_givers(form) if name in CorpusSpec.kinds]
        if not kinds:
            raise InputError(f"{task}: no corpus for it is built in", f"regard new {task} --data FILE")
        tree = {"kind": kinds[0]}
    corpus = CorpusSpec.parse(tree)
    if not isinstance(corpus, Generated):
        return look_at_corpus(tree, form), 1
    seen = look_at_corpus({**tree, "train": GLANCE, "validation": 1, "test": 1}, form)
    seen.tree = dict(tree)
    return seen, max(1, corpus.train // GLANCE)


def _draft_task(plan: Plan) -> Any:
    why = plan.reasons
    if has_pictures(plan.look.form):
        return _draft_pictures(plan)
    if plan.task in ("instruction", "preference", "policy"):
        return _draft_feedback(plan)
    if plan.task in ("language", "masking"):
        why["task.context"] = "twice as many cost more than twice the time"
        return {"kind": plan.task, "context": CONTEXT}
    if plan.task == "tagging":
        why["task.forget"] = "letters and neighbours must do for them"
        return {"kind": "tagging", "spelling": {"size": 32, "width": 64}, "forget": 0.1}
    if plan.task == "translation" and plan.amount.samples > 5000:
        why["task.smoothing"] = "a little helps against overconfidence"
        return {"kind": "translation", "smoothing": 0.1}
    return plan.task


def _draft_feedback(plan: Plan) -> Any:
    """A task on conversations, as far as it needs more than its name."""
    why = plan.reasons
    if plan.task == "instruction":
        why["task.context"] = "the longest conversation has about so many; one with more is left out and counted"
        return {"kind": "instruction", "context": max(CONTEXT, plan.sizes.longest)}
    if plan.task == "preference":
        why["task.loss"] = "it needs no model to begin from; with start: RUN, dpo stays near that one"
        return {"kind": "preference", "loss": "orpo"}
    why["task.reward"] = "what answers earn: right, judge, label, or a function of your own"
    return {"kind": "policy", "reward": "manners" if plan.look.tree.get("kind") == "manners" else "right"}


def _draft_pictures(plan: Plan) -> Any:
    """A task on pictures, and how they come to one size where they haven't one, or a large one."""
    sizes, why = plan.look.survey.splits["train"].sizes, plan.reasons
    (height, width, channels), number = sizes.most_common(1)[0]
    most = SIDE.get(plan.task, max(height, width))
    grey = plan.task == "pixels" and channels != 1
    if len(sizes) == 1 and max(height, width) <= most and not grey:
        return plan.task
    scale = min(1.0, most / max(height, width))
    why["task.size"] = f"{number:,} of {sizes.total():,} pictures are {height} × {width}; larger ones take more time"
    why["task.fit"] = "nothing is cut off, but shapes may change"
    wanted = [max(1, round(height * scale)), max(1, round(width * scale))]
    tree: dict[str, Any] = {"kind": plan.task, "size": wanted, "fit": "resize"}
    if grey:
        why["task.channels"] = "colours take three times as long"
        tree["channels"] = 1
    elif len({size[2] for size in sizes}) > 1:
        why["task.channels"] = "some pictures are grey, and others have colours"
        tree["channels"] = 3 if channels != 1 else 1
    return tree


def _draft_corpus(plan: Plan, own: bool) -> dict[str, Any]:
    why, tree = plan.reasons, {name: value for name, value in plan.look.tree.items() if name != "split"}
    if own:
        why["corpus"] = "paths count from where regard is called"
        if "validation" not in tree:
            why["corpus"] += "; there are no files for validation, so a twentieth of train is kept back for it"
    for one in plan.look.settled:
        key = ".".join(one.words.split(".")[:2])
        told = f"{one.doubt}; taken so: {one.meaning}"
        why[key] = f"{why[key]}; {told}" if key in why else told
    return tree


def _draft_tokens(plan: Plan) -> dict[str, Any]:
    task, why = TaskSpec.parse(plan.task), plan.reasons
    if not task.words:
        return {}
    if plan.task in ("algorithm", "question"):
        why["tokenizer.pieces"] = "words as they are given"
        return {"tokenizer": {"pieces": "given"}}
    if plan.task == "tagging":
        why["tokenizer.pieces"] = "words as they are given, since each has its tag"
        why["tokenizer.vocabulary"] = "the most frequent words; letters do for the others"
        most = min(20_000, max(100, plan.amount.different))
        return {"tokenizer": {"pieces": "given", "lowercase": True, "vocabulary": most}}
    limit = "16,000" if plan.machine.gpu else "8,000"
    why["tokenizer.pieces"] = "frequent words stay whole, rare ones are cut"
    why["tokenizer.vocabulary"] = f"a third of the {plan.amount.different:,} different words, from 300 to {limit}"
    return {"tokenizer": {"pieces": "bpe", "vocabulary": plan.sizes.vocabulary}}


def _draft_batches(plan: Plan) -> dict[str, Any]:
    sizes = plan.sizes
    if has_pictures(plan.look.form):
        plan.reasons["batches.rows"] = "fewer need less memory"
        return {"rows": ROWS.get(plan.task, 32)}
    if plan.task == "policy":
        plan.reasons["batches.rows"] = "prompts that are answered together"
        return {"rows": 32}
    plan.reasons["batches.tokens"] = "fewer need less memory"
    if plan.look.form == "documents":  # which are cut to the context, however long they are
        return {"tokens": max(min(sizes.batch, 4096), 4 * CONTEXT)}
    plan.reasons["batches.longest"] = f"the longest sample has about {plan.amount.longest:,}"
    return {"tokens": sizes.batch, "longest": sizes.longest}


def _draft_model(plan: Plan) -> dict[str, Any]:
    why, sizes = plan.reasons, plan.sizes
    kind = MODELS.get(plan.task, "decoder-tiny")
    if has_pictures(plan.look.form):
        why["model"] = "regard show lists all presets"
        return {"kind": kind}
    recurrent = kind in ("bilstm", "gru", "pointer-network", "neural-programmer")
    why["model"] = "regard show lists all presets"
    why["model.width"] = f"for {plan.amount.words:,} words on {plan.machine.describe()}"
    why["model.dropout"] = "the less there is to learn from, the more of it"
    tree = {"kind": kind, "width": sizes.width, "depth": 1 if recurrent else sizes.depth, "dropout": sizes.dropout}
    if not recurrent and kind != "gin":
        channels = 32 if sizes.width < 256 else 64
        why["model.heads"] = f"one for each {channels} channels"
        tree["heads"] = sizes.width // channels
    if kind == "bert-tiny":
        why["model.context"] = "as many as the longest sample has tokens"
        tree["context"] = CONTEXT if plan.look.form == "documents" else sizes.longest
    if plan.task in ("regression", "reckoning"):
        why["model.dropout"] = "numbers are to be exact"
        tree["dropout"] = 0.0
    return tree


def _draft_train(plan: Plan) -> dict[str, Any]:
    why, sizes = plan.reasons, plan.sizes
    why["train"] = "the first budget that is used up ends the run"
    if has_pictures(plan.look.form):
        sizes = _size_pictures(plan)
    why["train.epochs"] = "the less there is, the more often it is seen"
    why["train.minutes"] = "a guess at what that takes here; regard plan measures it"
    why["train.optimizer"] = "a wider model takes a smaller rate"
    return {
        "epochs": sizes.passes,
        "minutes": sizes.minutes,
        "optimizer": {"kind": "adamw", "rate": sizes.rate, "decay": 0.01},
        "schedule": {"kind": "linear", "warmup": min(200, sizes.evaluate)},
        "evaluate": sizes.evaluate,
        "save": sizes.evaluate,
        "patience": 8,
    }


def _size_pictures(plan: Plan) -> Sizes:
    """Budgets of a first try on pictures: words say nothing of them."""
    steps = max(1, plan.amount.samples // ROWS.get(plan.task, 32))
    passes = 60 if plan.amount.samples < 10_000 else 20
    return replace(plan.sizes, passes=passes, minutes=15, rate=0.001, evaluate=min(1000, max(50, steps)))


def _name(task: str, paths: Sequence[str]) -> str:
    """What the run's folder is called: after the file to train on, or its folder if that is only `train`."""
    if not paths:
        return task
    place = Path(strip_packing(divide_files(paths)["train"][0])).absolute()
    stem = place.name.partition(".")[0]
    stem = place.parent.name if stem in GENERIC else stem
    return "".join(sign if sign.isalnum() or sign in "-_" else "-" for sign in stem) or task
