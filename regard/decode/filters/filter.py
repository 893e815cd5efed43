"""What every filter is that a search can name: a spec that builds one for a tokenizer."""

from __future__ import annotations

from typing import ClassVar

from regard.core.registry import Kinds
from regard.core.spec import Spec
from regard.data.tokenizer import Tokenizer
from regard.decode.filters.usual import Filter


class FilterSpec(Spec):
    """Something that holds for the next token, beside what the settings of a search can say."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds("regard.decode.filters")
    home: ClassVar[str | None] = "task.search.filters"

    def build(self, tokenizer: Tokenizer) -> Filter:
        """What is asked at every step; `tokenizer`: of the texts that are written."""
        raise NotImplementedError
