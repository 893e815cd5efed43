"""Verbs that look: at models, at tokens, at curves, at the machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.arguments import JSON, RUN, hint, verb
from regard.cli.completion import complete_presets, complete_runs
from regard.cli.help import may_color
from regard.cli.texts import FILE, TEXTS, GivenText, Manner, answer_texts, choose_source
from regard.errors import SpecError, warn

if TYPE_CHECKING:
    from rich.tree import Tree

    from regard.core.outline import Node, Outline


@verb("Measure and look inside")
def show(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="A preset, such as gpt2, a run, RUN@best, or a folder in Hugging Face layout. "
            "Without one, all presets are listed.",
            autocompletion=complete_presets,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SETTING",
            help="Settings that differ from the preset: depth=4 width=128; `regard settings model.NAME` tells all.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print a model's tree, with shapes, parameters, and state bytes per generated token. Nothing is built."""
    if name is None:
        return presets(as_json)
    from regard.runs.show import draw

    drawn = draw(name, settings or [])
    if as_json:
        print(json.dumps(drawn.as_json()))
        return
    from rich.console import Console

    console = Console(highlight=False, no_color=not may_color())
    if not console.is_terminal:
        console.width = 1000  # a file or a pipe has no edge to fold at
    console.print(_tree(drawn.tree))
    for line in _costs(drawn):
        console.print(line)


def presets(as_json: bool) -> None:
    """Every preset by family."""
    table = list_families()
    if as_json:
        print(json.dumps(table))
        return
    for family, names in table.items():
        for number, line in enumerate(fold(names, 66)):
            print(f"{'' if number else family:12} {line}")
    hint("regard show transformer-tiny")


def list_families() -> dict[str, list[str]]:
    """Every family's presets; only where plug-ins may have some is anything imported for that."""
    from importlib.metadata import entry_points

    from regard.core.plugins import GROUP, LOADED

    if not LOADED.plugins and not entry_points(group=GROUP):
        from regard.cli.catalogue import list_presets

        return list_presets()
    from regard.core.plugins import find_installed
    from regard.models import families

    found = {name: list(family.presets) for name, family in families().items()}
    for problem in find_installed().broken.values():
        warn(problem)
    return found


def fold(words: list[str], width: int) -> list[str]:
    """Words on lines of so many letters."""
    lines = [""]
    for word in words:
        longer = f"{lines[-1]}  {word}" if lines[-1] else word
        lines = [*lines[:-1], longer] if len(longer) <= width or not lines[-1] else [*lines, word]
    return lines


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


@verb("Measure and look inside")
def tokens(
    run: RUN,
    texts: TEXTS = None,
    files: FILE = None,
    side: Annotated[
        str | None,
        typer.Option(metavar="SIDE", help="Where source and target are cut differently: source or target. [source]"),
    ] = None,
    as_json: JSON = False,
) -> None:
    """Print the pieces that texts are cut into, with their numbers and bytes. No weights are read."""
    from regard.runs.tokens import TokenRow, cut_text, load_lexicon

    if side not in (None, "source", "target"):
        raise SpecError(f"--side {side}: there are two sides", "--side source, or --side target")
    source = choose_source(texts, files)
    one, other = load_lexicon(run).tokenizers
    apart = one.digest != other.digest
    tokenizer, which = (other, "target") if side == "target" else (one, "source")

    def ask(each: list[str]) -> list[list[TokenRow]]:
        return [cut_text(tokenizer, text) for text in each]

    def show_rows(text: GivenText, rows: list[TokenRow]) -> None:
        if as_json:
            told = {"text": text.text, **({"side": which} if apart else {}), "tokens": [vars(row) for row in rows]}
            print(json.dumps(told, ensure_ascii=False))
            return
        print(f"{'piece':24} {'number':>8} {'bytes':>6}" + (f"   ({which})" if apart else ""))
        for row in rows:
            print(f"{row.piece:24} {row.number:>8} {row.bytes:>6}")
        size = len(text.text.encode())
        print(f"{len(rows)} tokens, {size} bytes, {size / max(len(rows), 1):.2f} bytes a token")

    answer_texts(source, "cutting", ask, show_rows, Manner(as_json, "text", {"tokens": []}))


@verb("Measure and look inside")
def plot(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN", help="The runs to draw, one color each.", autocompletion=complete_runs),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The picture to write.")] = Path("curves.png"),
) -> None:
    """Draw the curves of one or several runs to a PNG."""
    from regard.host.output import make_place
    from regard.lens.chart import curves
    from regard.train.listener import history

    make_place(out)
    curves({run.name: history(run / "metrics.jsonl") for run in runs}, out)
    print(out)


@verb("Measure and look inside")
def doctor(as_json: JSON = False) -> None:
    """Look at this machine: versions, speed, memory, what is missing and what to do about it."""
    from regard.core.plugins import find_installed
    from regard.host.doctor import examine
    from regard.kernels.library import describe

    found, loaded, kernels = examine(), find_installed(), describe()
    if kernels == "no compiler":
        found.advice.append("g++ isn't installed: our own kernels make int8 and writing token by token faster")
    if as_json:
        plugins = {name: plugin.digest for name, plugin in loaded.plugins.items()}
        print(json.dumps({**vars(found), "kernels": kernels, "plugins": plugins, "broken_plugins": loaded.broken}))
        return
    print(f"system       {found.system}")
    print("versions     " + "  ".join(f"{name} {number}" for name, number in found.versions.items()))
    print(f"compute      {found.cores} cores, {found.threads} threads, {', '.join(found.devices)}")
    print(f"speed        {found.fp32_gflops:,.0f} GFLOP/s in fp32, {found.bf16_gflops:,.1f} in bf16")
    print(f"kernels      {kernels}")
    print(f"others       use {found.others:.1f} cores now")
    print(f"memory       {found.memory / 2**30:,.1f} GB;  {found.disk_free / 2**30:,.1f} GB free on this disk")
    print("extras       " + "  ".join(f"{name} {'yes' if there else 'no'}" for name, there in found.extras.items()))
    for plugin in loaded.plugins.values():
        print(f"plug-in      {plugin.name}, {plugin.place}, SHA-256 {plugin.digest[:16]}")
    for line in [*found.advice, *loaded.broken.values()]:
        print(f"advice       {line}")
    hint("regard demo")
