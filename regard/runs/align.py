"""Linking the words of pairs of texts by what a model looked at, and measuring the links against gold ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from regard.core.hint import suggest
from regard.data.corpus import Split
from regard.data.source import STANDARD_INPUT
from regard.decode.translator import Translator
from regard.errors import DataError, InputError, warn
from regard.host.meter import SILENT, Meter
from regard.host.output import check_file
from regard.lens.aligner import JOINS, WINDOW, Aligner, HeadCandidate, Join, link_words, make_aligner
from regard.lens.alignment import (
    STEPS,
    CutText,
    HeadChoice,
    Step,
    TokenPair,
    Weights,
    WordedText,
    cut_text,
    find_excess,
    list_layers,
    merge_words,
    watch_pairs,
)
from regard.lens.links import AlignmentScore, GoldLinks, Links, measure_links, read_gold
from regard.runs.evaluate import TestSet, count_training, name_model, open_run, read_samples
from regard.runs.load import load_translator
from regard.runs.precision import spell_precision
from regard.runs.results import machine, read_page, record
from regard.tasks.translation import TranslationTaskSpec

WordedPair = tuple[WordedText, WordedText]
TOLD = 10  # places that a message lists
MOST = 20_000  # pairs to learn from, unless more are asked for
FEW = 50  # with fewer pairs, no head is better than another by more than chance


@dataclass(frozen=True)
class AlignmentSettings:
    """How words are linked."""

    head: str = "auto"  # auto, mean, LAYER, LAYER.HEAD
    step: Literal["auto"] | Step = "auto"
    join: Join = "grow-diag"  # how rows and columns, or two directions, become one
    lexical: bool = True  # a table of word pairs sharpens the weights
    learn: int = MOST  # pairs to choose a head and make the table by: the given ones, and training data up to so many

    def check(self) -> None:
        if self.join not in JOINS:
            raise InputError(f"--symmetrize {self.join}: there is no such way{suggest(self.join, JOINS)}")
        if self.step not in ("auto", *STEPS):
            raise InputError(f"--step {self.step}: there is no such step{suggest(self.step, ('auto', *STEPS))}")
        if self.learn < 0:
            raise InputError(f"--learn {self.learn}: a number of pairs is wanted", "--learn 20000")


@dataclass(frozen=True)
class HeadScore:
    """One head, or a mean, as it was seen: each target word linked to the source word with the most weight."""

    candidate: HeadCandidate
    score: AlignmentScore | None


@dataclass
class AlignmentReport:
    """Pairs, their links, and how good they are where that can be told."""

    pairs: list[WordedPair]
    links: list[Links]
    aligners: list[Aligner]  # one, or one for each direction
    heads: list[HeadScore]  # of the first; the chosen one comes first
    score: AlignmentScore | None
    skipped: list[str]  # which pairs couldn't be read, and why
    weights: list[str]  # what those of each model were packed to; links have a precision too, which is another matter

    def as_json(self) -> dict[str, Any]:
        """What was chosen and measured, without the links."""
        found: dict[str, Any] = {"chosen": [tell_choice(aligner.choice) for aligner in self.aligners]}
        found["weights"] = self.weights
        if self.score is not None:
            found |= self.score.as_json()
        found["heads"] = [
            tell_choice(head.candidate.choice)
            | {"consistency": head.candidate.consistency}
            | ({} if head.score is None else head.score.as_json())
            for head in self.heads
        ]
        return found | {"skipped": self.skipped}


def tell_choice(choice: HeadChoice) -> dict[str, str]:
    return {"head": choice.name, "step": choice.step}


def align(
    noun: str,
    files: Sequence[str] = (),
    gold: Path | None = None,
    reverse: str | None = None,
    settings: AlignmentSettings | None = None,
    *,
    split: Split | None = None,
    turned: bool = False,
    compare: bool = False,
    outputs: Sequence[Path | None] = (),
    meter: Meter = SILENT,
    precision: str | None = None,
) -> AlignmentReport:
    """Link the words of files, or of what a run kept for testing; `reverse`: a model of the other direction.

    Gold links come from a file, or from the run's own corpus if that knows them; `turned`: the file has the target's
    word first. `compare`: measure every head that could have been chosen. `outputs`: places that will be written to;
    one that won't do is refused before the work. `precision`: what the weights of the models are packed to.
    """
    settings = settings or AlignmentSettings()
    settings.check()
    for path in outputs:
        if path is not None:
            check_file(path)
    pairs, known = read_pairs(noun, files, split)
    if gold is not None:
        sizes = [(len(source.spans), len(target.spans)) for source, target in pairs]
        links = read_gold(gold, [(other, one) for one, other in sizes] if turned else sizes)
        known = [each.turn() for each in links] if turned else links
    sides = [AlignedSide.load(noun, pairs, precision)]
    if reverse is not None:
        sides.append(AlignedSide.load(reverse, [(target, source) for source, target in pairs], precision))
    aligners = [side.make_aligner(settings, meter) for side in sides]
    total = sum(len(side.fitting) for side in sides)
    with meter.watch("aligning, pairs", total) as advance:
        forward, *others = [side.weigh(aligner, advance) for side, aligner in zip(sides, aligners, strict=True)]
    backward = others[0] if others else None
    joined: list[Links] = []
    for n in range(len(pairs)):
        if n in forward and (backward is None or n in backward):
            joined.append(link_words(forward[n], None if backward is None else backward[n], settings.join))
        else:  # a pair that one of the models can't read
            joined.append(frozenset())
    heads = [HeadScore(candidate, None) for candidate in aligners[0].candidates]
    if compare and known is not None:
        heads = measure_heads(sides[0], aligners[0], known, meter)
    score = None if known is None else measure_links(joined, known)
    skipped, weights = [told for side in sides for told in side.skipped], [side.translator.precision for side in sides]
    return AlignmentReport(pairs, joined, aligners, heads, score, skipped, weights)


def read_pairs(noun: str, files: Sequence[str], split: Split | None) -> tuple[list[WordedPair], list[GoldLinks] | None]:
    """Pairs of texts with their words, and their gold links where the run's corpus knows them."""
    if split is not None and files:
        raise InputError(f"--split {split} is a part that the run kept, and --data names files: which?", "one of them")
    run = open_run(noun)
    if run is None and not files:
        raise InputError(f"{noun}: there is a model in it, and no pairs", "--data FILE, or --data - < PAIRS.tsv")
    if list(files) == [STANDARD_INPUT]:
        files = ["{kind: tsv, path: '-', header: false}"]  # a stream has no name that tells what is in it
    if run is not None and not files and run.spec.task.form != TranslationTaskSpec.form:
        told = f"{noun}: it learned {run.spec.task.kind}, and kept no pairs of texts"
        raise InputError(told, "a run that learned to translate, or --data FILE with one that can")
    samples = read_samples(run, TranslationTaskSpec(), TestSet(files, split))
    if run is not None and not files:
        chosen = split or ("test" if run.prepared().has("test") else "validation")
        linked = {pair.source: pair for pair in run.spec.corpus.list_links(chosen)}
        if linked and all(sample["source"] in linked for sample in samples):
            found = [linked[sample["source"]] for sample in samples]
            pairs = [
                (WordedText.locate(one.source, one.source_words), WordedText.locate(one.target, one.target_words))
                for one in found
            ]
            return pairs, [GoldLinks(one.links, one.links) for one in found]
    return [(WordedText.split(sample["source"]), WordedText.split(sample["target"])) for sample in samples], None


