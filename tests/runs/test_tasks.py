"""Every task by the command line, as a stranger types it: train, evaluate, use, fine-tune, send out."""

from __future__ import annotations

import io
import json
import shlex
import shutil
import sys
import threading
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from safetensors.torch import load_file

from regard.cli import run
from regard.errors import InputError
from regard.runs.examples import ask_run
from regard.runs.load import load, load_bundle, usage
from regard.tasks.task import TaskSpec
from regard.tasks.translation import TranslationTaskSpec
from tests.cli.test_cli import Done, regard
from tests.cli.test_verbs import told, typed
from tests.parity.test_hub import made

FIRST = {"kind": "en-fr", "train": 200, "validation": 20, "test": 20, "combinations": 0, "longest": 8, "level": "first"}
TRAIN = {"steps": 6, "evaluate": 3, "save": 3, "schedule": {"kind": "linear", "warmup": 2}}
ENCODER = {"kind": "bert-tiny", "width": 16, "depth": 2, "heads": 2, "context": 64, "dropout": 0.0}
DECODER = {"kind": "gpt2", "width": 16, "depth": 2, "heads": 2, "context": 64, "dropout": 0.0}
HALVES = Path(__file__).parent.parent / "fixtures/pictures/halves.npz"  # 100 pictures, one half of each bright
LEFT = HALVES.with_name("left.npy")  # one of them
RUNS: dict[str, dict[str, Any]] = {
    "language": {"task": {"kind": "language", "context": 32}, "corpus": FIRST, "model": DECODER},
    "instruction": {
        "task": {"kind": "instruction", "context": 64},
        "corpus": {"kind": "manners", "train": 200, "validation": 20, "test": 20},
        "model": DECODER,
        "tokenizer": {"pieces": "word"},
    },
    "reward": {
        "task": "reward",
        "corpus": {"kind": "manners", "train": 200, "validation": 20, "test": 20},
        "model": DECODER,
        "tokenizer": {"pieces": "word"},
    },
    "preference": {
        "task": {"kind": "preference", "loss": "simpo", "written": 4, "most": 8},
        "corpus": {"kind": "manners", "train": 200, "validation": 20, "test": 20},
        "model": DECODER,
        "tokenizer": {"pieces": "word"},
    },
    "policy": {
        "task": {"kind": "policy", "reward": "right", "samples": 2, "most": 8, "validation": 4},
        "corpus": {"kind": "copy", "sizes": [1, 3], "symbols": 3, "train": 60, "validation": 20, "test": 20},
        "model": DECODER,
        "tokenizer": {"pieces": "word"},
        "batches": {"rows": 8},
    },
    "masking": {"task": {"kind": "masking", "context": 32}, "corpus": FIRST, "model": ENCODER},
    "classification": {
        "task": "classification",
        "corpus": {"kind": "grammaticality", "train": 200, "validation": 20, "test": 20, "level": "first"},
        "model": ENCODER,
    },
    "tagging": {"task": {"kind": "tagging", "spelling": {"size": 4, "width": 8}}, "corpus": FIRST, "model": ENCODER},
    "embedding": {"task": "embedding", "corpus": FIRST, "model": ENCODER},
    "algorithm": {
        "task": "algorithm",
        "corpus": {"kind": "sort", "train": 200, "validation": 20, "test": 20, "sizes": [1, 4], "test_sizes": [1, 6]},
        "model": {"kind": "decoder-tiny", "width": 16, "depth": 1, "heads": 2},
        "tokenizer": {"pieces": "given"},
    },
    "regression": {
        "task": "regression",
        "corpus": {"kind": "adding", "train": 200, "validation": 20, "test": 20, "sizes": [4, 6], "test_sizes": [4, 9]},
        "model": {"kind": "gru", "width": 16, "depth": 1},
    },
    "pointing": {
        "task": {"kind": "pointing", "search": {"min_tokens": 3}},
        "corpus": {"kind": "hull", "train": 200, "validation": 20, "test": 20, "sizes": [3, 6], "test_sizes": [3, 9]},
        "model": {"kind": "pointer-network", "width": 16},
    },
    "reckoning": {
        "task": "reckoning",
        "corpus": {"kind": "addition", "train": 200, "validation": 20, "test": 20, "sizes": [1, 2]},
        "model": {"kind": "act-rnn", "width": 16},
        "batches": {"rows": 16},
    },
    "graphs": {
        "task": {"kind": "graphs", "orders": 2},
        "corpus": {"kind": "trees", "train": 60, "validation": 10, "test": 10},
        "model": {"kind": "graph-mamba", "width": 16, "depth": 2, "walks": 3, "laplacian": 2},
    },
    "translation": {"task": "translation", "corpus": FIRST, "model": DECODER},
    "images": {
        "task": {"kind": "images", "augment": ["cutout", "mixup"]},
        "corpus": {"kind": "files", "train": str(HALVES), "split": {"validation": 0.2, "test": 0.2}},
        "model": {"kind": "vit-tiny", "width": 16, "depth": 2, "heads": 2},
        "batches": {"rows": 16},
    },
}
PICTURED: dict[str, dict[str, Any]] = {  # tasks whose own tests ask them as these here do
    "question": {
        "task": {"kind": "question"},
        "corpus": {"kind": "tables", "columns": 2, "texts": 1, "train": 80, "validation": 8, "test": 8, "rows": [3, 6]},
        "model": {"kind": "neural-programmer", "width": 16},
        "tokenizer": {"pieces": "given"},
        "batches": {"rows": 16},
    },
    "captioning": {
        "task": "captioning",
        "corpus": {"kind": "scenes", "train": 40, "validation": 4, "test": 4, "combinations": 4},
        "model": {"kind": "captioner", "width": 16, "depth": 1, "heads": 2},
    },
    "pixels": {
        "task": {"kind": "pixels", "binarise": "threshold"},
        "corpus": {"kind": "files", "train": str(HALVES), "split": {"validation": 0.2}},
        "model": {"kind": "pixel-gpt", "width": 16, "depth": 1, "heads": 2},
        "batches": {"rows": 8},
    },
}
MEASURES = {
    "images": ["accuracy", "accuracy_low", "top5", "macro_f1", "loss", "calibration_high", "confusion", "labels"],
    "language": ["loss", "perplexity", "bits_per_byte", "loss_low"],
    "instruction": ["loss", "perplexity", "accuracy", "exact", "loss_low"],
    "reward": ["accuracy", "accuracy_low", "loss", "calibration", "margin"],
    "preference": ["loss", "accuracy", "accuracy_low", "margin", "ranking", "nats"],
    "policy": ["reward", "reward_low", "greedy_reward", "length", "cut"],
    "masking": ["loss", "accuracy"],
    "classification": ["accuracy", "accuracy_low", "macro_f1", "confusion", "labels"],
    "tagging": ["accuracy", "accuracy_high", "macro_f1", "labels"],
    "embedding": ["found", "found_low", "reciprocal_rank"],
    "algorithm": ["exact", "by_size"],
    "graphs": ["accuracy", "accuracy_low", "macro_f1", "loss", "order_spread", "order_mean", "confusion"],
    "regression": ["error", "error_low", "error_by_size"],
    "pointing": ["exact", "exact_low", "loss", "by_size"],
    "reckoning": ["exact", "exact_low", "accuracy", "loss", "steps", "by_size", "steps_by_size"],
    "translation": ["bleu", "perplexity"],
}


