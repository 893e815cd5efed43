"""Algorithmic tasks: problems and answers as sequences, right to the last token or not, told by size.

They are learned as translations are, by an encoder and a decoder or by a decoder alone (`problem [SEP] answer`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

from regard.core.model import Model
from regard.core.spec import Rate
from regard.data.batches import BatchSpec
from regard.data.lexicon import Lexicon
from regard.data.origin import Origin
from regard.data.prepared import Prepared
from regard.data.sample import Sample
from regard.decode.translator import Translator
from regard.tasks.example import Example
from regard.tasks.significance import Statistic
from regard.tasks.translation import TranslationTask, TranslationTaskSpec


class AlgorithmTaskSpec(TranslationTaskSpec):
    """Learn to solve problems exactly."""

    measures: ClassVar[Mapping[str, bool]] = {"loss": False, "perplexity": False, "exact": True}
    roles: ClassVar[tuple[str, str, str]] = ("problem", "solution", "answer")
    kind: Literal["algorithm"] = "algorithm"  # type: ignore[assignment]
    smoothing: Rate = 0.0

    def pipeline(self, network: Model, lexicon: Lexicon, origin: Origin | None = None) -> Translator:
        found = super().pipeline(network, lexicon, origin)
        # runs of an earlier version kept 2**16 and meant by it what no maximum means now
        if found.search.max_tokens == 2**16:
            found.search = found.search.replace(max_tokens=None)
        return found

    def build(self, prepared: Prepared, batches: BatchSpec, seed: int) -> AlgorithmTask:
        return AlgorithmTask(self, prepared, batches, seed)

    def report_measures(
        self, measures: dict[str, Any], samples: Sequence[Sample], texts: Sequence[str]
    ) -> dict[str, Any]:
        """The share of problems of each size that are solved; answers have no BLEU."""
        seen, right = Counter[int](), Counter[int]()
        for sample, text in zip(samples, texts, strict=True):
            size = self._weigh(sample)
            seen[size] += 1
            right[size] += text == sample["target"]
        kept = {name: value for name, value in measures.items() if name not in ("bleu", "chrf", "signatures", "cut")}
        return kept | {"by_size": {size: right[size] / count for size, count in sorted(seen.items())}}

    size_name: ClassVar[str] = "size of the problem"

    def _weigh(self, sample: Sample) -> int:
        return int(sample.get("size", len(sample["source"].split())))

    def _score_texts(self, texts: Sequence[str], references: Sequence[str]) -> dict[str, Statistic]:
        return {}  # an answer is right or not

    def _compare(self, sample: Sample, answer: str, note: str) -> Example:
        found = super()._compare(sample, answer, note)
        return replace(found, right=answer == sample["target"]) if "target" in sample else found


class AlgorithmTask(TranslationTask):
    """The task on one corpus of problems."""

    goal, rising = "exact", True
