"""The verb that tells every key of a run file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.arguments import JSON, hint, verb
from regard.errors import SpecError

if TYPE_CHECKING:
    from rich.console import Console

    from regard.runs.settings import Page


@verb("Measure and look inside")
def settings(
    path: Annotated[
        str | None,
        typer.Argument(
            metavar="PATH", help="A place, a kind or a key: train, train.optimizer.adamw, model.gpt2, search, warmup, …"
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Print every key of every kind.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print all of it as docs/settings.md has it.")] = False,
    as_json: JSON = False,
) -> None:
    """Print the keys of a run file: what each takes, what it is unless given, and what it means."""
    from rich.console import Console

    from regard.runs.settings import find_pages, list_pages, show_usual, write_markdown

    if path and (everything or markdown):
        raise SpecError("a place, or all of them?", f"regard settings {path}")
    if markdown:
        print(write_markdown(), end="")
        return
    pages = find_pages(path) if path else list_pages() if everything or as_json else show_usual()
    if as_json:
        for page in pages:
            print(json.dumps(page.as_json(), ensure_ascii=False))
        return
    console = Console(highlight=False)
    for number, page in enumerate(pages):
        if console.is_terminal:
            draw(page, console, first=number == 0)
        else:
            tell(page)
    if path is None:
        hint("regard settings train.optimizer, or regard settings model.gpt2, or regard settings --all")


def tell(page: Page) -> None:
    """A line for each key: the key, the kind that has it, what it takes, its default, what it means; tabs between."""
    from regard.runs.settings import describe_default, describe_type

    for kind, told in page.kinds.items():
        print(f"{page.place}={kind}\t\t\t\t{told}")
    for setting in page.settings:
        facts = (page.kind, describe_type(setting), describe_default(setting), setting.meaning)
        print("\t".join((page.spell(setting), *facts)))


def draw(page: Page, console: Console, first: bool) -> None:
    """A page for people: each key with what it takes, and below that what it means."""
    from rich.markup import escape
    from rich.table import Table

    from regard.runs.settings import describe_default, describe_type

    if not first:
        console.print()
    console.print(f"[bold]{page.path or 'run'}[/bold]  {escape(page.summary)}")
    kinds = [(f"  {kind}", escape(told)) for kind, told in page.kinds.items()]
    keys = []
    for setting in page.settings:
        default = "required" if setting.required else f"default {describe_default(setting)}"
        facts = f"[green]{escape(f'{describe_type(setting)}; {default}')}[/green]"
        keys.append((f"  {setting.name}", f"{facts}\n{escape(setting.meaning)}"))
    for title, rows in (("kinds:", kinds), ("keys of every kind:" if kinds else "", keys)):
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1))
        table.add_column(no_wrap=True, style="cyan")
        table.add_column(overflow="fold")
        for row in rows:
            table.add_row(*row)
        if rows:
            console.print(*([title] if title and kinds else []), table, sep="\n")