def train(folder: Path, tree: dict[str, Any], *words: str) -> Done:
    usual = {"tokenizer": {"vocabulary": 200}, "batches": {"tokens": 256}, "train": TRAIN, "device": "cpu"}
    file = folder / "run.yaml"
    file.write_text(json.dumps({**usual, **tree, "out": str(folder / "run")}))
    return regard("train", str(file), *words)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of each task, trained for a few steps."""
    torch.set_num_threads(1)
    found = {}
    for name, tree in RUNS.items():
        folder = tmp_path_factory.mktemp(name)
        done = train(folder, tree)
        assert done.returncode == 0, done.stderr
        found[name] = folder / "run"
    return found


SEARCHED = [name for name in RUNS if isinstance(TaskSpec.parse(RUNS[name]["task"]), TranslationTaskSpec)]


def greedy(name: str) -> list[str]:
    """How a task's answers are searched quickly, if they are searched."""
    return ["--beam", "1"] if name in SEARCHED else []


@pytest.mark.parametrize(
    "name", [name for name in RUNS if name not in SEARCHED and not TaskSpec.parse(RUNS[name]["task"]).searches]
)
def test_settings_of_a_search_are_refused_where_nothing_is_searched(runs: dict[str, Path], name: str) -> None:
    done = regard("eval", str(runs[name]), "--beam", "2")
    assert done.returncode == 3
    assert "measured without a search" in done.stderr


@pytest.mark.parametrize("name", RUNS)
def test_a_task_shows_what_its_model_makes_of_samples(runs: dict[str, Path], name: str) -> None:
    asked = ask_run(str(runs[name]), 3, [])
    assert asked.notes == [] and asked.split == "validation"
    assert asked.roles == type(TaskSpec.parse(RUNS[name]["task"])).roles != TaskSpec.roles
    assert len(asked.examples) == 3
    for example in asked.examples:
        assert example.given and example.expected and all(example.given) and len(example.answer) > 0
        if example.aligned:
            assert len(example.given) == len(example.expected) == len(example.answer)
    assert [one.given for one in ask_run(str(runs[name]), 3, []).examples] == [one.given for one in asked.examples]


@pytest.mark.parametrize("name", RUNS)
def test_a_typed_text_is_answered_where_a_task_reads_texts(runs: dict[str, Path], name: str) -> None:
    texts = {"masking": "the [MASK] sleeps", "algorithm": "3 1 2", "images": str(LEFT), "pointing": "0.1 0, 1 0.2, 0 1"}
    text = texts.get(name, "the cat sleeps")
    asked = ask_run(str(runs[name]), 1, [text])
    if name in ("regression", "reckoning", "graphs"):
        assert len(asked.examples) == 1 and "isn't asked by texts" in asked.notes[0]
        return
    own, typed = asked.examples
    assert own.expected and not typed.expected and typed.right is None and typed.answer
    assert " ".join(typed.given) == text
    assert list(asked.looks) == [text] and asked.looks[text].arrays


