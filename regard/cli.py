"""The command line: each verb parses its words and calls one function. Results go to stdout and nothing else does."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.errors import RegardError

if TYPE_CHECKING:
    from rich.tree import Tree

    from regard.decode.search import Search
    from regard.fit import Fitted
    from regard.outline import Node, Outline

app = typer.Typer(
    name="regard",
    help="Sequence models that you can train, compare, look inside and ship.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def main() -> None:
    """Sequence models from the first RNN to today's Transformers: train, compare, look inside, ship."""


@app.command()
def show(
    name: Annotated[str | None, typer.Argument(help="A preset, such as gpt2. None: list them all.")] = None,
    settings: Annotated[list[str] | None, typer.Argument(help="Changes to it: depth=4 width=128")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print a model's tree, with shapes, parameters, and state bytes per generated token. Nothing is built."""
    if name is None:
        return presets(as_json)
    from regard.config import assignments
    from regard.models import preset
    from regard.outline import outline

    drawn = outline(preset(name, **assignments(settings or [])), name)
    if as_json:
        print(json.dumps(drawn.as_json()))
        return
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 1000  # a file or a pipe has no edge to fold at
    console.print(_tree(drawn.tree))
    for line in _costs(drawn):
        console.print(line)


RUN = Annotated[str, typer.Argument(help="A run's folder; RUN@best, RUN@latest, RUN@step-2000 for one checkpoint.")]
JSON = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]


@app.command()
def train(
    config: Annotated[Path, typer.Argument(help="A run file (YAML), such as those in recipes/.")],
    settings: Annotated[list[str] | None, typer.Argument(help="Changes to it: train.minutes=30 out=runs/one")] = None,
    as_json: JSON = False,
) -> None:
    """Train as a run file says. Progress goes to standard error, the result to standard output."""
    from regard.config import read
    from regard.fit import train as begin
    from regard.machine import keep_memory

    keep_memory()
    finished(begin(read(config).changed(settings or [])), as_json)


@app.command()
def resume(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    settings: Annotated[list[str] | None, typer.Argument(help="Changes from here on: train.minutes=60")] = None,
    as_json: JSON = False,
) -> None:
    """Go on with a run from its newest whole checkpoint, as if it had never stopped."""
    from regard.fit import resume as go_on
    from regard.machine import keep_memory

    keep_memory()
    finished(go_on(run, settings or []), as_json)


def finished(run: Fitted, as_json: bool) -> None:
    """What a training that came to its end has to say."""
    moment, measures = run.report.moment, dict(run.report.measures or {})
    facts = {"run": str(run.folder), "reason": run.report.reason, "steps": moment.step, "tokens": moment.tokens}
    facts |= {"seconds": round(moment.seconds, 1), **measures}
    if as_json:
        print(json.dumps(facts))
    else:
        print("  ".join(f"{name} {shown(value)}" for name, value in facts.items() if name != "signatures"))
    hint(f"regard translate {run.folder} < FILE, regard eval {run.folder}, or regard plot {run.folder}")


def shown(value: object) -> str:
    """A number as people read it."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


@app.command(name="eval")
def evaluate(
    run: RUN,
    data: Annotated[
        list[str] | None,
        typer.Option(help="test.tsv, .jsonl or .po; or --data test.en --data test.fr. None: the run's."),
    ] = None,
    beam: Annotated[int, typer.Option(help="Hypotheses a sentence.")] = 5,
    also: Annotated[list[str] | None, typer.Option("--with", help="Another run, to make an ensemble.")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="Of the search: alpha=0.8")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the translations here.")] = None,
    as_json: JSON = False,
) -> None:
    """Translate a test set and print BLEU and chrF with their signatures, exact match and perplexity."""
    from regard.machine import keep_memory
    from regard.translate import evaluated

    keep_memory()
    found = evaluated([run, *(also or [])], data or [], search(beam, 1, settings), out)
    if as_json:
        print(json.dumps(found))
        return
    signatures = found.pop("signatures")
    for name, value in found.items():
        print(f"{name:12} {shown(value)}  {signatures.get(name, '')}".rstrip())
    hint(f"regard translate {run} < FILE")


@app.command()
def translate(
    run: RUN,
    files: Annotated[list[Path] | None, typer.Argument(help="Texts, one a line. None: standard input.")] = None,
    beam: Annotated[int, typer.Option(help="Hypotheses a sentence; 1 is greedy.")] = 5,
    nbest: Annotated[int, typer.Option(help="So many translations of each line.")] = 1,
    also: Annotated[list[str] | None, typer.Option("--with", help="Another run, to make an ensemble.")] = None,
    prefix: Annotated[str, typer.Option(help="How every translation begins.")] = "",
    require: Annotated[list[str] | None, typer.Option(help="A word that must appear.")] = None,
    ban: Annotated[list[str] | None, typer.Option(help="A word that must not.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Of the search: sample=true top_p=0.9 alpha=0.8 seed=7 …")
    ] = None,
    attention: Annotated[bool, typer.Option(help="Draw what each word looked at; in JSON, the weights.")] = False,
    as_json: JSON = False,
) -> None:
    """Translate lines, in their order; an empty line stays empty."""
    from regard.decode.pipeline import Wishes
    from regard.machine import keep_memory
    from regard.translate import Style, translate_lines

    keep_memory()
    wishes = Wishes(prefix, require or [], ban or [])
    translate_lines([run, *(also or [])], files or [], search(beam, nbest, settings), wishes, Style(as_json, attention))


def search(beam: int, nbest: int, settings: list[str] | None) -> Search:
    """The search that options and settings describe."""
    from regard.config import assignments
    from regard.decode.search import Search

    return Search.parse({"beam": max(beam, nbest), "best": nbest} | assignments(settings or []))


@app.command()
def demo(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Draw a small Transformer, build it, run it forward, and step it word by word."""
    from regard.demo import forward_pass
    from regard.machine import keep_memory

    keep_memory()
    done = forward_pass()
    if as_json:
        print(json.dumps(vars(done)))


def presets(as_json: bool) -> None:
    """Every preset by family."""
    from regard.models import families

    table = {name: list(family.presets) for name, family in families().items()}
    if as_json:
        print(json.dumps(table))
        return
    for family, names in table.items():
        print(f"{family:12} {'  '.join(names)}")
    hint("regard show transformer-tiny")


def hint(command: str) -> None:
    """What to type next: for people, so not among the results."""
    sys.stdout.flush()
    print(f"\nnext: {command}", file=sys.stderr)


def _tree(node: Node) -> Tree:
    from rich.tree import Tree

    tree = Tree(_label(node), guide_style="dim")
    for child in [] if _plain(node) else node.children:
        tree.add(_tree(child))
    return tree


def _plain(node: Node) -> bool:
    """Whether it is one matrix or vector, with a bias perhaps: one line says it."""
    return bool(node.children) and {child.name for child in node.children} <= {"weight", "bias"}


def _label(node: Node) -> str:
    from rich.markup import escape

    words = [f"[bold]{escape(node.name)}[/bold]"]
    for leaf in node.children if _plain(node) else [node]:
        if leaf.shape is not None:
            words.append(f"{'+ bias ' if leaf.name == 'bias' else ''}{' × '.join(f'{size:,}' for size in leaf.shape)}")
    if node.note:
        words.append(f"[cyan]{escape(node.note)}[/cyan]")
    count = f"{node.parameters:,}"
    if node.repeat > 1:
        count = f"{node.repeat} × {node.parameters // node.repeat:,} = {count}"
    if node.parameters:
        words.append(f"[green]{count}[/green]")
    return "  ".join(words)


def _costs(drawn: Outline) -> list[str]:
    lines = [f"parameters        {drawn.parameters:>16,}"]
    if drawn.tree.children and any(child.name == "decoder" for child in drawn.tree.children):
        lines.append(f"state             {drawn.state_bytes_per_token:>16,} bytes a generated token")
        if drawn.state_bytes_per_source_token:
            lines.append(f"                  {drawn.state_bytes_per_source_token:>16,} bytes a source token")
        lines.append(f"                  {drawn.state_bytes_fixed:>16,} bytes whatever the length (one row, fp32)")
    else:
        lines.append("state             none: an encoder reads all at once")
    return lines


def run() -> None:
    """The program: a user's mistake is told in one message and an exit status, without a traceback."""
    try:
        app()
    except RegardError as error:
        print(f"regard: {error}", file=sys.stderr)
        sys.exit(error.status)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # whoever read the results has seen enough; nothing may be flushed into a closed pipe at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
