"""Words with tags in CoNLL-U, the format of Universal Dependencies."""

from __future__ import annotations

import re
from typing import ClassVar, Literal

from regard.data.log import Log
from regard.data.reader import SentenceReader


class CoNLLU(SentenceReader):
    """Universal Dependencies' ten columns; words of several tokens (`1-2`) and empty nodes (`1.1`) have no tag."""

    suffixes: ClassVar[tuple[str, ...]] = (".conllu",)
    kind: Literal["conllu"] = "conllu"
    column: Literal["upos", "xpos"] = "upos"
    """The tags are the universal ones (upos) or the treebank's own (xpos)."""

    def cut(self, text: str, place: str, log: Log) -> tuple[str, str] | tuple[()] | None:
        if text.startswith("#"):
            return ()
        columns = text.split("\t")
        if len(columns) != 10:
            log.reject(place, f"not CoNLL-U: {len(columns)} columns, and there must be 10, divided by tabs")
            return None
        if re.fullmatch(r"\d+-\d+|\d+\.\d+", columns[0]):
            return ()
        if not columns[0].isdecimal():
            log.reject(place, f"not CoNLL-U: {columns[0][:20]!r} is no word's number")
            return None
        form, tag = columns[1].strip(), columns[3 if self.column == "upos" else 4].strip()
        if not form or tag in ("", "_"):
            log.reject(place, "not CoNLL-U: " + ("there is no word" if not form else f"{form[:20]!r} has no tag"))
            return None
        return form, tag
