"""Run files as people write them: every mistake is found, told by its line, and comes with what was probably meant."""

from __future__ import annotations

import random
import re
import string
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from regard.cli import app
from regard.config import LARGEST, Document, assignments, merge, read
from regard.core.spec import Spec
from regard.data.batches import BatchSpec
from regard.data.tokenizer import TokenizerSpec
from regard.errors import DataError, RegardError, SpecError
from regard.models import families, preset
from regard.runs.folder import Run
from regard.runs.spec import RunSpec
from regard.train.spec import TrainSpec
from tests.cli.test_cli import regard

SMALL = """\
corpus:
  kind: files
  train: {kind: jsonl, path: train.jsonl}
model: transformer-tiny
train:
  steps: 2
out: runs/one
"""


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "run.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def parsed(document: Document) -> RunSpec:
    return RunSpec.parse(document.tree, document.where)


def complaint(document: Document) -> list[str]:
    """What is said of a file that can't be used, line by line."""
    with pytest.raises(SpecError) as caught:
        parsed(document)
    return str(caught.value).splitlines()


def refused(path: Path, kind: type[RegardError] = SpecError) -> str:
    """What is said of a file that isn't even read; it must be said soon."""
    before = time.process_time()
    with pytest.raises(kind) as caught:
        read(path)
    assert time.process_time() - before < 2
    assert str(caught.value).startswith(str(path))
    return str(caught.value).removeprefix(str(path))


def test_a_small_run_file_is_a_whole_run(tmp_path: Path) -> None:
    spec = parsed(read(written(tmp_path, SMALL)))
    assert spec.model == {"kind": "transformer-tiny"}
    assert (spec.train.steps, spec.out, spec.seed) == (2, "runs/one", 1)


MISTAKEN = """\
corpus:
  kind: files
  train:
    kind: jsonl
    pth: train.jsonl
tokenizer:
  vocabulary: -5
  peices: bpe
batches: {tokens: 1.5}
model:
  kind: transformer-tiny
  widht: 16
  heads: many
  mix: {kind: attention, haeds: 2}
train:
  steps: 2
  optimizer:
    kind: adamw
    rat: 0.1
  clip: .nan
sed: 1
device: tpu
"""


def test_every_mistake_is_told_at_once_on_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, MISTAKEN)
    told = [re.fullmatch(r"(.+):(\d+): ([\w.]+): .+", line) for line in complaint(read(path))]
    assert all(told)
    assert {match[1] for match in told if match} == {str(path)}
    assert sorted((int(match[2]), match[3]) for match in told if match) == [
        (1, "out"),
        (3, "corpus.train.path"),
        (5, "corpus.train.pth"),
        (7, "tokenizer.vocabulary"),
        (8, "tokenizer.peices"),
        (9, "batches.tokens"),
        (12, "model.widht"),
        (13, "model.heads"),
        (14, "model.mix.haeds"),
        (19, "train.optimizer.rat"),
        (20, "train.clip"),
        (21, "sed"),
        (22, "device"),
    ]


def test_a_mistake_in_a_list_is_told_by_places_of_the_file_alone(tmp_path: Path) -> None:
    """Not by the branches of a choice: a path is a word or a list of words."""
    lines = complaint(read(written(tmp_path, SMALL.replace("path: train.jsonl", "path: [a.jsonl, 3]"))))
    assert {line.split(": ")[1] for line in lines} <= {"corpus.train.path", "corpus.train.path.1"}


@pytest.mark.parametrize(
    ("place", "wrong", "meant"),
    [
        ("corpsu", "en-fr", "corpus"),
        ("corpus.trian", "jsonl", "train"),
        ("corpus.train.sorce", "de", "source"),
        ("corpus.train.kind", "jsnol", "jsonl"),
        ("corpus.kind", "fils", "files"),
        ("task.smothing", "0.1", "smoothing"),
        ("task.search.bema", "5", "beam"),
        ("task", "translatoin", "translation"),
        ("tokenizer.vocabulry", "200", "vocabulary"),
        ("batches.toknes", "64", "tokens"),
        ("model", "transformer-tny", "transformer-tiny"),
        ("model.kind", "luogn", "luong"),
        ("model.widht", "16", "width"),
        ("model.mix", "atention", "attention"),
        ("train.stesp", "3", "steps"),
        ("train.optimizer", "adafcator", "adafactor"),
        ("train.optimizer.rat", "0.1", "rate"),
        ("train.schedule", "linaer", "linear"),
        ("train.schedule.warmpu", "3", "warmup"),
    ],
)
def test_a_typo_is_answered_with_the_word_that_was_meant(place: str, wrong: str, meant: str) -> None:
    kinds = ["task.kind=translation", "train.optimizer.kind=adamw", "train.schedule.kind=linear"]
    lines = complaint(Document(yaml.safe_load(SMALL)).change(kinds).change([f"{place}={wrong}"]))
    assert any(line.startswith(place.removesuffix(".kind")) and f"did you mean '{meant}'?" in line for line in lines)


