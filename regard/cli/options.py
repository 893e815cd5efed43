"""Options that a verb doesn't have, and that people know from elsewhere: what to type instead."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Any

import typer
from typer.core import TyperGroup

from regard.errors import RegardError, SpecError

# the parser's own exception: typer brings its parser along, or uses click, as its version has it
NoSuchOption = vars(sys.modules[typer.BadParameter.__module__])["NoSuchOption"]
SEARCH, MODEL = "task.search.", "model."
# options that aren't called by the key
OPTIONS = {"task.search.max_tokens": ("--tokens",), "task.search.best": ("--nbest", "--samples")}

# verbs that others have; those of ASK depend on what a run learned
ASK = ("predict", "infer", "inference", "ask", "run")
VERBS = {
    **dict.fromkeys(("test", "evaluate", "validate", "score"), "regard eval RUN"),
    **dict.fromkeys(("sample", "complete", "write"), "regard generate RUN TEXT"),
    **dict.fromkeys(("finetune", "fine-tune", "tune"), "regard train CONFIG start=RUN model=null"),
    **dict.fromkeys(("fit", "pretrain"), "regard train CONFIG"),
    **dict.fromkeys(("init", "create"), "regard new --data FILE"),
    **dict.fromkeys(("ls", "list"), "regard runs"),
    **dict.fromkeys(("info", "inspect", "summary"), "regard show RUN"),
    **dict.fromkeys(("download", "pull"), "regard import hf:OWNER/NAME"),
    "continue": "regard resume RUN",
}


class Verbs(TyperGroup):
    """The program's verbs; an option that a verb doesn't have is answered with our own, where there is one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta["regard.words"] = list(args)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        word = args[0]
        if not ctx.resilient_parsing and not word.startswith("-") and self.get_command(ctx, word) is None:
            raise SpecError(f"no verb is called {word!r}", translate_verb(word, args[1:], self.list_commands(ctx)))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except NoSuchOption as error:
            meant = translate_option(error.option_name, ctx.meta["regard.words"], error.ctx.command.params)
            if not meant:
                raise
            raise SpecError(f"{error.ctx.info_name} has no option {error.option_name}", meant) from None


def translate_verb(word: str, rest: list[str], known: list[str]) -> str:
    """What to type for a verb that there isn't."""
    from regard.core.hint import nearest

    if word.lower() in ASK:
        if rest and Path(rest[0]).is_dir():  # the run itself knows what it can be asked
            from regard.runs.load import usage

            with suppress(RegardError):
                return usage(rest[0])
        return "regard classify, tag, translate or generate, as the run has learned"
    near = nearest(word, known)
    return VERBS.get(word.lower()) or (f"regard {near}" if near else "regard -h, which lists the verbs")


def translate_option(option: str, words: list[str], params: list[Any]) -> str:
    """What to type for an option of others; nothing where we don't know it, or where this verb has nothing like it."""
    from regard.core.advice import translate_value, write_assignment, write_value
    from regard.core.foreign import FOREIGN, ROWS

    own = {name for param in params for name in param.opts}
    value = find_value(option, words)
    if option == "--data" and words[0] in ("train", "plan"):
        file = quote(str(value)) if isinstance(value, str) else "FILE"
        return f"regard new --data {file}, which writes a run file to train by"
    # an option that another verb of ours has is a word for its setting too
    own_rows = [row for row in ROWS if option in OPTIONS.get(row.place, ())]
    for row in FOREIGN.get(option.lstrip("-").replace("-", "_").lower(), []) or own_rows:
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
