"""How the program explains itself: plain lines that fit 80 columns, verbs in groups, nothing beside a flag.

There are no boxes, so a page reads the same on a terminal, in a pipe and in a log; on a terminal its headings are bold,
unless NO_COLOR is set.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from typing import Any

from typer import style
from typer.core import TyperCommand

from regard.cli.options import Verbs


def may_color() -> bool:
    """Whether what goes to standard output may have colours: on a terminal, unless its owner wants none."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def write_section(formatter: Any, title: str, rows: Iterable[tuple[str, str]]) -> None:
    """A heading, and two columns below it; nothing where there are no rows."""
    listed = list(rows)
    if listed:
        with formatter.section(style(title, bold=True) if may_color() else title):
            formatter.write_dl(listed)


def name_argument(argument: Any) -> str:
    return argument.metavar or str(argument.name).upper()


def describe_parameter(parameter: Any) -> tuple[str, str]:
    """What one types, and what for; beside a flag stands nothing, since it takes nothing."""
    told = parameter.help or ""
    if parameter.param_type_name == "argument":
        return name_argument(parameter), told
    names = ", ".join([*sorted(parameter.opts, key=len), *parameter.secondary_opts])
    # a flag is told as it is, and so is what isn't shown because the text itself says it
    if parameter.is_flag or parameter.count:
        return names, told
    usual = parameter.default
    if parameter.show_default and usual is not None and usual != "" and not isinstance(usual, list | tuple):
        told += f" [{usual}]"
    return f"{names} {parameter.metavar or str(parameter.name).upper()}", told


def write_parameters(command: Any, context: Any, formatter: Any) -> None:
    """Arguments, then options."""
    there = [parameter for parameter in command.get_params(context) if not parameter.hidden]
    for title, kind in (("Arguments", "argument"), ("Options", "option")):
        rows = [describe_parameter(parameter) for parameter in there if parameter.param_type_name == kind]
        write_section(formatter, title, rows)


class VerbCommand(TyperCommand):
    """One verb."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces = ["[OPTIONS]"]
        for parameter in self.get_params(ctx):
            if parameter.param_type_name == "argument":
                name = name_argument(parameter) + ("..." if parameter.nargs != 1 else "")
                pieces.append(name if parameter.required else f"[{name}]")
        return pieces

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write_parameters(self, ctx, formatter)


class VerbGroup(Verbs):
    """All verbs, in groups."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["[OPTIONS]", "VERB", "..."]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            groups.setdefault(command.rich_help_panel, []).append((name, read_summary(command.help)))
        width = max(len(name) for rows in groups.values() for name, _ in rows)
        for title, rows in groups.items():  # padded, so that all groups have one left edge
            write_section(formatter, title, [(f"{name:{width}}", told) for name, told in rows])
        write_parameters(self, ctx, formatter)


def read_summary(text: str | None) -> str:
    """The first sentence of a help text."""
    return re.split(r"(?<=[^.])\.(?=\s|$)", " ".join((text or "").split()), maxsplit=1)[0]
