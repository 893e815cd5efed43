"""What all verbs share: the program, the words that come again and again, and how things are told."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="regard",
    help="Sequence models that you can train, compare, look inside and ship.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

CONFIG = Annotated[Path, typer.Argument(help="A run file (YAML), such as those in recipes/.")]
CHANGES = Annotated[list[str] | None, typer.Argument(help="Changes to it: train.minutes=30 out=runs/one")]
RUN = Annotated[str, typer.Argument(help="A run's folder; RUN@best, RUN@latest, RUN@step-2000 for one checkpoint.")]
FILES = Annotated[list[Path] | None, typer.Argument(help="Texts, one a line. None: standard input.")]
JSON = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]


@app.callback()
def main() -> None:
    """Sequence models from the first RNN to today's Transformers: train, compare, look inside, ship."""


def hint(command: str) -> None:
    """What to type next: for people, so not among the results."""
    sys.stdout.flush()
    print(f"\nnext: {command}", file=sys.stderr)


def shown(value: object) -> str:
    """A number as people read it."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
