"""The verb that links the words of texts with those of their translations."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.cli.arguments import JSON, PRECISION, RUN, verb
from regard.cli.completion import complete_runs
from regard.cli.progress import ProgressMeter
from regard.errors import InputError, SpecError
from regard.host.machine import give_way, keep_memory

if TYPE_CHECKING:
    from regard.lens.alignment import WordedText
    from regard.lens.boxes import BoxScore
    from regard.lens.links import AlignmentScore, Links
    from regard.runs.align import AlignmentReport, HeadScore

Format = Literal["pharaoh", "json", "text"]


@verb("Measure and look inside", "align")
@give_way()
def align_words(
    run: RUN,
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Pairs of texts: pairs.tsv, --data a.en --data a.fr, or - for lines on standard input with a tab. "
            "[the run's own]",
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A part that the run kept: test, validation. [test, if there is one]"),
    ] = None,
    gold: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Gold links to measure against: 0-0 1?2 a line (Pharaoh), or sentence, source, target, S or P.",
        ),
    ] = None,
    turned: Annotated[
        bool, typer.Option("--turned", help="The gold links have the target's word first, as for the other direction.")
    ] = False,
    head: Annotated[
        str, typer.Option(metavar="WHICH", help="auto, mean, LAYER or LAYER.HEAD, counted from 0.")
    ] = "auto",
    step: Annotated[
        str,
        typer.Option(
            metavar="STEP", help="The step whose attention a target word has: auto, writing (it), reading (it)."
        ),
    ] = "auto",
    reverse: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="A run of the other direction, to agree with.", autocompletion=complete_runs),
    ] = None,
    symmetrize: Annotated[
        str,
        typer.Option(
            metavar="HOW",
            help="How both sides' links become one: intersection, union, grow-diag, grow-diag-final, "
            "grow-diag-final-and, none.",
        ),
    ] = "grow-diag",
    lexical: Annotated[
        bool,
        typer.Option(
            "--lexical/--no-lexical",
            help="Whether attention is sharpened by which words are linked elsewhere, or stands alone. [--lexical]",
        ),
    ] = True,
    learn: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="The run's training pairs are added to those given up to this many, to learn from and choose a head.",
        ),
    ] = 20_000,
    form: Annotated[
        Format | None,
        typer.Option("--format", help="How links are written: pharaoh, json or text. [pharaoh]"),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="The file to write the links to.")] = None,
    table: Annotated[bool, typer.Option("--table", help="Show every head beside the chosen one.")] = False,
    page: Annotated[
        Path | None, typer.Option("--record", metavar="FILE", help="Put a row into this Markdown page of results.")
    ] = None,
    precision: PRECISION = None,
    as_json: JSON = False,
) -> None:
    """Link the words of texts with those of their translations, by what a model looked at when it read both.

    Words are what spaces divide. Links are written as 0-0 1-2, a line a pair, to --out or to standard output; where
    there are gold links, the alignment error rate, precision and recall come to standard output instead. Of a
    captioner: how much of each word's attention is in the box of what it speaks of, where the corpus knows boxes.
    """
    from regard.runs.boxes import writes_captions

    if writes_captions(run):
        links = {
            "--data": data,
            "--gold": gold,
            "--turned": turned,
            "--reverse": reverse,
            "--out": out,
            "--format": form,
        }
        links |= {"--head": head != "auto", "--step": step != "auto", "--symmetrize": symmetrize != "grow-diag"}
        for option in (option for option, given in links.items() if given):
            raise SpecError(f"{option} is for links of words, and {run} captions pictures", f"leave {option} out")
        return align_places(run, split, page, table, as_json, precision)
    from regard.host.output import put
    from regard.runs.align import AlignmentSettings, align, check_record, record_alignment
    from regard.runs.evaluate import check_split

    keep_memory()
    check_record(page, [run] if reverse is None else [run, reverse])
    settings = AlignmentSettings(head, step, symmetrize, lexical, learn)  # type: ignore[arg-type]
    chosen, files = check_split(split), data or []
    done = align(
        run,
        files,
        gold,
        reverse,
        settings,
        split=chosen,
        turned=turned,
        compare=table,
        outputs=(out, page),
        meter=ProgressMeter(),
        precision=precision,
    )
    if page is not None and done.score is None:
        raise InputError("--record writes what was measured, and there are no gold links", "--gold FILE")
    written = out is not None or form is not None or done.score is None
    if written:
        lines = write_links(done, "json" if as_json and form is None else form or "pharaoh")
        if out is not None:
            put(out, "".join(f"{line}\n" for line in lines).encode())
        else:
            print("\n".join(lines))
    if done.score is not None:
        # links that go to standard output stand there alone
        show_score(done, as_json, table, sys.stderr if written and out is None else sys.stdout)
    elif table:
        print("\n".join(tell_heads(done.heads)), file=sys.stderr)
    if page is not None:
        record_alignment(page, run, reverse, files, settings, done, turned)


def align_places(
    run: str, split: str | None, page: Path | None, table: bool, as_json: bool, precision: str | None = None
) -> None:
    """Measure a captioner's attention against gold boxes, and print it."""
    from regard.runs.align import check_record
    from regard.runs.boxes import compare_boxes, record_boxes
    from regard.runs.evaluate import check_split

    check_record(page, [run])
    chosen = check_split(split)
    done = compare_boxes(run, chosen, ProgressMeter(), precision)
    if as_json:
        print(json.dumps(done.as_json()))
    else:
        print("\n".join(tell_boxes(done.classes, "words")))
        if table:
            print("\n" + "\n".join(tell_boxes(done.heads, "head")))
    if page is not None:
        record_boxes(page, run, chosen, done)


