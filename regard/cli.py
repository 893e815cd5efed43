"""The command line: each verb parses its words and calls one function. Results go to stdout and nothing else does."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from regard.errors import RegardError

if TYPE_CHECKING:
    from rich.tree import Tree

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


@app.command()
def demo(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Draw a small Transformer, build it, run it forward, and step it word by word."""
    from regard.demo import forward_pass
    from regard.machine import keep_memory

    keep_memory()
    if not as_json:
        show("transformer-tiny")
    done = forward_pass()
    if as_json:
        print(json.dumps(vars(done)))
        return
    rows, words, vocabulary = done.shape
    print(f"forward           {done.milliseconds:>16,.1f} ms for {rows} sentences of {words} words")
    print(
        f"loss              {done.loss:>16.3f} nats a word, untrained; chance among {vocabulary:,} is {done.chance:.3f}"
    )
    print(f"stepping          {done.stepping_difference:>16.1e} away from the whole, at most")
    hint("regard show")


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
