"""Chat templates that came with a model: Jinja, which turns the messages of a conversation into the text to go on from.

A template is somebody else's program, so it is rendered in Jinja's immutable sandbox, which knows messages and a few
words and reaches nothing of Python or of the machine; what grows without end is refused. One that can't be rendered is
an error that says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

from regard.data.origin import Origin
from regard.errors import InputError

if TYPE_CHECKING:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

SETTINGS = "tokenizer_config.json"
FILES = ("chat_template.jinja", "chat_template.json")
LARGEST = 2**20  # letters of a rendered conversation, and of what a product may make
PLAIN = "--plain goes on from what you type, without it"
Message = Mapping[str, str]  # role, content


@dataclass
class ChatTemplate:
    """A template, and the special tokens that it may name."""

    source: str
    tokens: Mapping[str, str] = field(default_factory=dict)  # bos_token, eos_token, …

    @classmethod
    def find(cls, origin: Origin | None) -> ChatTemplate | None:
        """The template that came with a model; None where it has none."""
        if origin is None:
            return None
        told = origin.json(SETTINGS)
        names = {key: value.get("content") if isinstance(value, dict) else value for key, value in told.items()}
        tokens = {key: value for key, value in names.items() if key.endswith("_token") and isinstance(value, str)}
        source = _find_source(origin, told.get("chat_template"))
        return None if source is None else cls(source, tokens)

    def render(self, messages: Sequence[Message]) -> str:
        """The conversation as text, up to where the model's answer begins."""
        from jinja2 import TemplateError

        try:
            template = make_sandbox().from_string(self.source)
            given: dict[str, Any] = {"messages": list(messages), "add_generation_prompt": True, **self.tokens}
            pieces, size = [], 0
            for piece in template.generate(**given):
                pieces.append(piece)
                size += len(piece)
                if size > LARGEST:
                    raise TemplateError(f"it makes more than {LARGEST:,} letters")
        except Exception as error:  # a template may fail in any way that an expression can
            kind = "" if isinstance(error, TemplateError) else f"{type(error).__name__}: "
            raise InputError(f"the model's chat template can't be rendered: {kind}{error}", PLAIN) from None
        return "".join(pieces)


def _find_source(origin: Origin, told: Any) -> str | None:
    """A file of its own, or what the tokenizer's settings say: one template, or several by name."""
    jinja, other = FILES
    if jinja in origin.files:
        return origin.files[jinja].decode(errors="replace")
    if other in origin.files:
        told = origin.json(other).get("chat_template")
    if isinstance(told, list):
        named = {item.get("name"): item.get("template") for item in told if isinstance(item, dict)}
        told = named.get("default")
    return told if isinstance(told, str) else None


def make_sandbox() -> ImmutableSandboxedEnvironment:
    """What templates are rendered in: as transformers has it, and narrower."""
    from jinja2 import TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Sandbox(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset(("*", "**", "%"))

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            """Numbers alone, and small ones: a few letters could otherwise ask for all the memory that there is."""
            numbers = all(isinstance(side, int | float) and abs(side) <= LARGEST for side in (left, right))
            if not numbers or (operator == "**" and right > 64):
                raise TemplateError(f"{operator} isn't for {left!r:.40} and {right!r:.40} here")
            return super().call_binop(context, operator, left, right)

    def refuse(message: str) -> NoReturn:
        raise TemplateError(message)

    found = Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    found.globals["raise_exception"] = refuse
    found.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    found.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
    for name in ("format", "center", "wordwrap"):  # they pad, as far as they are told to
        found.filters.pop(name)
    return found