def tell_boxes(scores: Mapping[str, BoxScore], what: str) -> list[str]:
    """A line for each class of words, or for each head."""
    lines = [f"{what:10} {'count':>7}  {'in the box':>10}  {'uniform':>7}  {'times':>5}  {'pointing':>8}"]
    for name, score in scores.items():
        shares = f"{score.inside.value:10.1%}  {score.uniform:7.1%}  {score.gain:5.2f}  {score.pointing.value:8.1%}"
        lines.append(f"{name:10} {score.words:7,}  {shares}")
    return lines


def write_links(done: AlignmentReport, form: Format) -> list[str]:
    """The links of each pair, as lines."""
    from regard.lens.links import write_pharaoh

    lines: list[str] = []
    for (source, target), links in zip(done.pairs, done.links, strict=True):
        if form == "pharaoh":
            lines.append(write_pharaoh(links))
        elif form == "json":
            facts = {"source": source.words, "target": target.words, "links": [list(link) for link in sorted(links)]}
            lines.append(json.dumps(facts, ensure_ascii=False))
        else:
            lines += [*draw_pair(source, target, links), ""]
    return lines


def draw_pair(source: WordedText, target: WordedText, links: Links, width: int = 80) -> list[str]:
    """A line for each source word: the word, and the target words that it is linked to."""
    from rich.cells import cell_len, set_cell_size

    def fit(text: str, most: int) -> str:
        return text if cell_len(text) <= most else set_cell_size(text, most - 1).rstrip() + "…"

    most = min(width // 2 - 3, max(map(cell_len, source.words), default=0))
    lines = []
    for here, word in enumerate(source.words):
        linked = " ".join(target.words[there] for there in sorted(there for one, there in links if one == here))
        label = fit(word, most)
        lines.append(f"{label}{' ' * (most - cell_len(label))}  {fit(linked, width - most - 2) or '–'}")
    alone = [word for there, word in enumerate(target.words) if all(there != other for _, other in links)]
    return [*lines, *([f"{' ' * most}  ({fit(' '.join(alone), width - most - 4)})"] if alone else [])]


def show_score(done: AlignmentReport, as_json: bool, table: bool, stream: object) -> None:
    """The measures; with `table`, every head beside the chosen one."""
    from typing import IO, cast

    where = cast(IO[str], stream)
    if as_json:
        print(json.dumps(done.as_json(), ensure_ascii=False), file=where)
        return
    assert done.score is not None
    for aligner in done.aligners:
        print(f"head            {aligner.choice.name}, {aligner.choice.step}", file=where)
    print("\n".join(tell_score(done.score)), file=where)
    if table:
        print("\n" + "\n".join(tell_heads(done.heads)), file=where)


def tell_score(score: AlignmentScore) -> list[str]:
    between = f"({score.error_rate_low:.4f} to {score.error_rate_high:.4f})"
    return [
        f"error rate      {score.error_rate:.4f}  {between}",
        f"precision       {score.precision:.4f}",
        f"recall          {score.recall:.4f}",
        f"links           {score.links:,}; gold: {score.sure:,} sure, {score.possible:,} possible",
        f"sentences       {score.sentences:,}",
    ]


def tell_heads(heads: Sequence[HeadScore]) -> list[str]:
    """Every head, the chosen one first: attention alone, each target word linked to one source word."""
    lines = ["head    step     consistency" + ("  error rate  precision  recall" if heads[0].score else "")]
    for one in heads:
        choice, score = one.candidate.choice, one.score
        line = f"{choice.name:7} {choice.step:8} {one.candidate.consistency:11.3f}"
        if score is not None:
            line += f"  {score.error_rate:10.3f}  {score.precision:9.3f}  {score.recall:6.3f}"
        lines.append(line)
    return lines