def typos(words: Iterable[str], chance: random.Random) -> dict[str, set[str]]:
    """One-letter typos of each word, at every place: a letter lost, doubled, changed or added, or two that swapped.

    Each with the words that it may stand for; what is a word itself is left out.
    """
    known, found = set(words), dict[str, set[str]]()
    for word in sorted(known):
        for at in range(len(word)):
            head, letter, tail = word[:at], word[at], word[at + 1 :]
            other, more = chance.choices(string.ascii_lowercase, k=2)
            swapped = head + tail[:1] + letter + tail[1:]
            for typo in (
                head + tail,
                head + 2 * letter + tail,
                head + other + tail,
                head + more + letter + tail,
                swapped,
            ):
                if typo and typo not in known:
                    found.setdefault(typo, set()).add(word)
    return found


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        (RunSpec, ()),
        (TrainSpec, ("train",)),
        (TokenizerSpec, ("tokenizer",)),
        (BatchSpec, ("batches",)),
        (families()["transformer"].settings, ("model",)),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_nine_typos_of_ten_in_a_key_are_understood(spec: type[Spec], place: tuple[str, ...]) -> None:
    meant = typos(spec.model_fields, random.Random(1))
    words, told = sorted(meant), dict[str, str]()
    for first in range(0, len(words), 20):
        changes: dict[str, Any] = dict.fromkeys(words[first : first + 20], 1)
        for part in reversed(place):
            changes = {part: changes}
        told |= dict(line.split(": ", 1) for line in complaint(Document(merge(yaml.safe_load(SMALL), changes))))
    assert set(told) == {".".join([*place, word]) for word in words}
    missed = [word for word in words if not answered(told[".".join([*place, word])], meant[word])]
    assert len(missed) <= len(words) / 10, missed


def answered(message: str, words: Iterable[str]) -> bool:
    return any(f"did you mean '{word}'?" in message for word in words)


def test_nine_typos_of_ten_in_a_verb_are_understood() -> None:
    verbs = [command.name or str(command.callback and command.callback.__name__) for command in app.registered_commands]
    assert {"show", "train", "resume", "eval", "translate"} <= set(verbs)
    meant = typos(verbs, random.Random(1))
    chosen = random.Random(2).sample(sorted(meant), 100)
    missed = []
    for typo in chosen:
        done = regard(typo)
        assert done.returncode == 2, typo
        if not any(re.search(rf"try:.*\bregard {verb}\b", done.stderr) for verb in meant[typo]):
            missed.append(typo)
    assert len(missed) <= 10, missed


@pytest.mark.parametrize("words", [["show", "gpt2", "widht=128"], ["train", "FILE", "train.stesp=3"]], ids=" ".join)
def test_a_typo_in_a_word_of_the_command_line_is_understood(tmp_path: Path, words: list[str]) -> None:
    path = str(written(tmp_path, SMALL))
    done = regard(*(path if word == "FILE" else word for word in words))
    assert done.returncode == 2
    assert "did you mean" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_key_that_is_set_twice_is_refused_with_both_lines(tmp_path: Path) -> None:
    assert refused(written(tmp_path, SMALL + "train:\n  steps: 3\n")) == ":8: train is set twice, first on line 5"
    inner = SMALL.replace("  steps: 2\n", "  steps: 2\n  clip: 1\n  steps: 3\n")
    assert refused(written(tmp_path, inner)) == ":8: steps is set twice, first on line 6"


def laughs(levels: int) -> str:
    """A few hundred bytes that unfold to 10**levels words."""
    lines = ["a0: &a0 [" + ", ".join(["ha"] * 10) + "]"]
    lines += [f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * 10) + "]" for n in range(1, levels)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (laughs(30), 1),
        (SMALL + "seed: &one 1\n", 8),
        (SMALL + "seed: *one\n", 8),
        (SMALL + "tokenizer: &loop {like: *loop}\n", 8),
        (SMALL + "batches:\n  <<: {tokens: 64}\n", 9),
        (SMALL + "? [seed]\n: 1\n", 8),
    ],
    ids=["bomb", "anchor", "alias", "loop", "merge", "list"],
)
def test_what_yaml_can_do_beyond_data_is_refused_at_once(tmp_path: Path, text: str, line: int) -> None:
    assert refused(written(tmp_path, text)).startswith(f":{line}: ")


