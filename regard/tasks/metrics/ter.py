"""TER, the translation edit rate: how many words must be changed or phrases moved, per word of the reference (Snover et
al. 2006), as sacreBLEU computes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from regard.tasks.metrics.metric import MetricSpec

if TYPE_CHECKING:
    from sacrebleu.metrics.ter import TER


class EditRate(MetricSpec):
    """In percent, with sacreBLEU's own defaults: what differs in case alone doesn't differ."""

    rising: ClassVar[bool] = False
    kind: Literal["ter"] = "ter"
    cased: bool = False
    """What differs in case alone counts as different."""
    punctuation: bool = True
    """Punctuation counts."""
    normalized: bool = False
    """Punctuation is cut off words first."""

    def measure(self, answers: Sequence[str], references: Sequence[str]) -> float:
        return float(self._scorer().corpus_score(list(answers), [list(references)]).score)

    @property
    def signature(self) -> str:
        scorer = self._scorer()
        scorer.corpus_score([""], [[""]])  # sacreBLEU signs what it has scored, and notes one reference each
        return str(scorer.get_signature())

    def _scorer(self) -> TER:
        from sacrebleu.metrics.ter import TER

        return TER(normalized=self.normalized, no_punct=not self.punctuation, case_sensitive=self.cased)
