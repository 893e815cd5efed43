"""What all verbs share: the program, the words that come again and again, and how things are told."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer

import regard
from regard.cli.completion import complete_runs
from regard.cli.help import VerbCommand, VerbGroup
from regard.errors import RegardWarning, SpecError

F = TypeVar("F", bound=Callable[..., Any])
Panel = Literal["Train, and look after runs", "Ask a model", "Measure and look inside", "Bring in and send out"]

app = typer.Typer(
    name="regard",
    cls=VerbGroup,
    no_args_is_help=True,
    rich_markup_mode=None,  # help is plain lines: see cli/help.py
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def verb(panel: Panel, name: str | None = None) -> Callable[[F], F]:
    """Enter a function as a verb, in its group of the help."""
    return app.command(name=name, cls=VerbCommand, rich_help_panel=panel)


CONFIG = Annotated[Path, typer.Argument(metavar="CONFIG", help="A run file (YAML), such as those in recipes/.")]
CHANGES = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SETTING",
        help="Settings that differ from the file: train.minutes=30 out=runs/one; `regard settings` tells all.",
    ),
]
RUN = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="The folder of a run; RUN@best, RUN@latest or RUN@step-2000 names one checkpoint. "
        "Or a folder in Hugging Face layout.",
        autocompletion=complete_runs,
    ),
]
FOLDER = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.", autocompletion=complete_runs)]
JSON = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]
PRECISION = Annotated[
    str | None,
    typer.Option(
        metavar="BITS",
        help="What the weights are packed to: fp32, fp16, bf16, int8, int4; or auto, what is fastest here. "
        "Unless given, as they are kept.",
    ),
]


def print_version(wanted: bool) -> None:
    if wanted:
        print(f"regard {regard.__version__}")
        raise typer.Exit


@app.callback()
def main(
    context: typer.Context,
    uses: Annotated[
        list[str] | None,
        typer.Option(metavar="PLUGIN", help="Load a plug-in first, which runs it: my_mixer.py, or a module."),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=print_version, is_eager=True)
    ] = False,
) -> None:
    """Sequence models from the first RNN to today's Transformers: train, compare, look inside, ship."""
    from regard.core.plugins import use

    context.with_resource(print_warnings())
    for name in uses or []:
        use(name)


@contextmanager
def print_warnings() -> Iterator[None]:
    """Print our own warnings as one line each on standard error, every time; others' go their usual way."""
    usual = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, RegardWarning):
            print(f"regard: {message}", file=sys.stderr)
        else:
            usual(message, category, *place, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("always", RegardWarning)
        warnings.showwarning = show
        yield


def hint(command: str) -> None:
    """What to type next: for people, so not among the results."""
    from regard.core.plugins import spell_program

    sys.stdout.flush()
    program = spell_program()
    told = re.sub(r"(^|, or )regard ", lambda found: f"{found[1]}{program} ", command)
    print(f"\nnext: {told}", file=sys.stderr)


def format_number(value: object) -> str:
    """A number as people read it."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def search_settings(beam: int | None, nbest: int, settings: list[str] | None) -> dict[str, Any]:
    """What options and settings say of a search, and nothing that they don't: a model has settings of its own."""
    from regard.config import assignments

    for option, value in (("--beam", beam), ("--nbest", nbest)):
        if value is not None and value < 1:
            raise SpecError(f"{option} {value}: there must be one hypothesis at least", f"{option} 1")
    if beam is not None and nbest > beam:
        raise SpecError(f"--nbest {nbest}: so many don't come from --beam {beam}", f"--beam {nbest}")
    given: dict[str, Any] = {} if beam is None else {"beam": beam}
    return given | ({"best": nbest} if nbest > 1 else {}) | assignments(settings or [])