@pytest.mark.parametrize("place", ["seed: {}", "tokenizer: {{like: {}}}", "corpus: [{}]", "? {}\n: 1", "{}"])
@pytest.mark.parametrize(
    "tag",
    [
        "!!python/object/apply:os.system ['touch FILE']",
        "!!python/object/new:os.system ['touch FILE']",
        "!!python/object/apply:pathlib.Path.touch [!!python/object/apply:pathlib.Path ['FILE']]",
        "!!python/name:os.system",
        "!!python/module:antigravity",
        "!call {x: 1}",
    ],
    ids=lambda tag: tag.partition(" ")[0],
)
def test_a_tag_that_would_run_code_is_refused_and_nothing_runs(tmp_path: Path, place: str, tag: str) -> None:
    fired = tmp_path / "fired"
    path = written(tmp_path, place.format(tag.replace("FILE", str(fired))) + "\n")
    with pytest.raises(SpecError):
        parsed(read(path))
    assert not fired.exists()


def test_a_tag_in_a_word_runs_nothing_either(tmp_path: Path) -> None:
    fired = tmp_path / "fired"
    with pytest.raises(SpecError, match="seed: can't read"):
        assignments([f"seed=!!python/object/apply:os.system ['touch {fired}']"])
    assert not fired.exists()


@pytest.mark.parametrize("text", ["- a\n- b\n", "transformer-tiny\n", "3\n", "[]\n", "null\n"], ids=repr)
def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    assert "a run file is a mapping of settings" in refused(written(tmp_path, text))


def test_an_empty_file_lacks_what_a_run_needs(tmp_path: Path) -> None:
    lines = complaint(read(written(tmp_path, "# nothing\n")))
    assert [line.split(": ")[0] for line in lines] == ["corpus", "train", "out"]


@pytest.mark.parametrize("text", [SMALL.encode() + b"seed: \xff\n", SMALL.encode("utf-16"), b"\x80" * 100])
def test_bytes_that_are_no_utf8_are_refused(tmp_path: Path, text: bytes) -> None:
    assert "not text in UTF-8" in refused(written(tmp_path, text))


@pytest.mark.parametrize(
    "text", ["a: [", "a: b: c", "\ta: 1", "a: 'b", "%YAML 9", "a: \x00", "a: 1\n--- \nb: 1", "a: @b", "a: 0x"]
)
def test_what_is_no_yaml_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(SpecError):
        parsed(read(written(tmp_path, SMALL + text)))


def test_a_file_that_is_not_there_ends_with_status_3(tmp_path: Path) -> None:
    assert refused(tmp_path / "none.yaml", DataError).startswith(": No such file")
    assert refused(tmp_path, DataError).startswith(": Is a directory")
    done = regard("train", str(tmp_path / "none.yaml"))
    assert done.returncode == DataError.status == 3
    assert "none.yaml: No such file" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("letter", ["#", "é", "€"])
def test_a_file_larger_than_the_limit_is_refused(tmp_path: Path, letter: str) -> None:
    text = SMALL + "# " + letter * LARGEST
    assert "larger than" in refused(written(tmp_path, text))


@pytest.mark.parametrize(
    "tree", ["[" * 10_000 + "]" * 10_000, "{a: " * 10_000 + "}" * 10_000, "- " * 10_000 + "a"], ids=["[", "{", "-"]
)
def test_ten_thousand_levels_are_refused_at_once(tmp_path: Path, tree: str) -> None:
    refused(written(tmp_path, f"{SMALL}seed:\n {tree}\n"))


def test_words_win_over_the_file(tmp_path: Path) -> None:
    document = read(written(tmp_path, SMALL)).change(["train.steps=7", "seed=3", "train.optimizer=sgd", "out=b"])
    spec = parsed(document)
    assert (spec.train.steps, spec.seed, spec.train.optimizer.kind, spec.out) == (7, 3, "sgd", "b")
    assert spec.train.save == 1000


def test_a_mistake_in_a_word_claims_no_line_of_the_file(tmp_path: Path) -> None:
    text = SMALL + "batches:\n  tokens: 0\n"
    words = ["train.steps=-1", "train.stesp=3", "seed=-2", "model.widht=16", "corpus.train.path=5", "sed=1"]
    path = written(tmp_path, text)
    lines = complaint(read(path).change(words))
    assert f"{path}:9: batches.tokens: " in "\n".join(lines)
    claimed = [line for line in lines if line.startswith(str(path)) and "batches.tokens" not in line]
    assert not claimed


