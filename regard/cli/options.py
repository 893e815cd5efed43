"""Options that a verb doesn't have, and that people know from elsewhere: what to type instead."""

from __future__ import annotations

import sys
from typing import Any

import typer
from typer.core import TyperGroup

from regard.errors import SpecError

# the parser's own exception: typer brings its parser along, or uses click, as its version has it
NoSuchOption = vars(sys.modules[typer.BadParameter.__module__])["NoSuchOption"]
SEARCH, MODEL = "task.search.", "model."
# options that aren't called by the key
OPTIONS = {"task.search.max_tokens": ("--tokens",), "task.search.best": ("--nbest", "--samples")}


class Verbs(TyperGroup):
    """The program's verbs; an option that a verb doesn't have is answered with our own, where there is one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta["regard.words"] = list(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except NoSuchOption as error:
            meant = translate_option(error.option_name, ctx.meta["regard.words"], error.ctx.command.params)
            if not meant:
                raise
            raise SpecError(f"{error.ctx.info_name} has no option {error.option_name}", meant) from None


def translate_option(option: str, words: list[str], params: list[Any]) -> str:
    """What to type for an option of others; nothing where we don't know it, or where this verb has nothing like it."""
    from regard.core.advice import translate_value, write_assignment, write_value
    from regard.core.foreign import FOREIGN

    own = {name for param in params for name in param.opts}
    value = find_value(option, words)
    for row in FOREIGN.get(option.lstrip("-").replace("-", "_").lower(), []):
        key = row.place.rpartition(".")[2]
        names = [name for name in OPTIONS.get(row.place, (f"--{key.replace('_', '-')}",)) if name in own]
        ours, carries = translate_value(row, value)
        note = f"; {row.note}" if row.note else ""
        told = write_assignment(row, row.place, value) if carries else f"{row.place}=…"
        if names and not row.form:
            told = f"{names[0]} {write_value(ours) if carries else '…'}"
        elif row.place.startswith(SEARCH) and "--set" in own:
            told = " ".join(f"--set {part.removeprefix(SEARCH)}" for part in told.split())
        elif row.place.startswith(MODEL) and "name" in own:  # a preset's name, as `show` has it
            told = told.replace(MODEL, "")
        elif "settings" not in own or "name" in own or row.place.startswith("."):
            continue
        return f"{told}{note}"
    return ""


def find_value(option: str, words: list[str]) -> Any:
    """What was typed after an option, as YAML reads it; an option alone says yes."""
    from regard.config import assignments

    for word, following in zip(words, [*words[1:], "-"], strict=True):
        name, sign, value = word.partition("=")
        if name == option and (sign or not following.startswith("-")):
            return assignments([f"value={value if sign else following}"])["value"]
    return True
