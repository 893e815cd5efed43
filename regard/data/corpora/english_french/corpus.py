"""The grammar's sentences as a corpus."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import ClassVar, Literal

from regard.core.spec import Count, Size
from regard.data.corpora.english_french.pattern import Level
from regard.data.corpora.english_french.stream import pairs
from regard.data.corpora.english_french.word import BilingualPair
from regard.data.corpus import Generated, LinkedPair, Split
from regard.data.sample import Form, Sample


class EnglishFrench(Generated):
    """The built-in grammar: translations, or the English side as text or with its parts of speech."""

    gives: ClassVar[tuple[Form, ...]] = ("pairs", "documents", "tags")
    kind: Literal["en-fr"] = "en-fr"
    combinations: Count = 1000
    """This many samples have combinations of pattern and word that training never shows."""
    longest: Size = 40
    """An English sentence has at most this many words."""
    level: Level = "full"
    """The whole grammar (full), or fewer patterns and words for a model that has a minute (first)."""

    def stream(self, form: Form, split: Split) -> Iterator[Sample]:
        for pair in self._pairs(split):
            words = pair.source_words
            if form == "pairs":
                yield {"source": pair.source, "target": pair.target}
            elif form == "documents":
                yield {"text": pair.source}
            else:
                yield {"words": [word.text for word in words], "tags": [word.tag for word in words]}

    def list_links(self, split: Split) -> Iterator[LinkedPair]:
        for pair in islice(self._pairs(split), self.count(split)):
            english, french = (tuple(word.text for word in side) for side in (pair.source_words, pair.target_words))
            yield LinkedPair(pair.source, pair.target, english, french, frozenset(pair.alignment))

    def _pairs(self, split: Split) -> Iterator[BilingualPair]:
        return (pair for pair in pairs(split, self.seed, self.level) if len(pair.source_words) <= self.longest)
