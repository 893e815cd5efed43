"""Verbs that come before training: looking at data, and writing a run file to start from; and asking about doubts."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from regard.cli.arguments import JSON, hint, verb
from regard.cli.progress import ProgressMeter
from regard.errors import Doubt, InputError, SpecError

if TYPE_CHECKING:
    from regard.config import Document
    from regard.data.survey import SplitSurvey
    from regard.runs.look import CorpusLook

T = TypeVar("T")
INDENT, COLUMN = 2, 15  # of what is told about a split: names, and what stands beside them
SHOWN, ODD = 12, 6  # labels and reasons, and suspicions
NARROW, WIDE = 60, 100  # columns; a pipe has 80


@verb("Train, and look after runs")
def data(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE",
            help="Files of any kind, two for both sides of a translation; or a run file. "
            "Settings may follow: header=true text=review, or of a run file: data=FOLDER",
        ),
    ],
    task: Annotated[
        str | None, typer.Option(metavar="TASK", help="What is to be learned; without it, the files tell.")
    ] = None,
    as_json: JSON = False,
) -> None:
    """Look at a corpus without training: samples, labels, lengths, duplicates, what is left out and what is odd."""
    from regard.config import assignments, read
    from regard.runs.look import look_at_files, look_at_run

    paths, words = divide_words(files)
    if not paths:
        raise InputError("no file to look at", "regard data FILE")
    if is_run_file(paths[0]):
        if len(paths) > 1 or task is not None:
            raise SpecError(f"{paths[0]}: a run file says all of it", f"regard data {quote(paths[0])}")
        found = look_at_run(read(Path(paths[0])).change(words), ProgressMeter())
        again = join(["regard", "train", paths[0], *words])
    else:
        try:
            found = look_at_files(paths, task, assignments(words), meter=ProgressMeter())
        except Doubt as doubt:
            raise explain(doubt) from None
        named = f"{task} " if task else ""
        again = f"regard new {named}--data {join([*paths, *mend_words(words, found)])}"
    found.insist_on_samples()
    if as_json:
        print(json.dumps(found.as_json(), ensure_ascii=False))
        return
    for line in format_look(found):
        print(line)
    hint(again)


@verb("Train, and look after runs")
def new(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TASK",
            help="What is to be learned, such as translation; files tell it too. Further files and settings of their "
            "reader may follow: header=true text=review",
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Files to learn from; without any, a corpus that is built in."),
    ] = None,
    wanted: Annotated[str | None, typer.Option("--task", metavar="TASK", help="The same as the word TASK.")] = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The run file to write.")] = Path("run.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there already.")] = False,
) -> None:
    """Write a run file to start from, with sizes that fit the data and this machine, and a comment on each setting."""
    from regard.config import assignments
    from regard.host.output import check_file, put
    from regard.runs.draft import draft
    from regard.runs.look import list_tasks

    known = list_tasks()
    if wanted is not None and wanted not in known:
        raise SpecError(f"--task {wanted}: no task is called so", f"a task: {', '.join(known)}")
    given = [word for word in words or [] if word != wanted]
    named, settings = divide_words(given if wanted is None else [wanted, *given])
    task = named.pop(0) if named and named[0] in known else None
    files = [*(data or []), *named]
    for file in named if data is None else ():
        if not Path(file).exists():
            raise SpecError(f"{file}: no task is called so, and no file is", f"a task: {', '.join(known)}")
    check_file(out)
    if out.exists() and not force:
        raise InputError(f"{out}: is there already", "--out ANOTHER.yaml, or --force to write over it")
    try:
        made = draft(task, files, assignments(settings))
    except Doubt as doubt:
        raise explain(doubt) from None
    put(out, made.text.encode())
    print(f"{out}  {made.task}, {made.tree['model']['kind']}, {made.look.form} from {describe_source(made.tree)}")
    for line in tell_doubts(made.look, measure_width()):
        print(line)
    hint(f"regard train {quote(str(out))}, or regard plan {quote(str(out))}, or regard data {quote(str(out))}")


def describe_source(tree: dict[str, Any]) -> str:
    """Where a run file's samples come from, in a few words."""
    corpus = tree["corpus"]
    if corpus["kind"] != "files":
        return f"{corpus['kind']}, which is built in"
    told = {split: part for split, part in corpus.items() if isinstance(part, dict)}
    return f"files for {' and '.join(told)}, read by {told['train']['kind']}"


def divide_words(given: list[str]) -> tuple[list[str], list[str]]:
    """Files, and settings among them: `key=value` where there is no such file."""
    words = [word for word in given if "=" in word and not Path(word).exists()]
    return [word for word in given if word not in words], words