@dataclass
class AlignedSide:
    """One model, and the pairs as it reads them."""

    noun: str
    translator: Translator
    cut: list[tuple[CutText, CutText]]
    fitting: list[int]  # numbers of the pairs that it can read
    skipped: list[str]

    @classmethod
    def load(cls, noun: str, pairs: Sequence[WordedPair], precision: str | None = None) -> AlignedSide:
        translator = load_translator(noun, precision)
        list_layers(translator)  # what doesn't attend is refused before anything is cut
        cut = [(cut_text(translator.source, one), cut_text(translator.target, other)) for one, other in pairs]
        faults = [find_excess(translator, (one.tokens, other.tokens)) for one, other in cut]
        skipped = [f"pair {n}: {fault}" for n, fault in enumerate(faults, 1) if fault]
        if skipped:
            more = f", and {len(skipped) - TOLD} more" if len(skipped) > TOLD else ""
            warn(f"{noun}: {len(skipped)} of {len(cut)} pairs have no links: {'; '.join(skipped[:TOLD])}{more}")
        fitting = [n for n, fault in enumerate(faults) if not fault]
        if not fitting:
            raise DataError(f"{noun}: it can read none of the {len(cut)} pairs: {skipped[0]}", "shorter texts")
        return cls(noun, translator, cut, fitting, skipped)

    @property
    def tokens(self) -> list[TokenPair]:
        return [(self.cut[n][0].tokens, self.cut[n][1].tokens) for n in self.fitting]

    def make_aligner(self, settings: AlignmentSettings, meter: Meter) -> Aligner:
        """The aligner that these pairs and the run's training data make."""
        given = self.tokens
        pairs = [*given[: max(MOST, settings.learn)], *self.recall(max(0, settings.learn - len(given)))]
        if settings.head == "auto" and len(pairs) < FEW:
            warn(f"{len(pairs)} pairs are few to choose a head from; --learn or more --data help, or --head says which")
        return make_aligner(self.translator, pairs, settings.head, settings.step, settings.lexical, meter)

    def recall(self, most: int) -> list[TokenPair]:
        """Pairs of the run's own training data, drawn evenly from all of it; none for a model from elsewhere."""
        run = open_run(self.noun)
        if run is None or not most:
            return []
        sources, targets = (run.prepared().columns[side] for side in ("source", "target"))
        places = np.unique(np.linspace(0, len(sources) - 1, min(most, len(sources))).astype(int)).tolist()
        pairs = [(sources[n], targets[n]) for n in places]
        return [pair for pair in pairs if not find_excess(self.translator, pair)]

    def weigh(self, aligner: Aligner, advance: Any) -> dict[int, Weights]:
        """The weights between the words of each pair that fits, by its number."""
        found: dict[int, Weights] = {}
        for first in range(0, len(self.fitting), WINDOW):
            group = self.fitting[first : first + WINDOW]
            found |= zip(group, aligner.weigh_words([self.cut[n] for n in group]), strict=True)
            advance(len(group))
        return found


