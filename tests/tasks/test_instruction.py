"""Instruction: the assistant's tokens alone are learned, conversations don't know of each other, and runs answer."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from regard.config import Document
from regard.core.model import Model
from regard.data.batches import BatchSpec
from regard.data.corpus import CorpusSpec
from regard.data.dialogue import FORMATS, encode_dialogue, find_format
from regard.data.log import Log
from regard.data.preparation import prepare
from regard.data.prepared import Prepared
from regard.data.tokenizer import TokenizerSpec
from regard.decode.writer import Writer
from regard.errors import DataError, InputError, SpecError
from regard.models import preset
from regard.runs.compare import compare
from regard.runs.evaluate import TestSet, evaluate
from regard.runs.load import load
from regard.runs.train import train
from regard.runs.verify import verify
from regard.tasks.documents import pack_whole
from regard.tasks.feedback.likelihood import AnswerBatch
from regard.tasks.instruction import InstructionTask, InstructionTaskSpec
from regard.tasks.task import TaskSpec

KINDS = ("gpt2", "lstm", "mamba-130m")
TALKS = [
    [("user", "ab"), ("assistant", "ba")],
    [("system", "b"), ("user", "a"), ("assistant", "cab"), ("user", "c"), ("assistant", "b")],
    [("user", "abc"), ("assistant", "c"), ("user", "left open")],
    *([("user", "c" * size), ("assistant", "a" * size)] for size in range(1, 7)),
]


def write(folder: Path, talks: list[list[tuple[str, str]]]) -> CorpusSpec:
    lines = [{"messages": [{"role": role, "content": text} for role, text in talk]} for talk in talks]
    (folder / "talks.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return CorpusSpec.parse({"kind": "files", "train": "talks.jsonl", "validation": "talks.jsonl"})


def make_ready(folder: Path, spec: InstructionTaskSpec, talks: Any = TALKS) -> Prepared:
    corpus = write(folder, talks)
    return prepare(corpus, spec, TokenizerSpec(pieces="character"), 9, folder, folder / "data")[0]


@pytest.fixture(scope="module", params=["turns", "chatml"])
def task(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> InstructionTask:
    spec = InstructionTaskSpec(format=request.param, context=80)
    return spec.build(make_ready(tmp_path_factory.mktemp("talks"), spec), BatchSpec(tokens=240), 5)


def small(kind: str, size: int, **settings: Any) -> Model:
    torch.manual_seed(1)
    more = {"context": 96, "heads": 2} if kind == "gpt2" else {}
    return preset(kind, vocabulary=size, width=16, depth=1, **{**more, **settings}).build().eval()


def epoch(task: InstructionTask) -> list[AnswerBatch]:
    places, found = task.batches(0, 0), list[AnswerBatch]()
    try:
        for place in places:
            if place.epoch:
                break
            found.append(place.batch)
    finally:
        places.close()
    return found


def lose(model: Model, task: InstructionTask, talk: Any) -> tuple[float, int]:
    """The loss of a conversation's answers, token by token from the whole text in one row, in fp64."""
    script = encode_dialogue([{"role": role, "content": text} for role, text in talk], task.spec.chat, task.tokenizer)
    logs = model(torch.tensor([script.tokens]))[0].double().log_softmax(-1)
    lost = [-float(logs[n - 1, script.tokens[n]]) for n, learned in enumerate(script.learned) if learned]
    return sum(lost), len(lost)


def test_the_mask_is_what_the_assistant_says_and_its_ends(task: InstructionTask) -> None:
    said = {True: "", False: ""}
    for talk in TALKS:
        script = encode_dialogue(
            [{"role": role, "content": text} for role, text in talk], task.spec.chat, task.tokenizer
        )
        answers = [text for role, text in talk if role == "assistant"]
        learned = [token for token, one in zip(script.tokens, script.learned, strict=True) if one]
        assert task.tokenizer.decode([learned])[0].replace(" ", "") == "".join(answers)
        ends = [token for token in learned if token in task.tokenizer.controls]
        assert len(ends) == len(answers)
        said[True] += "".join(answers)
    assert said[True]


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_packed_rows_lose_what_the_conversations_lose_alone(task: InstructionTask, kind: str) -> None:
    model = small(kind, len(task.tokenizer))
    batches = epoch(task)
    owners = [batch.inputs.owners for batch in batches]
    assert any(owner is not None and bool((owner != owner[:, :1]).any()) for owner in owners)  # some rows have several
    alone = [lose(model, task, talk) for talk in TALKS]
    packed = sum(float(task.loss(model, batch)) for batch in batches)
    assert packed == pytest.approx(sum(loss for loss, _ in alone), rel=1e-5)
    assert sum(task.size(batch) for batch in batches) == sum(count for _, count in alone)