def mend_words(words: list[str], found: CorpusLook) -> list[str]:
    """The settings that were typed, each as it was looked at: a doubt may have been settled in another way."""
    from regard.config import assignments, spell_word

    train = found.tree.get("train")
    if not found.settled or not isinstance(train, dict):
        return words
    mended = list[str]()
    for word in words:
        name, value = next(iter(assignments([word]).items()))
        if name == "corpus" or train.get(name) == value:
            mended.append(word)
        elif name in train:  # else another kind of reader was taken, which hasn't such a setting
            mended.append(spell_word(name, train[name]))
    return mended


def is_run_file(path: str) -> bool:
    return Path(path).suffix in (".yaml", ".yml")


def format_look(found: CorpusLook) -> Iterator[str]:
    """What was seen, as people read it."""
    from regard.runs.look import find_tasks

    width = measure_width()
    tasks = find_tasks(found.form)
    yield from fold(f"{found.form}, for the task{'s' * (len(tasks) != 1)} {' or '.join(tasks)}", width, 0)
    yield from fold(f"read as {describe_reading(found)}", width, 0)
    yield from tell_doubts(found, width)
    common, strange = found.survey.count_common(), found.survey.find_unknown_labels()
    for split, part in found.survey.splits.items():
        yield ""
        made = ", kept back of train" if split in found.kept_back else ""
        yield f"{split}: {count(part.samples, 'sample')}{made}"
        if split not in found.kept_back:
            yield from tell_left_out(found, split, width)
        yield from tell_split(part, width)
        if common.get(split):
            yield from tell("overlap", f"{common[split]:,} of them are trained on too", width)
        if labels := strange.get(split):
            yield from tell("unknown", f"labels that train hasn't: {', '.join(labels[:SHOWN])}", width)
        yield from tell_suspicions(part, width)
        yield from tell_examples(part, width)


def tell_doubts(found: CorpusLook, width: int) -> Iterator[str]:
    for one in found.settled:
        yield from fold(f"doubt: {one.doubt}", width, 0)
        yield from fold(f"looked at as: {one.meaning} ({one.words})", width, INDENT)


def describe_reading(found: CorpusLook) -> str:
    """`{kind: tsv, text: 1, label: 0}`: what a run file would say of a reader beside its files."""
    from regard.data.header import spell_settings
    from regard.data.reader import ReaderSpec

    train = found.tree.get("train")
    if not isinstance(train, dict):
        return f"{{kind: {found.corpus.kind}}}"
    kind = ReaderSpec.kinds.get(train.get("kind", ""))
    files = kind.files if kind is not None and issubclass(kind, ReaderSpec) else ("path",)
    return f"{{{spell_settings({name: value for name, value in train.items() if name not in files})}}}"


def measure_width() -> int:
    """The columns that there are to print in."""
    return max(NARROW, min(WIDE, shutil.get_terminal_size((80, 24)).columns))


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def fold(text: str, width: int, indent: int) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=" " * indent, subsequent_indent=" " * (indent + 2), break_on_hyphens=False
    )


def tell(name: str, text: str, width: int) -> list[str]:
    """A name and what there is to say of it, in two columns."""
    head = f"{'':{INDENT}}{name:{COLUMN}}"
    lines = textwrap.wrap(text, width - len(head), break_on_hyphens=False) or [""]
    return [f"{head}{lines[0]}", *(f"{'':{len(head)}}{line}" for line in lines[1:])]


def format_places(places: list[str]) -> str:
    """`train.en:3, 33 and dev.en:5`: files without their folders, and each once."""
    lines: dict[str, list[str]] = {}
    for place in places:
        file, _, line = place.rpartition(":")
        lines.setdefault(Path(file).name, []).append(line)
    return " and ".join(
        f"{file}:{', '.join(numbers)}" if file else ", ".join(numbers) for file, numbers in lines.items()
    )


def tell_left_out(found: CorpusLook, split: str, width: int) -> Iterator[str]:
    """How many entries were left out of a split, and why, with the first places."""
    from regard.data.log import BAD

    faults = found.log.faults.get(split, {})
    if not faults:
        return
    ranked = sorted(faults.items(), key=lambda item: -item[1].count)[:SHOWN]
    yield from tell("left out", count(found.log.left_out[split], "entry").replace("entrys", "entries"), width)
    for reason, fault in ranked:
        yield from tell("", f"{fault.count:,} × {reason}, such as {format_places(fault.places)}", width)
    if BAD in faults:
        yield from tell("", f"is it in another encoding? {spell_encoding(found, split)}", width)


def spell_encoding(found: CorpusLook, split: str) -> str:
    """What to type where a split's lines aren't UTF-8, for files alone or for a run file."""
    from regard.data.log import ENCODING

    return ENCODING if found.guessed else f"corpus.{split}.{ENCODING}"


