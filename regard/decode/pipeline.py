"""What a trained model is for its users: a translator, a writer, … All have the same attributes, and each knows the
command that uses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any, ClassVar

from regard.core.model import Model
from regard.core.spec import Spec
from regard.data.tokenizer import Tokenizer
from regard.decode.ensemble import Ensemble


@dataclass(repr=False)
class Pipeline:
    """A model, ready to be asked. Where there is no tokenizer, there is nothing to ask it but the model itself."""

    usage: ClassVar[str] = "eval {}"  # what one types after `regard`; the braces are for the model's name
    model: Model | Ensemble
    task: Spec | None = field(default=None, kw_only=True)  # what it learned, or what it can do by its make
    config: Mapping[str, Any] = field(default_factory=dict, kw_only=True)  # the run file, or others' config.json

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer] | None:
        """Of what it reads and of what it writes; the same one twice where there is one; None: it has none."""
        return None

    @classmethod
    def command(cls, noun: str | Path) -> str:
        """What one types to use a model by its name."""
        return f"regard {cls.usage.format(quote(str(noun)))}"

    def __repr__(self) -> str:
        facts = [f"{self.model.parameter_count():,} parameters", f"on {self.model.device}"]
        if self.tokenizers is not None:
            sizes = dict.fromkeys(len(tokenizer) for tokenizer in self.tokenizers)
            facts.insert(1, f"{' and '.join(f'{size:,}' for size in sizes)} tokens")
        if self.task is not None:
            facts.append(f"task {self.task.kind}")
        return f"<{type(self).__name__}: {', '.join(facts)}>"

    def __getattr__(self, name: str) -> Any:
        """Only for what isn't there: say what is."""
        hint = f"; it is used by: {self.command('RUN')}" if not name.startswith("_") else ""
        raise AttributeError(f"a {type(self).__name__} has no attribute {name!r}{hint}")