@pytest.mark.parametrize("name", RUNS)
def test_a_task_is_measured_by_what_it_learned(runs: dict[str, Path], name: str) -> None:
    (found,) = told(regard("eval", str(runs[name]), *greedy(name), "--json"))
    assert set(MEASURES[name]) <= set(found)
    for measure in MEASURES[name]:
        if f"{measure}_low" in found:
            assert found[f"{measure}_low"] <= found[measure] <= found[f"{measure}_high"]
    shown = regard("eval", str(runs[name]), *greedy(name))
    assert shown.returncode == 0, shown.stderr
    assert MEASURES[name][0] in shown.stdout


@pytest.mark.parametrize("name", RUNS)
def test_a_task_resumes_to_the_bit(runs: dict[str, Path], name: str) -> None:
    done = regard("verify", str(runs[name]), "--steps", "4", "--json")
    assert told(done)[0]["exact"] is True


@pytest.mark.parametrize("name", RUNS)
def test_a_result_can_be_recorded(runs: dict[str, Path], name: str, tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    done = regard("eval", str(runs[name]), *greedy(name), "--record", str(page))
    assert done.returncode == 0, done.stderr
    assert name.capitalize() in page.read_text()
    assert "(run) |" in page.read_text()  # two runs of one preset are two rows
    assert (", by size\n| model |" in page.read_text()) == any("by_size" in measure for measure in MEASURES[name])
    if name == "images":
        done = regard("eval", str(runs[name]), "--split", "validation", "--record", str(page))
        assert done.returncode == 0, done.stderr
        assert page.read_text().count("(run) |") == 2 and "regard eval RUN --split validation" in page.read_text()
    assert str(tmp_path) not in page.read_text()


class Watched(io.StringIO):
    """An output that notes what threads there are whenever something is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[set[str]] = []

    def write(self, text: str) -> int:
        self.threads.append({thread.name for thread in threading.enumerate()})
        return super().write(text)


@pytest.mark.parametrize(
    ("verb", "name", "words"),
    [
        ("translate", "translation", ["{}", "--file", "FILE"]),
        ("generate", "language", ["{}", "the cat", "--tokens", "3"]),
        ("fill", "masking", ["{}", "the [MASK] cat"]),
        ("classify", "classification", ["{}", "--file", "FILE"]),
        ("score", "reward", ["{}", "--file", "FILE"]),
        ("tag", "tagging", ["{}", "--file", "FILE"]),
        ("embed", "embedding", ["{}", "--file", "FILE"]),
        ("search", "embedding", ["FILE", "a cat", "--model", "{}"]),
        ("eval", "regression", ["{}"]),
    ],
)
def test_every_verb_that_computes_gives_way_to_neighbours(
    runs: dict[str, Path], tmp_path: Path, verb: str, name: str, words: list[str]
) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("the cat sees the dog\n")
    known = {"FILE": str(lines), "{}": str(runs[name])}
    typed = ["regard", verb, *(known.get(word, word) for word in words)]
    with patch.object(sys, "argv", typed), redirect_stdout(Watched()) as out, pytest.raises(SystemExit) as stop:
        run()
    assert not stop.value.code
    assert "give way" in out.threads[0]
    assert not any(thread.name == "give way" for thread in threading.enumerate())


def follow(command: str, folder: Path) -> Done:
    """What a hint suggests, typed as a shell would read it."""
    lines = folder / "lines.txt"
    lines.write_text("the cat sees the dog\nhe sleeps\n")
    words = shlex.split(command.replace("< FILE", shlex.quote(str(lines))))
    known = {"FILE": str(lines), "QUERY": "a cat", "… [MASK] …": "the [MASK] cat", "…": "the", "PICTURE": str(LEFT)}
    assert words[0] == "regard"
    return regard(*(known.get(word, word) for word in words[1:]))


@pytest.mark.parametrize("name", RUNS)
def test_a_run_takes_the_command_that_is_suggested_for_it(runs: dict[str, Path], name: str, tmp_path: Path) -> None:
    done = follow(usage(str(runs[name])), tmp_path)
    assert done.returncode == 0, done.stderr


def test_an_elmo_in_a_folder_with_a_space_takes_the_commands_that_are_suggested(tmp_path: Path) -> None:
    """It learned language, but reads both ways, so it can't write on; and every hint names it as a shell needs it."""
    folder = tmp_path / "my runs"
    folder.mkdir()
    elmo = {"kind": "elmo", "width": 16, "depth": 1, "dropout": 0.0}
    spec = {"task": {"kind": "language", "context": 32}, "corpus": FIRST, "model": elmo}
    done = train(folder, spec, "train.steps=2", "train.evaluate=0")
    assert done.returncode == 0, done.stderr
    for command in done.stderr.rpartition("next: ")[2].strip().split(", or "):
        if " plot " not in command:
            assert follow(command, tmp_path).returncode == 0, command
        assert str(folder / "run") in shlex.split(command)
    refused = regard("generate", str(folder / "run"))
    assert refused.returncode == InputError.status
    assert follow(refused.stderr.rpartition("try: ")[2].strip(), tmp_path).returncode == 0


def test_a_task_can_be_planned(runs: dict[str, Path], tmp_path: Path) -> None:
    for name in ("language", "tagging"):
        (found,) = told(regard("plan", str(runs[name] / "run.yaml"), f"out={tmp_path / name}", "--json"))
        assert found["parameters"] > 0
        assert found["tokens_per_second"] > 0


def test_generate_writes_streams_samples_and_probabilities(runs: dict[str, Path]) -> None:
    run = str(runs["language"])
    plain = regard("generate", run, "--prompt", "The cat", "--tokens", "8", "--verbose")
    assert plain.returncode == 0, plain.stderr
    assert plain.stdout.startswith("The cat")
    assert "bytes" in plain.stderr
    lines = told(regard("generate", run, "--prompt", "The", "--samples", "3", "--tokens", "6", "--json"))
    assert [line["sample"] for line in lines] == [0, 1, 2]
    assert all(len(line["tokens"]) <= 6 and line["reason"] in ("end", "maximum") for line in lines)
    table = regard("generate", run, "--prompt", "The", "--tokens", "4", "--probabilities")
    shares = [float(line.split("\t")[0]) for line in table.stdout.splitlines() if line]
    assert all(0 <= share <= 1 for share in shares)
    greedy = [regard("generate", run, "--prompt", "The", "--temperature", "0", "--seed", seed).stdout for seed in "12"]
    assert greedy[0] == greedy[1]
    assert typed("The cat", "generate", run, "--prompt", "-", "--tokens", "2").stdout.startswith("The cat")


def test_generate_says_what_to_do_about_a_prompt_that_is_too_long(runs: dict[str, Path]) -> None:
    done = regard("generate", str(runs["language"]), "--prompt", "cat " * 100)
    assert done.returncode == 3
    assert "look back on 32" in done.stderr
    assert "--slide" in done.stderr
    assert regard("generate", str(runs["language"]), "--prompt", "cat " * 100, "--slide").returncode == 0


def test_fill_guesses(runs: dict[str, Path]) -> None:
    (line,) = told(regard("fill", str(runs["masking"]), "The [MASK] sleeps.", "--best", "3", "--json"))
    assert len(line["guesses"]) == 1
    assert len(line["guesses"][0]) == 3
    done = regard("fill", str(runs["masking"]), "The cat sleeps.")
    assert done.returncode == 3
    assert "[MASK]" in done.stderr


def test_classify_and_tag_answer_line_by_line(runs: dict[str, Path]) -> None:
    lines = told(typed("The cat sleeps.\nI likes it.\n", "classify", str(runs["classification"]), "--json"))
    assert [line["text"] for line in lines] == ["The cat sleeps.", "I likes it."]
    assert all(line["label"] in line["probabilities"] for line in lines)
    done = typed("fine\n\n", "classify", str(runs["classification"]))
    assert done.returncode == 0
    assert done.stdout.split("\n")[1:] == ["", ""]
    (line,) = told(typed("The cat sleeps.\n", "tag", str(runs["tagging"]), "--json"))
    assert line["words"] == ["The", "cat", "sleeps", "."]
    assert len(line["tags"]) == 4


def test_search_finds_the_line_itself_with_an_index_and_without(runs: dict[str, Path], tmp_path: Path) -> None:
    corpus, index, run = tmp_path / "lines.txt", tmp_path / "index", str(runs["embedding"])
    corpus.write_text("The cat sleeps.\n\nI like bread.\nShe sees the dog.\n")
    hits = told(regard("search", str(corpus), "I like bread.", "--model", run, "--best", "2", "--json"))
    assert hits[0]["text"] == "I like bread."
    assert hits[0]["cosine"] == pytest.approx(1, abs=1e-4)
    assert len(hits) == 2
    assert regard("embed", run, "--file", str(corpus), "--index", str(index)).returncode == 0
    again = told(regard("search", str(index), "I like bread.", "--best", "1", "--json"))
    assert again[0]["text"] == "I like bread."
    assert regard("search", str(corpus), "bread").returncode == 3
    (index / "vectors.npy").write_bytes(b"damaged")
    assert regard("search", str(index), "bread").returncode == 4


@pytest.mark.parametrize(
    ("verb", "name"),
    [("translate", "language"), ("generate", "masking"), ("tag", "classification"), ("fill", "tagging")],
)
def test_a_verb_for_another_task_says_which_one_fits(runs: dict[str, Path], verb: str, name: str) -> None:
    words = ["The [MASK]."] if verb == "fill" else []
    done = typed("The cat.\n", verb, str(runs[name]), *words)
    assert done.returncode == 3
    fitting = {"language": "generate", "masking": "fill", "classification": "classify", "tagging": "tag"}[name]
    assert f"regard {fitting}" in done.stderr


FINE = {"steps": 4, "evaluate": 2, "save": 2, "optimizer": {"rate": 0.01}}
PARTS = {"kind": "grammaticality", "train": 60, "validation": 10, "test": 10, "level": "first"}


@pytest.mark.parametrize("name", ["language", "masking"])
def test_fine_tuning_begins_with_another_runs_weights_and_tokens(
    runs: dict[str, Path], name: str, tmp_path: Path
) -> None:
    tree = {"task": "classification", "corpus": PARTS, "start": str(runs[name]), "train": FINE}
    done = train(tmp_path, tree)
    assert done.returncode == 0, done.stderr
    assert "new weights for head." in done.stderr
    first = load_file(next((tmp_path / "run" / "start").glob("*/model.safetensors")))
    old = load_bundle(str(runs[name])).model.state_dict()
    shared = [key for key in first if not key.startswith("head.") and first[key].shape == old[key].shape]
    assert len(shared) > 20
    for key in shared:
        torch.testing.assert_close(first[key], old[key])
    grown = [key for key in first if key in old and first[key].shape != old[key].shape]
    assert grown == [f"{'decoder' if name == 'language' else 'encoder'}.embedding.tokens.weight"]  # [SEP] is new
    torch.testing.assert_close(first[grown[0]][: len(old[grown[0]])], old[grown[0]])
    assert told(regard("verify", str(tmp_path / "run"), "--steps", "4", "--json"))[0]["exact"]
    assert load(str(tmp_path / "run")).classify("The cat sleeps.").probability > 0


def test_a_run_that_was_fine_tuned_can_be_moved_away_from_its_start(runs: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    start = tmp_path / "start"
    shutil.copytree(runs["language"], start)
    tree = {"task": {"kind": "language", "context": 32}, "corpus": FIRST, "start": str(start), "train": FINE}
    assert train(tmp_path / "a", tree, "train.steps=2").returncode == 0
    (tmp_path / "a" / "run").rename(tmp_path / "b")
    shutil.rmtree(start)
    done = regard("resume", str(tmp_path / "b"), "train.steps=4", "--json")
    assert told(done)[0]["steps"] == 4


def test_frozen_weights_stay_and_the_rest_moves(runs: dict[str, Path], tmp_path: Path) -> None:
    tree = {"task": "classification", "corpus": PARTS, "start": str(runs["masking"]), "train": FINE}
    done = train(tmp_path, tree, "train.freeze=[encoder.embedding.*, encoder.blocks.0.*]")
    assert done.returncode == 0, done.stderr
    before = load_file(next((tmp_path / "run" / "start").glob("*/model.safetensors")))
    after = load_bundle(f"{tmp_path / 'run'}@latest").model.state_dict()
    for key, tensor in before.items():
        still = key.startswith(("encoder.embedding.", "encoder.blocks.0."))
        assert torch.equal(tensor, after[key]) == still, key
    wrong = train(tmp_path, tree, "train.freeze=[encoder.block.*]", f"out={tmp_path / 'other'}")
    assert wrong.returncode == 2
    assert "did you mean" in wrong.stderr


def test_adapters_are_saved_apart_and_merged_where_they_are_used(runs: dict[str, Path], tmp_path: Path) -> None:
    tree = {"task": {"kind": "language", "context": 32}, "corpus": FIRST, "start": str(runs["language"])}
    done = train(tmp_path, {**tree, "train": {**FINE, "adapt": {"kind": "lora", "rank": 2}}})
    assert done.returncode == 0, done.stderr
    newest = sorted((tmp_path / "run" / "checkpoints").glob("step-*"))[-1]
    assert not (newest / "model.safetensors").exists()
    apart = load_file(newest / "adapter.safetensors")
    assert all(".lora." in key or key.startswith("head.") for key in apart)
    assert len([key for key in apart if ".lora." in key]) == 2 * 2 * 2  # up and down, query and value, two blocks
    base = load_file(next((tmp_path / "run" / "start").glob("*/model.safetensors")))
    used = load_bundle(f"{tmp_path / 'run'}@latest").model.state_dict()
    name = "decoder.blocks.1.mix.inner.query"
    change = 16.0 / 2 * apart[f"{name}.lora.up"] @ apart[f"{name}.lora.down"]
    assert float(change.abs().max()) > 0
    torch.testing.assert_close(used[f"{name}.weight"], base[f"{name}.weight"] + change)
    key = "decoder.blocks.1.mix.inner.key.weight"
    assert torch.equal(used[key], base[key])
    assert told(regard("verify", str(tmp_path / "run"), "--steps", "4", "--json"))[0]["exact"]


def test_what_was_fine_tuned_from_elsewhere_goes_back_with_its_adapters_merged(tmp_path: Path) -> None:
    """A GPT-2 folder with a tokenizer, trained further by adapters, loaded again by transformers."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from regard.data.tokenizer import TokenizerSpec

    folder = tmp_path / "gpt2"
    made("gpt2", folder)
    TokenizerSpec(pieces="byte-bpe", vocabulary=97 + 256).train(["the cat"]).save(folder / "tokenizer.json")
    config = json.loads((folder / "config.json").read_text())
    words = TokenizerSpec(pieces="character").train(
        ["abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ.,?!'0123456789-"]
    )
    words.save(folder / "tokenizer.json")
    assert len(words) <= config["vocab_size"]
    (folder / "config.json").write_text(json.dumps(config | {"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}))
    tree = {"task": {"kind": "language", "context": 16}, "corpus": FIRST, "start": str(folder)}
    done = train(tmp_path, {**tree, "train": {**FINE, "adapt": {"rank": 2}}})
    assert done.returncode == 0, done.stderr
    assert regard("export", str(tmp_path / "run"), str(tmp_path / "out")).returncode == 0
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    ours = load_bundle(str(tmp_path / "run")).model
    tokens = torch.randint(4, len(words), (2, 9))
    with torch.no_grad():
        torch.testing.assert_close(theirs(tokens).logits, ours(tokens), atol=1e-4, rtol=1e-3)
    assert AutoTokenizer.from_pretrained(tmp_path / "out").eos_token == "[EOS]"


MODERN = {"kind": "modernbert-base", "width": 16, "depth": 3, "heads": 2, "hidden": 24, "local": 8}
AUTO = {
    "masking": "AutoModelForMaskedLM",
    "classification": "AutoModelForSequenceClassification",
    "tagging": "AutoModelForTokenClassification",
    "embedding": "AutoModel",
}


@pytest.fixture(scope="module", params=["bert", "modernbert"])
def masked(request: pytest.FixtureRequest, runs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that learned to fill in."""
    if request.param == "bert":
        return runs["masking"]
    folder = tmp_path_factory.mktemp("modern")
    done = train(folder, {**RUNS["masking"], "model": MODERN}, "train.evaluate=0")
    assert done.returncode == 0, done.stderr
    return folder / "run"


@pytest.mark.parametrize("task", AUTO)
def test_what_learned_to_fill_in_is_fine_tuned_and_goes_out(masked: Path, task: str, tmp_path: Path) -> None:
    import transformers

    run = masked
    if task != "masking":
        tree = {"task": task, "corpus": PARTS if task == "classification" else FIRST, "start": str(masked)}
        done = train(tmp_path, {**tree, "train": {**FINE, "evaluate": 0}})
        assert done.returncode == 0, done.stderr
        run = tmp_path / "run"
    done = regard("export", str(run), str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    theirs = getattr(transformers, AUTO[task]).from_pretrained(tmp_path / "out").eval()
    ours, tokens = load_bundle(str(run)).model, torch.randint(4, 150, (2, 9))
    with torch.no_grad():
        answer = theirs(tokens)
        found = answer.logits if "logits" in answer else answer.last_hidden_state
        torch.testing.assert_close(found, ours(tokens), atol=1e-4, rtol=1e-3)
    again = regard("import", str(tmp_path / "out"), "--check", "--json")
    assert told(again)[0]["largest_difference"] < 1e-4


def test_the_layer_before_the_words_goes_on_where_it_is_the_same(masked: Path, tmp_path: Path) -> None:
    """ModernBERT has one layer before words and classes; BERT's pooler is another than its layer before the words."""
    done = train(tmp_path, {"task": "classification", "corpus": PARTS, "start": str(masked), "train": FINE})
    assert done.returncode == 0, done.stderr
    first = load_file(next((tmp_path / "run" / "start").glob("*/model.safetensors")))
    before = load_bundle(str(masked)).model.state_dict()["head.dense.weight"]
    modern = load_bundle(str(masked)).family
    assert modern is not None
    assert torch.equal(first["head.pooler.dense.weight"], before) == (modern["kind"] == "modernbert")


def test_a_classifier_that_is_trained_further_keeps_its_pooler(runs: dict[str, Path], tmp_path: Path) -> None:
    tree = {"task": "classification", "corpus": PARTS, "start": str(runs["classification"]), "train": FINE}
    assert train(tmp_path, tree).returncode == 0
    first = load_file(next((tmp_path / "run" / "start").glob("*/model.safetensors")))
    before = load_bundle(str(runs["classification"])).model.state_dict()
    assert torch.equal(first["head.pooler.dense.weight"], before["head.pooler.dense.weight"])


def test_what_learned_to_fill_in_embeds_and_searches(runs: dict[str, Path], tmp_path: Path) -> None:
    corpus, run = tmp_path / "lines.txt", str(runs["masking"])
    corpus.write_text("The cat sleeps.\nI like bread.\n")
    hits = regard("search", str(corpus), "I like bread.", "--model", run, "--best", "1", "--json")
    assert told(hits)[0]["text"] == "I like bread."
    assert "the mean of its states" in hits.stderr
    done = regard("embed", run, "--file", str(corpus), "--json")
    vector = torch.tensor(told(done)[0]["vector"])
    found = load_bundle(run)
    assert found.lexicon is not None
    tokenizer = found.lexicon.tokenizer
    row = [tokenizer.begin, *tokenizer.encode(["The cat sleeps."])[0], tokenizer.end]
    with torch.no_grad():
        states = found.model.features(torch.tensor([row]))[0]
    torch.testing.assert_close(vector, torch.nn.functional.normalize(states.mean(0), dim=0), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("tagging", "bert: encoder.embedding is spelled here and tokens there"),
        ("algorithm", "the family decoder has none"),
    ],
)
def test_what_has_no_place_in_a_layout_is_named(runs: dict[str, Path], name: str, reason: str, tmp_path: Path) -> None:
    done = regard("export", str(runs[name]), str(tmp_path / "out"))
    assert done.returncode != 0
    assert "no Hugging Face layout has a place" in done.stderr
    assert reason in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_setting_without_a_place_is_named_with_both_values(runs: dict[str, Path], tmp_path: Path) -> None:
    tree = {"task": {"kind": "classification", "pool": "mean"}, "corpus": PARTS, "start": str(runs["masking"])}
    assert train(tmp_path, {**tree, "train": FINE}).returncode == 0
    done = regard("export", str(tmp_path / "run"), str(tmp_path / "out"))
    assert done.returncode != 0
    assert "bert (BertForSequenceClassification): head.pool is 'mean' here and 'first' there" in done.stderr


@pytest.mark.parametrize("name", ["language", "masking", "classification"])
def test_transformers_loads_what_was_trained_here(runs: dict[str, Path], name: str, tmp_path: Path) -> None:
    import transformers

    done = regard("export", str(runs[name]), str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    classes = {
        "language": "AutoModelForCausalLM",
        "masking": "AutoModelForMaskedLM",
        "classification": "AutoModelForSequenceClassification",
    }
    theirs = getattr(transformers, classes[name]).from_pretrained(tmp_path / "out").eval()
    ours = load_bundle(str(runs[name])).model
    tokens = torch.randint(4, 150, (2, 9))
    with torch.no_grad():
        torch.testing.assert_close(theirs(tokens).logits, ours(tokens), atol=1e-4, rtol=1e-3)
    again = regard("import", str(tmp_path / "out"), "--check", "--json")
    assert told(again)[0]["largest_difference"] < 1e-4


@pytest.mark.parametrize(
    ("changes", "piece"),
    [
        ({"task": "masking", "model": DECODER}, "only what comes before"),
        ({"task": "language", "model": ENCODER}, "sees what it should predict"),
        ({"task": "tagging", "corpus": PARTS, "model": ENCODER}, "tagging needs tags"),
        ({"task": {"kind": "language", "carry": True}, "model": DECODER}, "only recurrences"),
        ({"task": "language", "model": DECODER, "start": "somewhere"}, "there are both"),
        ({"task": "language"}, "there are neither"),
        ({"task": "langauge", "model": DECODER}, "did you mean 'language'"),
    ],
)
def test_a_mistake_is_told_before_anything_is_written(tmp_path: Path, changes: dict[str, Any], piece: str) -> None:
    done = train(tmp_path, {"corpus": FIRST, **changes})
    assert done.returncode == 2, done.stderr
    assert piece in done.stderr
    assert not (tmp_path / "run").exists()


def test_evaluating_on_a_file_says_where_a_strange_label_stands(runs: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "test.tsv"
    path.write_text("The cat sleeps.\tcorrect\nThe cat sleep.\tawful\n")
    done = regard("eval", str(runs["classification"]), "--data", str(path))
    assert done.returncode == 3
    assert f"{path}:2: label 'awful' never occurs in training" in done.stderr
    path.write_text("The cat sleeps.\tcorrect\n")
    assert told(regard("eval", str(runs["classification"]), "--data", str(path), "--json"))[0]["count"] == 1
    words = tmp_path / "bad.conllu"
    words.write_text("1\tThe\n")
    done = regard("eval", str(runs["tagging"]), "--data", str(words))
    assert done.returncode == 3
    assert f"{words}:1: not CoNLL-U" in done.stderr


def test_curves_of_any_task_can_be_drawn(runs: dict[str, Path], tmp_path: Path) -> None:
    for name in ("language", "tagging", "regression"):
        done = regard("plot", str(runs[name]), "--out", str(tmp_path / f"{name}.png"))
        assert done.returncode == 0, done.stderr
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def labels_of(folder: Path) -> list[str]:
    return [str(label) for label in json.loads((folder / "data" / "lexicon.json").read_text())["labels"]]


def opinions(folder: Path, name: str, labels: str) -> dict[str, Any]:
    lines = "".join(f"the film is {word}\t{label}\n" for word in ("fine", "dull") for label in labels)
    (folder / name).write_text(lines)
    return {"kind": "files", "train": {"kind": "labels", "path": str(folder / name)}}


def test_a_label_keeps_its_own_weights_or_starts_anew(tmp_path: Path) -> None:
    """Rows of the last layer belong to labels, not to numbers."""
    trees = {}
    for name, labels in (("one", "NX"), ("same", "XN"), ("more", "ANX")):
        (tmp_path / name).mkdir()
        trees[name] = {"task": "classification", "corpus": opinions(tmp_path, f"{name}.tsv", labels), "train": FINE}
    assert train(tmp_path / "one", {**trees["one"], "model": ENCODER}).returncode == 0
    for name, fresh in (("same", False), ("more", True)):
        done = train(tmp_path / name, {**trees[name], "start": str(tmp_path / "one" / "run")})
        assert done.returncode == 0, done.stderr
        assert ("new weights for head.classes" in done.stderr) == fresh
    assert labels_of(tmp_path / "more" / "run") == ["A", "N", "X"]


def test_a_tagger_that_spells_is_trained_further_and_learns_new_letters(runs: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "more.txt"
    path.write_text("Ωμέγα NOUN\nsleeps VERB\n. PUNCT\n")
    corpus = {"kind": "files", "train": {"kind": "columns", "path": str(path)}}
    done = train(tmp_path, {"task": "tagging", "corpus": corpus, "start": str(runs["tagging"]), "train": FINE})
    assert done.returncode == 0, done.stderr
    old, new = (load_bundle(str(run)) for run in (runs["tagging"], tmp_path / "run"))
    assert old.lexicon is not None
    assert new.lexicon is not None
    assert new.lexicon.letters[: len(old.lexicon.letters)] == old.lexicon.letters
    assert "Ω" in new.lexicon.letters
    assert len(load(str(tmp_path / "run")).tag("Ωμέγα sleeps .")) == 3


def test_each_side_of_two_vocabularies_keeps_its_size(tmp_path: Path) -> None:
    model = {"kind": "transformer-tiny", "width": 16, "depth": 1, "heads": 2, "hidden": 32}
    words = {"vocabulary": 120, "shared": False}
    for name in "ab":
        (tmp_path / name).mkdir()
    first = {"corpus": {**FIRST, "train": 60}, "model": model, "tokenizer": {**words, "pieces": "word"}}
    assert train(tmp_path / "a", first).returncode == 0
    again = {"corpus": {**FIRST, "train": 60}, "start": str(tmp_path / "a" / "run"), "train": FINE}
    assert train(tmp_path / "b", again).returncode == 0
    assert typed("The cat sleeps.\n", "translate", str(tmp_path / "b" / "run")).returncode == 0


@pytest.mark.parametrize(
    ("words", "piece"),
    [
        (["train.freeze=['*']"], "nothing to train"),
        (["train.adapt={kind: lora}"], "start=RUN"),
        (["task.context=100"], "places for 64"),
        (["tokenizer.dropout=0.1"], "only translation"),
    ],
)
def test_what_cant_be_trained_leaves_nothing_behind(tmp_path: Path, words: list[str], piece: str) -> None:
    done = train(tmp_path, RUNS["language"], *words)
    assert done.returncode == 2, done.stderr
    assert piece in done.stderr
    assert not (tmp_path / "run").exists()


def test_an_evaluation_reads_files_as_the_run_did(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("yes\tthe cat\ta cat\nno\tthe cat\ta dog\n" * 4)
    reader = {"kind": "labels", "path": str(path), "label": 0, "text": 1, "second": 2}
    tree = {"task": "classification", "corpus": {"kind": "files", "train": reader}, "model": ENCODER}
    assert train(tmp_path, tree).returncode == 0
    (found,) = told(regard("eval", str(tmp_path / "run"), "--data", str(path), "--json"))
    assert found["count"] == 8
    done = regard("eval", str(tmp_path / "run"), "--data", str(path), "--out", str(tmp_path / "x"))
    assert done.returncode == 3
    assert "--out writes translations" in done.stderr


def test_a_plan_knows_every_label_of_a_sorted_corpus(tmp_path: Path) -> None:
    (tmp_path / "sorted.tsv").write_text("a\tone\n" * 4500 + "b\ttwo\n")
    corpus = {"kind": "files", "train": {"kind": "labels", "path": str(tmp_path / "sorted.tsv")}}
    file = tmp_path / "run.yaml"
    file.write_text(
        json.dumps({"task": "classification", "corpus": corpus, "model": ENCODER, "train": TRAIN, "out": "x"})
    )
    done = regard("plan", str(file), "--json")
    assert told(done)[0]["parameters"] > 0


def test_a_place_for_vectors_that_cannot_be_written_is_refused_before_the_work(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("the cat\n")
    for option in ("--out", "--index"):
        done = regard("embed", "no such run", "--file", str(tmp_path / "file"), option, str(tmp_path / "file" / "x"))
        assert done.returncode == InputError.status
        assert "is a file, not a folder" in done.stderr
        new = tmp_path / "new" / option / "x"
        assert (
            regard("embed", str(runs["embedding"]), "--file", str(tmp_path / "file"), option, str(new)).returncode == 0
        )
        assert new.exists()
    assert (tmp_path / "file").read_text() == "the cat\n"


def test_bad_text_is_an_error_and_no_traceback(runs: dict[str, Path], tmp_path: Path) -> None:
    bad = b"\xff".decode(errors="surrogateescape")
    for words in (
        ["generate", str(runs["language"]), "--prompt", bad],
        ["fill", str(runs["masking"]), f"{bad} [MASK]"],
    ):
        done = regard(*words)
        assert done.returncode == 3, done.stderr
        assert "isn't UTF-8" in done.stderr
    (tmp_path / "empty.txt").write_text("")
    done = regard("embed", str(runs["embedding"]), "--file", str(tmp_path / "empty.txt"))
    assert done.returncode == 3
    assert "no text" in done.stderr


def test_an_index_keeps_strange_line_ends_and_the_numbers_of_lines(runs: dict[str, Path], tmp_path: Path) -> None:
    corpus = tmp_path / "lines.txt"
    corpus.write_text("The cat\u2028sleeps.\n\n\nI like\u0085 bread.\n")
    assert (
        regard("embed", str(runs["embedding"]), "--file", str(corpus), "--index", str(tmp_path / "index")).returncode
        == 0
    )
    for place in (tmp_path / "index", corpus):
        done = regard("search", str(place), "bread", "--model", str(runs["embedding"]), "--json")
        hits = [json.loads(line) for line in done.stdout.split("\n") if line]
        assert sorted(hit["line"] for hit in hits) == [1, 4]


def test_elmos_layers_are_mixed_as_features(tmp_path: Path) -> None:
    elmo = {"kind": "elmo", "width": 32, "depth": 2, "dropout": 0.0}
    (tmp_path / "pre").mkdir()
    (tmp_path / "fine").mkdir()
    spec = {"task": {"kind": "language", "context": 32}, "corpus": FIRST, "model": elmo}
    assert train(tmp_path / "pre", spec).returncode == 0
    tree = {"task": {"kind": "tagging", "blend": True}, "corpus": FIRST, "start": str(tmp_path / "pre" / "run")}
    done = train(tmp_path / "fine", {**tree, "train": FINE}, "train.freeze=[encoder.blocks.*, encoder.embedding.*]")
    assert done.returncode == 0, done.stderr
    weights = load_bundle(f"{tmp_path / 'fine' / 'run'}@latest").model.state_dict()
    shares = weights["encoder.blend.shares"]
    assert shares.shape == (3,)
    assert float(shares.abs().max()) > 0  # they were learned
