"""Doubts about a file, told with the words that settle them: `corpus.train.header=true`.

A reader knows what is doubtful and which of its settings say what is meant. The corpus knows in which split that reader
stands, so it adds the key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from regard.config import spell_word
from regard.data.reader import ReaderSpec
from regard.data.sample import Sample
from regard.data.table import TableReader
from regard.errors import Doubt


def locate_doubts(samples: Iterable[Sample], reader: ReaderSpec, split: str) -> Iterator[Sample]:
    """The same samples; a doubt about them says which settings of a run file settle it."""
    try:
        yield from samples
    except Doubt as doubt:
        doubt.key = f"corpus.{split}"
        doubt.ways = {meaning: _keep_files(reader, way) for meaning, way in doubt.ways.items()}
        raise


def _keep_files(reader: ReaderSpec, way: Mapping[str, Any]) -> Mapping[str, Any]:
    """A way out; where it names another reader, which starts afresh, with the files and columns of this one."""
    if "kind" not in way or not isinstance(reader, TableReader):
        return way
    columns = reader.told() if issubclass(ReaderSpec.kinds[way["kind"]], TableReader) else {}
    return {"kind": way["kind"], "path": reader.path, **columns, **way}


def spell_ways(doubt: Doubt) -> dict[str, str]:
    """The words that one types for each way out, by what it means."""
    before = f"{doubt.key}." if doubt.key else ""
    return {
        meaning: " ".join(spell_word(f"{before}{name}", value) for name, value in way.items())
        for meaning, way in doubt.ways.items()
    }


def settle_doubt(tree: Mapping[str, Any], doubt: Doubt, meaning: str) -> dict[str, Any]:
    """A tree of settings in which one of the ways out of a doubt is taken."""
    place, way = doubt.key.split("."), doubt.ways[meaning]
    corpus = dict(tree[place[0]])
    old = corpus.get(place[1], {})
    # a reader may be told by its files alone
    told = dict(old) if isinstance(old, Mapping) else {"path": old}
    corpus[place[1]] = dict(way) if "kind" in way else {**told, **way}
    return {**tree, place[0]: corpus}
