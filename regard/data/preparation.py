"""Making a corpus ready: it is read once, its tokens are learned, and both are written to a folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

from regard.core.model import ModelSpec
from regard.data.canvas import Tally
from regard.data.column import write_column
from regard.data.corpus import CorpusSpec
from regard.data.glance import Glance, describe_prepared
from regard.data.graph import SchemaTally
from regard.data.lexicon import APART, NAME, SHARED, Lexicon
from regard.data.log import Log
from regard.data.prepared import DATA, LIST, REPORT, Prepared, column_files, digest, list_limits
from regard.data.receipt import Receipt
from regard.data.sample import FormSpec, Sample, place, vocabulary
from regard.data.share import Overlap, settle_shares
from regard.data.sieve import Sieve, Wants
from regard.data.spool import read_spool, replace_spool, spool_files, write_spool
from regard.data.tokenizer import Tokenizer, TokenizerSpec
from regard.errors import DataError
from regard.host.files import replace
from regard.host.meter import SILENT, Advance, Meter, ignore


def prepare(
    corpus: CorpusSpec,
    wants: Wants,
    tokenizer: TokenizerSpec,
    longest: int,
    root: Path,
    folder: Path,
    known: Lexicon | None = None,
    model: Callable[[Lexicon], ModelSpec] | None = None,
    meter: Meter = SILENT,
) -> tuple[Prepared, Log]:
    """Read a corpus, learn its tokens, and write both to a folder; the log says what became of every line.

    `root`: where the corpus's files are; `known`: a lexicon whose tokenizers are taken instead of learning them;
    `longest`: tokens of a sample to train on; `model`: the one that will read such tokens, if its positions end.
    """
    corpus.must_give(wants.form, wants.kind)
    corpus = corpus.settle(wants.form, root)
    folder.mkdir(parents=True, exist_ok=True)
    # the list comes first, so that a killed process leaves nothing whose owner isn't known
    spooled = [name for split in corpus.splits() for name in spool_files(split, wants.form)]
    names = [*spooled, *SHARED, *APART, NAME, REPORT, DATA]
    replace(folder / LIST, json.dumps(names).encode())
    log, glance = Log(corpus.policy, folder / REPORT), Glance(wants.labels)
    try:
        with meter.watch("reading the corpus, samples") as advance:
            hashed, counts = write_spool(corpus, Receipt(wants), root, folder, log, advance)
        if kept := corpus.keeps_back():
            settle_shares(folder, wants.form, kept, wants.labels, counts, log)
        overlap = Overlap(folder, wants.form, [split for split in counts if split != "train" and corpus.found])
        with meter.watch("learning tokens"):
            lexicon = _lexicon(wants, tokenizer, folder, known, overlap, glance)
        log.notes += overlap.notes(counts)
        for split in counts:
            if split != "train":
                check(read_spool(folder, split, wants.form), wants, lexicon, split)
        replace(folder / LIST, json.dumps([*names, *column_files(wants.columns(lexicon))]).encode())
        sieve = Sieve(wants, lexicon, longest, [{}, {}] if model is None else list_limits(model(lexicon)), log)
        with meter.watch("cutting the corpus into tokens, samples", counts["train"]) as advance:
            _encode(folder, sieve, tokenizer if known is None and wants.words else None, advance)
        for split in counts:
            if split != "train":  # what is too long is left out
                fitting = (sample for sample, _ in sieve(read_spool(folder, split, wants.form), split))
                replace_spool(folder, split, wants.form, map(_forget_group, fitting))
    finally:
        log.close()
    for name in spool_files("train", wants.form):
        (folder / name).unlink()
    files = lexicon.files()
    for name, bytes_of in files.items():
        (folder / name).write_bytes(bytes_of)
    columns = dict(wants.columns(lexicon))
    kept_files = [name for split in counts if split != "train" for name in spool_files(split, wants.form)]
    listed = [*files, *column_files(columns), *kept_files]
    facts = {
        "digest": hashed,
        "form": wants.form,
        "samples": {split: sieve.passed[split] for split in counts},
        "columns": {name: column.to_fact() for name, column in columns.items()},
        "limits": sieve.limits,
        "lines": {"kept": log.kept, "repaired": log.repaired, "skipped": log.skipped},
        "files": {name: digest(folder / name) for name in listed},
    }
    replace(folder / DATA, json.dumps(facts, indent=1).encode())
    prepared = Prepared.load(folder, tokenizer.dropout)
    log.seen = describe_prepared(prepared, glance)
    return prepared, log


def _forget_group(sample: Sample) -> Sample:
    """A sample that has come to its split, so what brought it there is forgotten."""
    return {name: value for name, value in sample.items() if name != "group"}


def _lexicon(
    wants: Wants, spec: TokenizerSpec, folder: Path, known: Lexicon | None, overlap: Overlap, glance: Glance
) -> Lexicon:
    """Learn one tokenizer for all texts of a sample, or one for each; and collect labels and letters."""
    words = _learn_words(wants, spec, folder, known) if wants.words else None
    form = FormSpec.parse(wants.form)
    letters, tally, pictures = set[str](), Tally(), form.list_pictures()
    vectors: tuple[int, int] | None = None
    graphs = SchemaTally()
    for number, sample in enumerate(glance.watch(read_spool(folder, "train", wants.form)), 1):
        overlap.see(sample)
        if (sizes := form.measure_vectors(sample)) is not None:
            vectors = _join_sizes(vectors, sizes, place(sample, "train", number))
        for name in pictures:
            tally.see(sample[name])
        if wants.form == "graphs":
            graphs.see(sample["nodes"], sample["edges"], sample.get("edge_kinds"))
        letters.update(wants.letters(sample))
    # letters that are known keep their numbers, and new ones follow
    before = [] if known is None else known.letters
    spelled = [*before, *vocabulary(letters - set(before))] if letters else []
    canvas = tally.canvas()
    if canvas is not None and known is not None and known.canvas is not None:
        canvas = canvas.light_as(known.canvas)
    foreign = known is not None and known.foreign
    return Lexicon(words, vocabulary(glance.labels), spelled, foreign, canvas, vectors, graphs.schema())


def _join_sizes(before: tuple[int, int] | None, now: tuple[int, int], where: str) -> tuple[int, int]:
    """The numbers and the answers of a position, over several samples; all must have as many numbers."""
    if before is not None and before[0] != now[0]:
        raise DataError(f"{where}: its vectors have {now[0]} numbers, and those before it {before[0]}", "one size")
    return now if before is None else (before[0], max(before[1], now[1]))


def _learn_words(wants: Wants, spec: TokenizerSpec, folder: Path, known: Lexicon | None) -> tuple[Tokenizer, Tokenizer]:
    """One tokenizer for all texts of a sample, or one for each of two; those that are known, if there are any."""
    if known is not None:
        for part in known.tokenizers:
            part.extend(wants.special)
        return known.tokenizers
    sides = len(wants.texts(next(read_spool(folder, "train", wants.form))))
    shared = spec.shared or sides < 2
    texts = [slice(None)] if shared else [slice(side, side + 1) for side in range(sides)]
    learned = [
        spec.train(
            (text for sample in read_spool(folder, "train", wants.form) for text in wants.texts(sample)[part]),
            wants.special,
        )
        for part in texts
    ]
    return learned[0], learned[-1]


def check(samples: Iterable[Sample], wants: Wants, lexicon: Lexicon, split: str) -> None:
    """Insist that training has seen every label."""
    labels = set(lexicon.labels)
    for number, sample in enumerate(samples, 1):
        for label in wants.labels(sample):
            if label not in labels:
                shown = ", ".join(lexicon.labels[:20])
                raise DataError(
                    f"{place(sample, split, number)}: label {label!r} never occurs in training", f"known: {shown}"
                )


def _encode(folder: Path, sieve: Sieve, learned: TokenizerSpec | None, advance: Advance = ignore) -> None:
    """Write the training samples as numbers; `learned`: how tokens were, to say which texts they alter."""
    wants = sieve.wants
    with ExitStack() as stack:
        write = {
            name: stack.enter_context(write_column(folder / f"train.{name}", column))
            for name, column in wants.columns(sieve.lexicon).items()
        }
        for sample, row in sieve(read_spool(folder, "train", wants.form), "train"):
            advance()
            for name, numbers in row.items():
                try:
                    write[name](numbers)
                except ValueError as error:
                    where = place(sample, "train", sieve.passed["train"])
                    raise DataError(f"{where}: {name} has {error}", "see what the task's columns declare") from None
            altered = (learned.alters(text) for text in wants.texts(sample)) if learned is not None else ()
            if reason := next(filter(None, altered), None):
                sieve.log.remark(place(sample, "train", sieve.passed["train"]), reason)