def measure_heads(side: AlignedSide, aligner: Aligner, gold: Sequence[GoldLinks], meter: Meter) -> list[HeadScore]:
    """Every candidate by itself: attention alone, each target word linked to the source word with the most weight."""
    links: dict[HeadChoice, dict[int, Links]] = {candidate.choice: {} for candidate in aligner.candidates}
    with meter.watch("measuring all heads, pairs", len(side.fitting)) as advance:
        for place, look in watch_pairs(side.translator, side.tokens, list_layers(side.translator)):
            n = side.fitting[place]
            for choice, found in links.items():
                found[n] = link_words(merge_words(choice.take(look), *side.cut[n]), how="none")
            advance()
    return [
        HeadScore(one, measure_links([links[one.choice].get(n, frozenset()) for n in range(len(gold))], gold))
        for one in aligner.candidates
    ]


def record_alignment(
    page: Path,
    noun: str,
    reverse: str | None,
    files: Sequence[str],
    settings: AlignmentSettings,
    done: AlignmentReport,
    turned: bool = False,
) -> None:
    """Put a row into the page of results: what was measured, beside how the models were trained; and one a head."""
    assert done.score is not None
    nouns = [noun] if reverse is None else [noun, reverse]
    runs = [run for run in map(open_run, nouns) if run is not None]
    if len(runs) < len(nouns):
        raise InputError("only what was trained here is recorded", "leave --record out")
    trained = [count_training(run) for run in runs]
    score, names = done.score, [Path(run.folder).name for run in runs]
    told = "attention and a table of word pairs" if settings.lexical else "attention alone"
    how = "rows" if settings.join == "none" else settings.join
    used = " + ".join(dict.fromkeys(done.weights))
    packed = "" if used == "fp32" else f", {used}"
    row = {
        "runs": f"{' + '.join(names)}: {told}, {how}{packed}",
        "model": " + ".join(dict.fromkeys(map(name_model, nouns))),
        "trained": " + ".join(f"{seconds / 60:.1f} min, {steps:,} steps" for seconds, steps in trained),
        "head": " + ".join(_name_head(aligner.candidates[0]) for aligner in done.aligners),
        "AER": f"{score.error_rate:.1%} ({score.error_rate_low:.1%} to {score.error_rate_high:.1%})",
        "precision": f"{score.precision:.1%}",
        "recall": f"{score.recall:.1%}",
        "sentences": f"{score.sentences:,}",
        "machine": machine(),
        "command": f"`regard align RUN{' --reverse RUN' if reverse else ''} --symmetrize {settings.join}"
        f"{'' if settings.lexical else ' --no-lexical'}{' --data TEXT --gold LINKS' if files else ''}"
        f"{' --turned' if turned else ''}{spell_precision(used)}`",
    }
    title = f"Word alignment: {Path(files[0]).name if files else runs[0].spec.corpus.kind}"
    record(page, title, row)
    for head in done.heads:
        if head.score is not None:
            label = {"head": f"{names[0]}{packed}: {_name_head(head.candidate)}"}
            record(page, f"{title}, every head", label | _tell_head(head))


def _name_head(candidate: HeadCandidate) -> str:
    return f"{candidate.choice.name}, {candidate.choice.step}"


def _tell_head(head: HeadScore) -> dict[str, str]:
    assert head.score is not None
    return {
        "consistency": f"{head.candidate.consistency:.3f}",
        "AER": f"{head.score.error_rate:.1%}",
        "precision": f"{head.score.precision:.1%}",
        "recall": f"{head.score.recall:.1%}",
    }


def check_record(page: Path | None, nouns: Sequence[str]) -> None:
    """Insist that a row can be written for these runs, before they are asked."""
    if page is None:
        return
    read_page(page)
    for noun in nouns:
        run = open_run(noun)
        if run is None:
            raise InputError(f"{noun}: only what was trained here is recorded", "leave --record out")
        count_training(run)