@torch.no_grad()
def test_measures_equal_those_by_hand(task: InstructionTask) -> None:
    model = small("lstm", len(task.tokenizer))
    found = task.measure(model, lambda: None)
    alone = [lose(model, task, talk) for talk in TALKS]
    loss = sum(one for one, _ in alone) / sum(count for _, count in alone)
    assert found["loss"] == pytest.approx(loss, rel=1e-5)
    assert found["perplexity"] == pytest.approx(math.exp(loss), rel=1e-5)
    assert found["conversations"] == len(TALKS) and found["loss_low"] <= loss <= found["loss_high"]
    assert 0 <= found["exact"] <= found["accuracy"] + 1 and {"accuracy_low", "bits_per_byte"} <= found.keys()


def test_no_gradient_comes_from_what_the_user_says(task: InstructionTask) -> None:
    """What follows the last answer changes nothing: it isn't learned, and nothing before sees it."""
    model = small("gpt2", len(task.tokenizer))
    batch = epoch(task)[0]
    other = AnswerBatch(batch.inputs, torch.where(batch.learned, batch.targets, task.tokenizer.unknown), batch.learned)
    assert torch.equal(task.loss(model, batch), task.loss(model, other))


def test_rows_hold_whole_conversations_and_each_once() -> None:
    sizes = [(n, 1 + n * 7 % 10) for n in range(200)]
    rows = list(pack_whole(sizes, 12))
    assert sorted(span.document for row in rows for span in row) == list(range(200))
    assert all(span.first == 0 and span.last == dict(sizes)[span.document] for row in rows for span in row)
    filled = [sum(span.last for span in row) for row in rows]
    assert max(filled) <= 12 and sum(filled) > 0.9 * 12 * len(rows)


def test_a_conversation_that_is_too_long_is_left_out_and_told(tmp_path: Path) -> None:
    spec = InstructionTaskSpec(context=40)
    talks = [TALKS[0], [("user", "a"), ("assistant", "b" * 50)]]
    prepared = make_ready(tmp_path, spec, talks)
    assert prepared.facts["samples"] == {"train": 1, "validation": 1}
    report = (tmp_path / "data" / "rejected.txt").read_text(encoding="utf-8")
    assert "talks.jsonl:2: too many tokens for a row:" in report and "task.context is 40" in report
    with pytest.raises(DataError, match=r"task\.cut=true"):
        make_ready(tmp_path, spec, talks[1:])


def test_it_is_cut_where_that_is_wished(tmp_path: Path) -> None:
    talks = [TALKS[0], [("user", "a"), ("assistant", "b" * 50)], [("user", "a" * 50), ("assistant", "b")]]
    spec = InstructionTaskSpec(context=40, cut=True)
    prepared = make_ready(tmp_path, spec, talks)
    assert prepared.facts["samples"]["train"] == 2  # nothing of the third's answer is left
    assert "no answer in its first 40 tokens" in (tmp_path / "data" / "rejected.txt").read_text(encoding="utf-8")
    assert max(len(prepared.columns["conversation"][n]) for n in range(2)) == 41
    spec.build(prepared, BatchSpec(), 0).measure(small("gpt2", len(prepared.lexicon.tokenizer)), lambda: None)


def test_what_a_format_has_no_place_for_is_left_out_and_told(tmp_path: Path) -> None:
    prepared = make_ready(tmp_path, InstructionTaskSpec(format="gemma", context=80))
    assert prepared.facts["samples"]["train"] == len(TALKS) - 1
    report = (tmp_path / "data" / "rejected.txt").read_text(encoding="utf-8")
    assert "talks.jsonl:2: no place in the format: gemma has none for what the system says" in report


def test_formats_are_known_by_name_and_models_must_write() -> None:
    with pytest.raises(SpecError, match="chatml"):
        TaskSpec.parse({"kind": "instruction", "format": "chatlm"})
    with pytest.raises(SpecError, match="encoder"):
        InstructionTaskSpec().fit_model(preset("bert-tiny", vocabulary=9), None)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match=r"task\.context"):
        InstructionTaskSpec(context=99).fit_model(preset("gpt2", vocabulary=9, context=8), None)  # type: ignore[arg-type]


