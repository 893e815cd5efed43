"""Reckoning: losses, measures and steps by size, on problems small enough to do by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from regard.core.inputs import Inputs
from regard.core.model import Model, ModelSpec
from regard.core.probe import Record
from regard.data.lexicon import Lexicon
from regard.data.sample import Sample
from regard.errors import DataError, InputError, SpecError
from regard.models import preset
from regard.tasks.expectation import expect_loss, insist_on_expectation
from regard.tasks.language import LanguageTask
from regard.tasks.reckoning import SILENT, Reckoner, ReckoningTask, ReckoningTaskSpec, charge_answers, collect

LEXICON = Lexicon(None, ["a", "b", "c"], vectors=(4, 2))


def fit(name: str = "act-rnn", **settings: Any) -> ModelSpec:
    return ReckoningTaskSpec().fit_model(preset(name, width=8, **settings), LEXICON)


def build(name: str = "act-rnn", **settings: Any) -> Model:
    torch.manual_seed(0)
    return fit(name, **settings).build().eval()


def samples() -> list[Sample]:
    chance = np.random.default_rng(0)
    answers = [["a b", "", "c"], ["b"], ["", "c a"], ["a", "b b"]]
    return [
        {"vectors": chance.normal(size=(len(each), 4)).astype(np.float32), "answers": each, "size": 1 + n // 2}
        for n, each in enumerate(answers)
    ]


def test_the_loss_is_the_sum_over_answers() -> None:
    model = build("gru", depth=1)
    spec, given = ReckoningTaskSpec(), samples()
    rows = spec.encode(given, LEXICON)
    lengths = [len(row["vectors"]) for row in rows]
    vectors, numbers = (np.concatenate([row[name] for row in rows]) for name in ("vectors", "answers"))
    batch = collect(vectors, numbers, lengths)
    assert batch.count == 9
    found = charge_answers(model(batch.inputs), batch.answers).sum()
    expected = torch.zeros(())
    for sample in given:
        logits = model(Inputs(torch.from_numpy(sample["vectors"])[None]))[0]
        for scores, answer in zip(logits, sample["answers"], strict=True):
            for place, word in enumerate(answer.split()):
                expected = expected - scores.view(2, 3)[place].log_softmax(-1)["abc".index(word)]
    torch.testing.assert_close(found, expected)


def test_the_expected_loss_is_that_over_all_steps() -> None:
    model = build("pondernet", halt={"kind": "geometric", "limit": 4}).train()
    vectors, answers = torch.randn(3, 2, 4), torch.randint(0, 3, (3, 2, 2))
    answers[0, 1] = SILENT
    torch.manual_seed(5)
    found = expect_loss(model, Inputs(vectors), lambda logits: charge_answers(logits, answers))
    record = Record("*.trials", "*.chances")
    torch.manual_seed(5)  # the same is drawn
    model(Inputs(vectors, probe=record))
    trials, chances = record["decoder.blocks.0.mix.trials"], record["decoder.blocks.0.mix.chances"][:, 0]
    expected = torch.zeros(3, 2)
    for step in range(trials.shape[1]):
        assert model.head is not None
        scores = model.head.tags(trials[:, step]).view(3, 2, 2, 3)  # type: ignore[operator]
        for row, time, place in np.ndindex(3, 2, 2):
            if answers[row, time, place] != SILENT:
                nats = F.cross_entropy(scores[row, time, place], answers[row, time, place])
                expected[row, time] += chances[row, time, step] * nats
    torch.testing.assert_close(found, expected)
    found.sum().backward()
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in model.parameters())


def test_steps_and_accuracy_are_told_by_size() -> None:
    model, given = build(), samples()
    found = Reckoner(model, LEXICON).measure(given)
    steps: dict[int, list[float]] = {}
    for sample in given:
        record = Record("*.steps")
        model(Inputs(torch.from_numpy(sample["vectors"])[None], probe=record))
        steps.setdefault(sample["size"], []).append(float(record["decoder.blocks.0.mix.steps"].mean()))
    assert found["steps_by_size"] == pytest.approx({size: sum(each) / len(each) for size, each in steps.items()})
    assert found["by_size"].keys() == {1, 2}
    assert found["exact"] == pytest.approx(sum(found["by_size"].values()) / 2)
    plain = Reckoner(build("gru", depth=1), LEXICON).measure(given)
    assert plain["steps"] == 1 and plain.keys() == found.keys()  # so that both stand in one table of results


def test_an_answer_of_its_own_is_right() -> None:
    reckoner, given = Reckoner(build(), LEXICON), samples()
    for sample in given:
        sample["answers"] = reckoner.solve(sample["vectors"])
        assert all(len(answer.split()) == 2 for answer in sample["answers"])
    assert reckoner.measure(given)["exact"] == reckoner.measure(given)["accuracy"] == 1


@pytest.mark.parametrize(
    "text", ["x", "[1, 2]", "[[1, 2]]", "[[1, 2, 3, 4], [1]]", '[["1", 2, 3, 4]]', "[[1, 2, 3, NaN]]"]
)
def test_what_is_no_problem_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        Reckoner(build(), LEXICON).lay_out(text)


def test_a_problem_can_be_looked_at() -> None:
    from regard.lens.steps import count_steps
    from regard.lens.terminal import draw_steps

    look = Reckoner(build(), LEXICON).look("[[1, 0, 0, 1], [0, 1, 1, 0], [1, 1, 1, 1]]")
    [steps] = count_steps(look)
    assert steps.counts == look.values("*.steps")["decoder.blocks.0.mix.steps"][:, 0].tolist()
    lines = draw_steps(look, 80).split("\n")
    assert lines[1].split() == [f"{count:.0f}" for count in steps.counts] and lines[2].split() == ["1", "2", "3"]
    assert look.figure().data["steps"] == [vars(steps)]


def test_a_model_that_may_halt_anywhere_needs_the_expected_loss() -> None:
    model = build("pondernet")
    task = ReckoningTask.__new__(ReckoningTask)
    task.spec = ReckoningTaskSpec()
    insist_on_expectation(model, task)
    other = LanguageTask.__new__(LanguageTask)
    other.spec = ReckoningTaskSpec()
    with pytest.raises(SpecError, match="expected"):
        insist_on_expectation(model, other)
    with pytest.raises(SpecError, match="between"):
        insist_on_expectation(build("pondernet", ffn="feedforward"), task)


@pytest.mark.parametrize("told", [3, [1], [0, 1], [1, "2"], [1.0, 2], [1, 2**40], {"a": 1}])
def test_a_damaged_lexicon_is_refused(told: Any) -> None:
    import json

    content = json.dumps({"labels": [], "letters": [], "words": False, "vectors": told}).encode()
    with pytest.raises(DataError, match="vectors"):
        Lexicon.read(lambda name: content if name == "lexicon.json" else None, "here")


def test_a_lexicon_keeps_the_sizes_of_its_vectors() -> None:
    files = LEXICON.files()
    assert Lexicon.read(files.get, "here") == LEXICON
