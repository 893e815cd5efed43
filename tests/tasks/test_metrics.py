"""Further measures of texts."""

from __future__ import annotations

import pytest
from sacrebleu.metrics.ter import TER

from regard.errors import SpecError
from regard.runs.evaluate import add_metrics
from regard.tasks.metrics.metric import MetricSpec, measure_all
from regard.tasks.task import TaskSpec
from regard.tasks.translation import TranslationTaskSpec

ANSWERS, REFERENCES = ["the cat sat on a mat", "Yes ."], ["the cat sat on the mat", "yes , it is ."]


def test_ter_is_that_of_sacrebleu() -> None:
    metric = MetricSpec.parse("ter")
    scorer = TER()
    assert metric.measure(ANSWERS, REFERENCES) == scorer.corpus_score(ANSWERS, [REFERENCES]).score
    assert metric.signature == str(scorer.get_signature())
    assert not metric.rising
    cased = MetricSpec.parse({"kind": "ter", "cased": True})
    assert cased.measure(ANSWERS, REFERENCES) > metric.measure(ANSWERS, REFERENCES)


@pytest.mark.parametrize(
    ("kind", "first", "second"), [("rouge-1", 5 / 6, 1 / 2), ("rouge-2", 3 / 5, 0.0), ("rouge-l", 5 / 6, 1 / 2)]
)
def test_rouge_is_counted_by_hand(kind: str, first: float, second: float) -> None:
    metric = MetricSpec.parse(kind)
    assert metric.measure(ANSWERS[:1], REFERENCES[:1]) == pytest.approx(100 * first)
    assert metric.measure(ANSWERS[1:], REFERENCES[1:]) == pytest.approx(100 * second)
    assert metric.measure(REFERENCES, REFERENCES) == pytest.approx(100) and metric.measure([""], ["one"]) == 0
    assert metric.rising and "not stemmed" in metric.signature


def test_rouge_keeps_order_apart_from_words() -> None:
    turned, straight = ["d c b a"], ["a b c d"]
    found = [MetricSpec.parse(kind).measure(turned, straight) for kind in ("rouge-1", "rouge-2", "rouge-l")]
    assert found == [100, 0, 25]
    assert MetricSpec.parse("rouge-l").measure(["a x b y d"], straight) == pytest.approx(100 * 6 / 9)


def test_metrics_are_measured_beside_the_tasks_own() -> None:
    task = TaskSpec.parse({"kind": "translation", "metrics": ["ter"]})
    assert isinstance(task, TranslationTaskSpec)
    before = {"bleu": 1.0, "signatures": {"bleu": "b"}}
    found = measure_all(task.metrics, ANSWERS, REFERENCES, before)
    assert set(found) == {"bleu", "ter", "signatures"}
    assert set(found["signatures"]) == {"bleu", "ter"}
    assert measure_all((), ANSWERS, REFERENCES, before) == before


def test_a_metric_has_one_name_and_takes_nobodys() -> None:
    with pytest.raises(SpecError, match="ter is there twice"):
        TranslationTaskSpec.parse({"metrics": ["ter", {"kind": "ter", "cased": True}]})
    with pytest.raises(SpecError, match="unknown kind 'tre'; did you mean 'ter'"):
        TranslationTaskSpec.parse({"metrics": ["tre"]})
    assert add_metrics(TranslationTaskSpec.parse({"metrics": ["ter"]}), ["ter"], "RUN").fields()["metrics"] == (
        MetricSpec.parse("ter"),
    )
    with pytest.raises(SpecError, match="--metric: unknown kind 'tre'; did you mean 'ter'"):
        add_metrics(TranslationTaskSpec(), ["tre"], "RUN")
    with pytest.raises(Exception, match="--metric measures texts, and RUN learned tagging"):
        add_metrics(TaskSpec.parse("tagging"), ["ter"], "RUN")