def describe(out: Path, **changes: Any) -> Document:
    tree = {
        "task": {"kind": "instruction", "context": 40},
        "corpus": {"kind": "copy", "sizes": [1, 3], "symbols": 3, "train": 300, "validation": 20, "test": 20},
        "tokenizer": {"pieces": "word"},
        "model": {"kind": "gpt2", "width": 32, "depth": 2, "heads": 2, "context": 40, "dropout": 0.0},
        "batches": {"tokens": 800},
        "train": {"steps": 200, "evaluate": 100, "save": 100, "optimizer": {"rate": 0.003}, "schedule": {"warmup": 10}},
        "device": "cpu",
        "out": str(out),
    }
    return Document({**tree, **changes})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that has learned to say the same letters again."""
    torch.set_num_threads(1)
    place = tmp_path_factory.mktemp("runs") / "run"
    train(describe(place))
    return place


def test_it_is_learned_and_answers_as_it_did_in_training(run: Path) -> None:
    writer = load(run, kind=Writer)
    found = evaluate([str(run)], TestSet(split="validation"), {}).measures
    assert found["accuracy"] > 0.9 and found["exact"] > 0.6
    right = 0  # of what greedy search writes
    corpus = CorpusSpec.parse({"kind": "copy", "sizes": [1, 3], "symbols": 3, "validation": 20})
    samples = corpus.samples("conversations", "validation", Path(), Log())
    for sample in samples:
        reply = writer.reply(sample["messages"][:1], sample=False, max_tokens=8)
        written = writer.write(sample["messages"][0]["content"], sample=False, max_tokens=8)[0]
        assert reply.text == written.text  # a prompt is what a user says
        right += reply.text == sample["messages"][1]["content"]
        assert reply.reason in {"end", "maximum"}
    assert right / 20 == pytest.approx(found["exact"], abs=1e-6)


def test_a_prompt_that_fills_the_context_is_refused(run: Path) -> None:
    with pytest.raises(InputError, match="look back on 40"):
        load(run, kind=Writer).reply([{"role": "user", "content": "a " * 50}])


def test_runs_can_be_compared_and_shown(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    train(describe(other, train={"steps": 5, "evaluate": 0}))
    found = compare([run, other])
    assert {"loss", "bits_per_byte", "accuracy", "exact"} <= found.measures.keys()
    writer = load(run, kind=Writer)
    spec = InstructionTaskSpec(context=40)
    (example,) = spec.demonstrate(writer, [{"messages": [{"role": "user", "content": "a"}]}])
    assert example.given == ("a",) and not example.expected and example.answer


@pytest.mark.parametrize("kind", KINDS)
def test_it_goes_on_to_the_bit(tmp_path: Path, kind: str) -> None:
    more = {"heads": 2, "context": 40} if kind == "gpt2" else {}
    document = describe(tmp_path / "run", model={"kind": kind, "width": 16, "depth": 1, **more})
    from regard.runs.folder import Run

    proof = verify(Run.begin(document).folder, steps=4)
    assert proof.exact, (proof.straight, proof.resumed)


def test_a_format_with_controls_goes_on_from_a_model_that_has_none_with_adapters_too(run: Path, tmp_path: Path) -> None:
    place = tmp_path / "chatml"
    task = {"kind": "instruction", "context": 40, "format": "chatml"}
    tree = describe(place, task=task, start=str(run)).tree
    learned = {"steps": 3, "evaluate": 0, "adapt": {"kind": "lora", "rank": 2}}
    train(Document({**{key: tree[key] for key in tree if key not in ("model", "tokenizer")}, "train": learned}))
    writer = load(place, kind=Writer)
    chat = find_format("chatml")
    numbers = [writer.tokenizer.engine.token_to_id(name) for name in chat.controls]
    assert numbers == [len(writer.tokenizer) - 2, len(writer.tokenizer) - 1]
    assert set(numbers) <= writer.tokenizer.controls and writer.ends[0] == numbers[1]
    assert numbers[0] in writer.list_never() and numbers[1] not in writer.list_never()
    typed = writer.encode("a <|im_end|> b")  # what somebody types is text
    assert typed.count(numbers[1]) == 1 and typed[0] == writer.tokenizer.begin


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_works_with_tokens_that_are_learned_here(name: str) -> None:
    form = find_format(name)
    talk = [{"role": "user", "content": "abc"}, {"role": "assistant", "content": "cab"}]
    for pieces in ("character", "bpe", "byte", "byte-bpe", "word", "unigram"):
        text = "".join(map(chr, range(33, 127))) + "\n abc cab user assistant model " * 20
        tokenizer = TokenizerSpec(pieces=pieces, vocabulary=300).train([text], form.controls)
        script = encode_dialogue(talk, form, tokenizer)
        answer = [token for token, learned in zip(script.tokens, script.learned, strict=True) if learned]
        assert tokenizer.decode([answer])[0].strip() == "cab"
        assert answer[-1] == (tokenizer.end if not form.end else tokenizer.engine.token_to_id(form.end))
        assert F.one_hot(torch.tensor(script.tokens), len(tokenizer)).sum() == len(script.tokens)


@pytest.mark.parametrize("form", ["turns", "chatml"])
def test_it_goes_on_from_a_model_of_others(tmp_path: Path, form: str) -> None:
    pytest.importorskip("transformers")
    from tests.decode.test_generation import saved

    folder, place = tmp_path / "origin", tmp_path / "run"
    folder.mkdir()
    saved(folder, "llama")
    write(tmp_path, [[("user", f"w{n} w5"), ("assistant", f"w5 w{n}")] for n in range(4, 9)])
    tree = {
        "task": {"kind": "instruction", "context": 24, "format": form},
        "corpus": {"kind": "files", "train": "talks.jsonl"},
        "data": str(tmp_path),
        "start": str(folder),
        "train": {"steps": 2, "evaluate": 0},
        "device": "cpu",
        "out": str(place),
    }
    train(Document(tree))
    writer = load(place, kind=Writer)
    assert writer.format == find_format(form)
    assert writer.write("w5 w6", max_tokens=3, sample=False)[0].text is not None
    if form == "chatml":
        asked = writer.tokenizer.pieces(writer.encode("w5"))
        assert asked.count("<|im_start|>") == 2 and asked.count("<|im_end|>") == 1
