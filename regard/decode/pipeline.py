"""What a trained model is for its users: a translator, a writer, … Each knows the command that uses it."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import ClassVar


class Pipeline:
    """What a user asks, once a model has learned."""

    usage: ClassVar[str] = "eval {}"  # what one types after `regard`; the braces are for the model's name

    @classmethod
    def command(cls, noun: str | Path) -> str:
        """What one types to use a model by its name."""
        return f"regard {cls.usage.format(quote(str(noun)))}"