def test_a_word_that_mends_a_mistake_leaves_none(tmp_path: Path) -> None:
    document = read(written(tmp_path, SMALL.replace("steps: 2", "steps: -2")))
    assert complaint(document)
    assert parsed(document.change(["train.steps=2"])).train.steps == 2


def test_a_bare_kind_takes_later_settings(tmp_path: Path) -> None:
    document = read(written(tmp_path, SMALL)).change(["model.width=64", "model.heads=2"])
    assert document.tree["model"] == {"kind": "transformer-tiny", "width": 64, "heads": 2}
    assert parsed(document).model_dump()["model"] == document.tree["model"]
    again = document.change(["model.kind=transformer-tiny", "model.depth=1"])
    assert again.tree["model"] == {"kind": "transformer-tiny", "width": 64, "heads": 2, "depth": 1}


@pytest.mark.parametrize("word", ["model=luong", "model.kind=luong"])
def test_another_kind_starts_afresh(tmp_path: Path, word: str) -> None:
    text = SMALL.replace("transformer-tiny", "{kind: transformer-tiny, heads: 2}")
    spec = parsed(read(written(tmp_path, text)).change([word]))
    assert spec.model == {"kind": "luong"}


def test_merging_leaves_both_trees_alone() -> None:
    base = {"train": {"steps": 2, "optimizer": "adam"}, "seed": 1}
    changes = {"train": {"optimizer": {"rate": 0.1}}, "seed": 2}
    merged = merge(base, changes)
    assert merged == {"train": {"steps": 2, "optimizer": {"kind": "adam", "rate": 0.1}}, "seed": 2}
    assert base == {"train": {"steps": 2, "optimizer": "adam"}, "seed": 1}
    assert changes == {"train": {"optimizer": {"rate": 0.1}}, "seed": 2}


@pytest.mark.parametrize(
    ("words", "tree"),
    [
        ([], {}),
        (["a=1", "b.c=2", "b.d=x"], {"a": 1, "b": {"c": 2, "d": "x"}}),
        (["a=", "b=null", "c=true", "d='1'"], {"a": None, "b": None, "c": True, "d": "1"}),
        (["a=[1, 2]", "b={c: 3}", "b.d=4"], {"a": [1, 2], "b": {"c": 3, "d": 4}}),
        (["a=b=c"], {"a": "b=c"}),
        (["a=1", "a=2"], {"a": 2}),
    ],
    ids=str,
)
def test_words_become_a_tree(words: list[str], tree: dict[str, Any]) -> None:
    assert assignments(words) == tree


@pytest.mark.parametrize(
    "words",
    [
        ["seed"],
        ["=3"],
        ["seed=["],
        ["seed=3", "seed.x=4"],
        ["seed=2001-99-99"],
        ["seed=!!bool x"],
        ["seed=!!timestamp x"],
        ["seed=!!int ''"],
        ["seed=" + "[" * 2000 + "]" * 2000],
        ["seed=[&a [1], *a]"],
        ["seed=&a [*a]"],
    ],
    ids=lambda words: words[-1][:20],
)
def test_a_word_that_is_no_setting_is_refused(words: list[str]) -> None:
    with pytest.raises(SpecError, match=r"seed|=3"):
        assignments(words)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["model.width=64", "model.heads=2", "model.mix={kind: attention, heads: 2}", "model.dropout=0.25"],
        [
            "model=luong-feed",
            "train.schedule=cosine",
            "train.minutes=0.5",
            "train.optimizer={kind: adamw, betas: [0.8, 0.99]}",
        ],
        ["corpus={kind: en-fr, train: 100}", "tokenizer.pieces=word", "train.optimizer={kind: adam, epsilon: 1e-9}"],
        [
            "corpus.train.path=[a.jsonl, 'é: #.jsonl']",
            "task={kind: translation, search: {beam: 5}}",
            "train.clip=null",
            "out='007'",
        ],
    ],
    ids=lambda words: words[0] if words else "small",
)
def test_a_resolved_file_is_the_same_run(tmp_path: Path, words: list[str]) -> None:
    spec = parsed(read(written(tmp_path, SMALL)).change(words))
    again = parsed(read(written(tmp_path, Run(tmp_path, spec).dump())))
    assert again == spec
    assert Run(tmp_path, again).digest == Run(tmp_path, spec).digest


def test_a_whole_model_spec_survives_being_resolved(tmp_path: Path) -> None:
    tree = yaml.safe_load(SMALL) | {"model": preset("transformer-tiny", vocabulary=200).model_dump(mode="json")}
    spec = RunSpec.parse(tree)
    assert parsed(read(written(tmp_path, Run(tmp_path, spec).dump()))) == spec
