"""Rules that write text anew before it is cut: in a file from elsewhere they could make a book of a letter."""

from __future__ import annotations

import string
from typing import Any

from tokenizers import Tokenizer as Engine

from regard.errors import DataError

GROWTH = 16  # a text may become so many times as long


def insist_on_size(engine: Engine, tree: dict[str, Any], name: str) -> None:
    """Refuse rules that feed each other until a text has grown out of all bounds.

    What a rule writes is tried, with usual letters beside it: whatever else a text holds, only that can grow again.
    """
    parts = (tree.get("normalizer") or {}).get("normalizers") or []
    written = [str(part.get("content", "")) for part in parts if part.get("type") == "Replace"]
    if not written:
        return
    text = " ".join([*written, string.printable])
    most, rules = GROWTH * len(text), engine.normalizer
    for number in range(len(parts)):
        text = rules[number].normalize_str(text)
        if len(text) > most:
            raise DataError(f"{name}: its rules make a text more than {GROWTH} times as long")
