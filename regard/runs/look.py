"""Looking at a corpus before anything is trained: what would be read, what would be left out, and what is doubtful."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from regard.config import Document, merge
from regard.data.corpus import CorpusSpec, Split
from regard.data.doubt import settle_doubt, spell_ways
from regard.data.guess import propose_corpus
from regard.data.likeness import Suspicion
from regard.data.log import BAD, ENCODING, Log
from regard.data.sample import Form
from regard.data.source import STANDARD_INPUT
from regard.data.survey import SplitSurvey, Survey, list_labels
from regard.errors import DataError, Doubt, SpecError
from regard.host.meter import SILENT, Meter
from regard.runs.spec import RunSpec
from regard.runs.uses import load_uses
from regard.tasks.task import TaskSpec

ROUNDS = 8  # doubts that are settled one after the other
MANY = 20  # labels: more are hardly numbers of stars
FEW = 5  # samples of a label, from which nothing can be learned


@dataclass
class Settled:
    """A doubt, and the way out that was taken: what it means, and the words that take it."""

    doubt: str
    meaning: str
    words: str


@dataclass
class CorpusLook:
    """What was seen of a corpus."""

    form: Form
    corpus: CorpusSpec
    tree: dict[str, Any]  # the corpus as a run file describes it
    survey: Survey
    log: Log
    settled: list[Settled] = field(default_factory=list)
    kept_back: tuple[Split, ...] = ()  # splits that are made of what there is to train on
    guessed: bool = False  # from files alone, and not from a run file

    def insist_on_samples(self) -> None:
        """Refuse a corpus of which nothing can be trained on, as training does."""
        if "train" not in self.survey.splits:
            hint = ENCODING if self.guessed and BAD in self.log.reasons else self.log.advise()
            raise DataError(f"train: no sample can be used: {self.log.summary()}", hint)

    def as_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        common, strange = self.survey.count_common(), self.survey.find_unknown_labels()
        corpus = {name: value for name, value in self.tree.items() if name != "split"}
        splits = {
            split: {
                "samples": part.samples,
                "left_out": self.log.left_out[split],
                "faults": {reason: vars(fault) for reason, fault in self.log.faults.get(split, {}).items()},
                "lengths": {name: lengths.to_json() for name, lengths in part.lengths.items()},
                "labels": dict(part.labels.most_common()),
                "sizes": {" × ".join(map(str, size)): number for size, number in part.sizes.most_common()},
                "words": part.words.different,
                "duplicates": part.whole.again,
                "contradictions": part.contradictions,
                "exact": part.is_exact,
                "also_trained_on": common.get(split, 0),
                "unknown_labels": strange.get(split, []),
                "suspicious": {name: vars(found) for name, found in list_suspicions(part).items()},
                "examples": [part.form.condense(sample) for sample in part.examples],
            }
            for split, part in self.survey.splits.items()
        }
        return {"form": self.form, "corpus": corpus, "doubts": [vars(one) for one in self.settled], "splits": splits}


def list_suspicions(part: SplitSurvey) -> dict[str, Suspicion]:
    """What is suspicious about the labels or the pairs of a split."""
    found: dict[str, Suspicion] = {}
    if len(part.labels) > MANY and all(map(_is_number, part.labels)):
        found["labels that are numbers: a score rather than classes?"] = Suspicion(len(part.labels))
    rare = sum(number < FEW for number in part.labels.values())
    found[f"labels that fewer than {FEW} samples have"] = Suspicion(rare)
    if len(part.sizes) > 1:
        size, number = part.sizes.most_common(1)[0]
        told = f"pictures of another size or other channels than {' × '.join(map(str, size))}"
        found[f"{told}: task.size=[{size[0]}, {size[1]}] task.fit=resize, task.channels={size[2]}"] = Suspicion(
            part.sizes.total() - number
        )
    if part.pairs is not None:
        usual = part.pairs.find_usual_ratio()
        found["source equal to target"] = part.pairs.equal
        found[f"target much shorter or longer than {usual:.2f} times its source"] = part.pairs.find_misfits()
        found |= part.pairs.find_strangers()
    return {name: one for name, one in found.items() if one.count}


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[+-]?\d+([.,]\d+)?", text) is not None


def look_at_files(
    paths: Sequence[str],
    task: str | None = None,
    told: Mapping[str, Any] | None = None,
    firm: bool = False,
    meter: Meter = SILENT,
) -> CorpusLook:
    """Look at files: their form, reader and columns are guessed; `told`: settings of the reader that are known.

    `firm`: a doubt whose likeliest way out changes what is told is raised, and not settled.
    """
    form = None if task is None else find_form(task)
    own = dict(told or {})
    whole = own.pop("corpus", {})  # what a doubt's words say: corpus.validation.header=true
    proposal = propose_corpus(paths, form, own)
    if form not in (None, proposal.form):
        fitting = " or ".join(find_tasks(proposal.form))
        raise SpecError(f"{paths[0]}: it holds {proposal.form}, and {task} needs {form}", f"for {fitting}")
    # all of them are looked at, and nothing is kept back
    tree = merge({**proposal.corpus, "split": {"validation": 0.0}}, whole)
    labels_of = TaskSpec.parse(task).labels if task else list_labels
    found = _look(tree, proposal.form, Path(), labels_of, own if firm else {}, meter)
    found.guessed = True
    return found


def look_at_run(document: Document, meter: Meter = SILENT) -> CorpusLook:
    """Look at the corpus of a run file."""
    load_uses(document)
    spec = RunSpec.parse(document.tree, document.where)
    spec.corpus.must_give(spec.task.form, spec.task.kind)
    tree = document.tree["corpus"]
    tree = {"kind": tree} if isinstance(tree, str) else dict(tree)
    return _look(tree, spec.task.form, Path(spec.data), spec.task.labels, meter=meter)


def look_at_corpus(tree: Mapping[str, Any], form: Form) -> CorpusLook:
    """Look at a corpus as a run file describes it."""
    return _look(dict(tree), form, Path(), list_labels)


def find_form(task: str) -> Form:
    """The form of the samples that a task learns from."""
    if task not in TaskSpec.kinds:
        raise SpecError(f"no task is called {task!r}", f"known: {', '.join(sorted(TaskSpec.kinds))}")
    return TaskSpec.parse(task).form


def list_tasks() -> list[str]:
    """Every task by its name."""
    return sorted(name for name, kind in TaskSpec.kinds.items() if issubclass(kind, TaskSpec))


def find_tasks(form: Form) -> list[str]:
    """The tasks that learn from samples of a form."""
    return [name for name, kind in TaskSpec.kinds.items() if issubclass(kind, TaskSpec) and kind.form == form]


def _look(
    tree: dict[str, Any],
    form: Form,
    folder: Path,
    labels_of: Any,
    firm: Mapping[str, Any] = MappingProxyType({}),
    meter: Meter = SILENT,
) -> CorpusLook:
    """Read everything once; a doubt is settled in the likeliest way, told, and everything is read again.

    `firm`: settings of a reader that no such way may change.
    """
    settled = list[Settled]()
    while True:
        corpus = CorpusSpec.parse(tree).settle(form, folder)
        log, found = Log("skip" if corpus.policy == "stop" else corpus.policy), Survey(form, labels_of)
        try:
            with meter.watch("reading the corpus, samples") as advance:
                for split, sample in corpus.deal(form, folder, log):
                    found.see(split, sample)
                    advance()
            return CorpusLook(form, corpus, tree, found, log, settled, tuple(corpus.keeps_back()))
        except Doubt as doubt:
            piped = STANDARD_INPUT in _list_files(tree)
            if not doubt.ways or len(settled) == ROUNDS or piped:  # which can't be read again
                raise
            meaning, words = next(iter(spell_ways(doubt).items()))
            if any(firm[name] != value for name, value in doubt.ways[meaning].items() if name in firm):
                raise
            settled.append(Settled(doubt.message, meaning, words))
            tree = settle_doubt({"corpus": tree}, doubt, meaning)["corpus"]


def _list_files(tree: Mapping[str, Any]) -> list[str]:
    """The files that a corpus names for training."""
    train = tree.get("train")
    path = train.get("path", ()) if isinstance(train, Mapping) else train
    return [path] if isinstance(path, str) else list(path) if isinstance(path, list | tuple) else []