def tell_split(part: SplitSurvey, width: int) -> Iterator[str]:
    if part.labels:
        yield from tell("labels", format_labels(part), width)
    if part.sizes:
        listed = [f"{number:,} of {' × '.join(map(str, size))}" for size, number in part.sizes.most_common(SHOWN)]
        more = f" and {len(part.sizes) - SHOWN:,} more sizes" if len(part.sizes) > SHOWN else ""
        yield from tell("pictures", f"{', '.join(listed)}{more} (height × width × channels)", width)
    about = "" if part.words.is_exact else "about "
    if part.words.different:
        yield from tell("words", f"{about}{part.words.different:,} different ones, as spaces divide them", width)
    if part.lengths:
        names = max(map(len, part.lengths))
        yield from tell("lengths", f"{'':{names}} {'median':>8} {'95 % up to':>11} {'longest':>9}", width)
        for name, lengths in part.lengths.items():
            told = lengths.to_json()
            row = f"{name:{names}} {told['median']:>8,} {told['p95']:>11,} {told['longest']:>9,}"
            yield f"{'':{INDENT + COLUMN}}{row}"
    if part.whole.again or part.contradictions:
        about = "" if part.is_exact else "about "
        answers = " or ".join(name for name in part.form.holds if name not in part.form.asks)
        other = f"; {about}{part.contradictions:,} with another {answers}" if part.contradictions else ""
        yield from tell("duplicates", f"{about}{part.whole.again:,} come again as they are{other}", width)


def format_labels(part: SplitSurvey) -> str:
    """`2: positive 37,569 (56 %), negative 29,780 (44 %)`."""
    total = part.labels.total()
    listed = [f"{label} {number:,} ({number / total:.0%})" for label, number in part.labels.most_common(SHOWN)]
    more = len(part.labels) - SHOWN
    rarest = min(part.labels.values())
    return f"{len(part.labels)}: {', '.join(listed)}" + (f" and {more} more, down to {rarest:,}" if more > 0 else "")


def tell_suspicions(part: SplitSurvey, width: int) -> Iterator[str]:
    from regard.runs.look import list_suspicions

    languages = (None, None) if part.pairs is None else part.pairs.find_languages()
    if any(languages):
        guessed = " to ".join(name or "?" for name in languages)
        yield from tell("languages", f"{guessed}, guessed by small words and scripts", width)
    for number, (what, one) in enumerate(islice(list_suspicions(part).items(), ODD)):
        places = f", such as {format_places(one.places)}" if any(one.places) else ""
        yield from tell("" if number else "look at", f"{one.count:,} × {what}{places}", width)


def tell_examples(part: SplitSurvey, width: int) -> Iterator[str]:
    from regard.data.glance import cut, flatten

    for number, sample in enumerate(part.examples):
        for first, (name, value) in enumerate(
            (name, sample[name]) for name in part.form.list_fields() if name in sample
        ):
            head = "for example" if not number and not first else ""
            yield cut(f"{'':{INDENT}}{head:{COLUMN}}{name}: {flatten(value)}", width)


def settle_doubts(work: Callable[[Document], T], document: Document) -> T:
    """Do something with a run file; on a terminal, whoever sits there is asked about each doubt."""
    while True:
        try:
            return work(document)
        except Doubt as doubt:
            if not (doubt.ways and doubt.key):
                raise
            if not is_attended():
                raise explain(doubt) from None
            document = ask(document, doubt)


def explain(doubt: Doubt) -> Doubt:
    """The same doubt with the words that settle it for its hint."""
    from regard.data.doubt import spell_ways

    if doubt.ways and doubt.key:
        doubt.hint = "; or ".join(f"{words} ({meaning})" for meaning, words in spell_ways(doubt).items())
    return doubt


def is_attended() -> bool:
    """Whether somebody sits there who sees questions and can answer them."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(document: Document, doubt: Doubt) -> Document:
    """Show the ways out of a doubt, and take the one that is chosen; `q` leaves it an error."""
    from dataclasses import replace

    from regard.data.doubt import settle_doubt, spell_ways

    ways = spell_ways(doubt)
    print(f"\n{doubt.message}", file=sys.stderr)
    for number, (meaning, words) in enumerate(ways.items(), 1):
        print(f"  [{number}] {meaning}  ({words})", file=sys.stderr)
    print("  [q] stop here", file=sys.stderr)
    while True:
        print("which? ", end="", file=sys.stderr, flush=True)
        answer = sys.stdin.readline().strip().lower()
        if answer in ("", "q"):  # nothing: the end of input, or a wish to think it over
            raise doubt
        if answer.isdecimal() and 1 <= int(answer) <= len(ways):
            return replace(document, tree=settle_doubt(document.tree, doubt, list(ways)[int(answer) - 1]))
