"""Packed copies in this house's own format: they answer, bit by bit, as what they were made from does
in that precision; they are small; and what is wrong with one is told by name.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from tokenizers import Tokenizer as Engine
from tokenizers import models, pre_tokenizers
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

import regard
from regard.core.model import Model
from regard.core.packed import PackedDense, PackedLookup, exchange, find_precision, list_packable, pack_part
from regard.errors import CheckpointError, RegardError, RegardWarning, SpecError
from regard.models import preset, presets
from regard.runs.load import load_bundle
from regard.train.checkpoint import Store, inspect
from tests.cli.test_cli import Done
from tests.cli.test_cli import regard as run_here
from tests.models.test_presets import tiny

WORDS = 150


def succeed(*words: str) -> Done:
    done = run_here(*words)
    assert done.returncode == 0, done.stderr
    return done


def train(folder: Path, **tree: Any) -> str:
    """A run of a few steps: its answers are poor, and differ from text to text."""
    common = {"train": {"steps": 4, "evaluate": 0, "save": 4}, "batches": {"tokens": 400}, "device": "cpu"}
    (folder / "run.yaml").write_text(json.dumps({**common, **tree, "out": str(folder / "run")}))
    regard.fit(folder / "run.yaml")
    return str(folder / "run")


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> str:
    return train(
        tmp_path_factory.mktemp("translator"),
        task="translation",
        corpus={"kind": "copy", "sizes": [1, 6], "train": 400, "validation": 20, "test": 20},
        tokenizer={"pieces": "given"},
        model={"kind": "transformer-tiny", "width": 128, "depth": 1, "heads": 4},
    )


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Its table of bytes is looked up and scores."""
    return train(
        tmp_path_factory.mktemp("writer"),
        task={"kind": "language", "context": 32},
        corpus={"kind": "en-fr", "train": 60, "validation": 8, "test": 8, "level": "first"},
        tokenizer={"pieces": "byte"},
        model={"kind": "gpt2", "width": 128, "depth": 2, "heads": 4, "tied": True},
    )


@pytest.fixture(scope="module", params=["float32", "bfloat16"])
def theirs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder that transformers wrote; it keeps GPT-2's matrices the other way round."""
    folder = tmp_path_factory.mktemp("theirs") / "gpt2"
    special: dict[str, Any] = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=WORDS, n_embd=144, n_layer=2, n_head=4, n_positions=64, **special)
    GPT2LMHeadModel(config).to(getattr(torch, request.param)).save_pretrained(folder)
    tokenizer = Engine(models.WordLevel({f"w{n}": n for n in range(WORDS)}, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    return str(folder)


@pytest.fixture
def copy(translator: str, tmp_path: Path) -> Path:
    succeed("export", translator, str(tmp_path / "copy"), "--precision", "int8")
    return tmp_path / "copy"


def find_model(noun: str | Path, precision: str | None = None) -> Model:
    found = regard.load(noun, "cpu", precision=precision).model
    assert isinstance(found, Model)
    return found


def draw_rows(model: Model) -> Tensor:
    count = model.spec.main.embedding.token_count
    return torch.randint(0, count or 1, (3, 9), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def score(model: Model) -> Tensor:
    rows = draw_rows(model)
    return model(rows, model.encode(rows))


def weigh(folder: Path) -> int:
    return (folder / "checkpoints" / "step-0" / "model.safetensors").stat().st_size


@pytest.mark.parametrize("precision", ["fp16", "bf16", "int8", "int4"])
def test_a_copy_scores_as_its_run_does_to_the_bit(translator: str, precision: str, tmp_path: Path) -> None:
    succeed("export", translator, str(tmp_path / "copy"), "--precision", precision)
    before, after = find_model(translator, precision), find_model(tmp_path / "copy")
    assert find_precision(after) == precision
    assert torch.equal(score(before), score(after))
    assert not torch.equal(score(find_model(translator)), score(after))
    assert after.parameter_count() == before.parameter_count()


def test_verbs_answer_from_a_copy_as_from_its_run(translator: str, copy: Path) -> None:
    texts = ["a b c", "j i h", "b"]
    how = ["--json", "--beam", "3"]
    before = succeed("translate", translator, *texts, *how, "--precision", "int8")
    after = succeed("translate", str(copy), *texts, *how)
    assert after.stdout == before.stdout and '"score"' in after.stdout
    assert succeed("translate", str(copy), *texts, *how, "--precision", "int8").stdout == before.stdout


def test_a_copy_is_measured_on_what_it_is_given(translator: str, copy: Path, tmp_path: Path) -> None:
    done = run_here("eval", str(copy))
    assert done.returncode == 3 and "there is a model in it, and nothing to test on" in done.stderr
    (tmp_path / "test.tsv").write_text("a b c\ta b c\nj i\tj i\nb\tb\n")
    data = ["--data", str(tmp_path / "test.tsv"), "--json"]
    before = json.loads(succeed("eval", translator, *data, "--precision", "int8").stdout)
    after = json.loads(succeed("eval", str(copy), *data).stdout)
    assert after["loss"] == before["loss"] and after["chrf"] == before["chrf"]


def test_a_tied_table_is_kept_once_and_writes_the_same(writer: str, tmp_path: Path) -> None:
    out = tmp_path / "copy"
    succeed("export", writer, str(out), "--precision", "int8")
    before, after = find_model(writer, "int8"), find_model(out)
    assert torch.equal(score(before), score(after))
    assert after.head is not None and after.decoder is not None
    assert after.head.words is after.decoder.embedding.tokens and isinstance(after.head.words, PackedLookup)
    rows = after.head.words.num_embeddings
    with safe_open(out / "checkpoints" / "step-0" / "model.safetensors", "pt") as file:
        tables = [name for name in file.keys() if file.get_slice(name).get_shape() == [rows, 128]]  # noqa: SIM118
        assert len(tables) == 1 and file.get_slice(tables[0]).get_dtype() == "I8"
    how = ["--tokens", "12", "--seed", "3", "--json"]
    told = [
        succeed("generate", *words, *how).stdout
        for words in ([writer, "the cat", "--precision", "int8"], [str(out), "the cat"])
    ]
    assert told[0] == told[1]


def test_a_folder_of_others_is_packed_too(theirs: str, tmp_path: Path) -> None:
    out = tmp_path / "copy"
    succeed("export", theirs, str(out), "--precision", "int8")
    before, after = find_model(theirs, "int8"), find_model(out)
    assert torch.equal(score(before), score(after))
    # and the numbers are the folder's own, however it lays them out
    exact = score(find_model(theirs, "fp32").float())
    assert float((score(after) - exact).norm() / exact.norm()) < 0.05
    how = ["--tokens", "8", "--json"]
    told = [
        succeed("generate", *words, *how).stdout
        for words in ([theirs, "w5 w9", "--precision", "int8"], [str(out), "w5 w9"])
    ]
    assert told[0] == told[1]


def test_a_recurrent_cell_is_kept_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = preset("bilstm", width=64, depth=1, vocabulary=300).build().eval()
    model.save(tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr("regard.core.packed.LARGE", 0)  # so that a small one is packed
        before = find_model(tmp_path / "whole", "int8")
        before.save(tmp_path / "copy")
    after = find_model(tmp_path / "copy")  # the file says what is packed, and not the size
    assert torch.equal(score(before), score(after))
    held = json.loads((tmp_path / "copy" / "checkpoints" / "step-0" / "packed.json").read_text())
    gates = [name.rpartition(".")[2] for name in held["matrices"] if ".fused." in name]
    assert sorted(gates) == ["hh_l0", "hh_l0_reverse", "ih_l0", "ih_l0_reverse"]
    lost = next(name for name in held["matrices"] if name.endswith("hh_l0"))
    rewrite(tmp_path / "copy", lambda _, told: told["matrices"].pop(lost))
    with pytest.raises(CheckpointError, match=f"{lost}: shape None, and the model's is"):
        load_bundle(str(tmp_path / "copy"))


@pytest.mark.parametrize(("precision", "share"), [("fp16", 0.52), ("bf16", 0.52), ("int8", 0.28), ("int4", 0.18)])
def test_fewer_bits_take_less_room(translator: str, precision: str, share: float, tmp_path: Path) -> None:
    for name in ("fp32", precision):
        succeed("export", translator, str(tmp_path / name), "--precision", name)
    assert weigh(tmp_path / precision) < share * weigh(tmp_path / "fp32")


def test_a_copy_says_what_it_holds(translator: str, copy: Path) -> None:
    told = json.loads((copy / "model.json").read_text())
    assert told == {"parameters": find_model(translator).parameter_count(), "precision": "int8"}
    held = json.loads((copy / "checkpoints" / "step-0" / "packed.json").read_text())
    assert held["format_version"] == 2 and held["precision"] == "int8"
    packed = {name for name, part in find_model(copy).named_modules() if isinstance(part, PackedDense | PackedLookup)}
    assert held["matrices"].keys() == packed and packed
    row = json.loads(succeed("runs", str(copy.parent), "--json").stdout)
    assert (row["parameters"], row["state"], row["task"]) == (told["parameters"], "saved", "translation")
    assert "333,568" in succeed("show", str(copy)).stdout


def test_copies_of_the_first_format_are_read_and_written_again(tmp_path: Path) -> None:
    """What scores words was bf16 in them, as all else."""
    torch.manual_seed(0)
    model = preset("gpt2", width=128, depth=1, heads=4, vocabulary=200).build().eval()
    exchange(model, {part: pack_part(part, "bf16", alike=True) for part in list_packable(model)})
    for number, expected in enumerate((1, 1)):
        model.save(tmp_path / str(number))
        [listed] = (tmp_path / str(number)).rglob("packed.json")
        assert json.loads(listed.read_text())["format_version"] == expected
        again = find_model(tmp_path / str(number))
        assert torch.equal(score(again), score(model))
        model = again


def test_a_packed_model_in_hand_is_saved_and_loaded(translator: str, tmp_path: Path) -> None:
    model = find_model(translator, "int8")
    model.save(tmp_path / "saved")
    assert torch.equal(score(find_model(tmp_path / "saved")), score(model))
    whole = preset("gpt2", width=128, depth=1, heads=4, vocabulary=200).build().eval()
    before = score(whole)
    whole.export(tmp_path / "exported", precision="int8")
    assert torch.equal(score(whole), before)  # what was in hand isn't packed
    assert find_precision(find_model(tmp_path / "exported")) == "int8"


def test_a_copy_is_copied_as_it_is(copy: Path, tmp_path: Path) -> None:
    succeed("export", str(copy), str(tmp_path / "again"), "--to", "regard")
    assert torch.equal(score(find_model(tmp_path / "again")), score(find_model(copy)))


def test_whole_numbers_of_a_copy_are_told_to_be_rounded(copy: Path) -> None:
    packed = find_model(copy)
    with pytest.warns(RegardWarning, match="holds int8: fp32 computes with those numbers"):
        whole = find_model(copy, "fp32")
    assert find_precision(whole) == "fp32"
    parts = dict(whole.named_modules())
    for name, part in packed.named_modules():
        if isinstance(part, PackedDense | PackedLookup):
            assert torch.equal(parts[name].weight, part.matrix()), name
    assert torch.allclose(score(whole), score(packed), rtol=0.1, atol=0.1)


def test_a_copy_is_not_rounded_twice(copy: Path) -> None:
    with pytest.raises(SpecError, match=r"--precision int4: .* holds int8"):
        find_model(copy, "int4")
    assert find_precision(find_model(copy, "auto")) == "int8"


def test_nothing_is_trained_from_a_copy(copy: Path, translator: str, tmp_path: Path) -> None:
    tree = json.loads((Path(translator).parent / "run.yaml").read_text()) | {"out": str(tmp_path / "tuned")}
    (tmp_path / "tune.yaml").write_text(json.dumps({key: tree[key] for key in tree if key != "model"}))
    done = run_here("train", str(tmp_path / "tune.yaml"), f"start={copy}")
    assert done.returncode == 4
    assert "its weights are int8, rounded for use, and can't be trained" in done.stderr
    assert "the run that it was made from" in done.stderr


@pytest.mark.parametrize("to", ["hf", "ctranslate2", "onnx"])
def test_others_get_no_rounded_weights(copy: Path, translator: str, to: str, tmp_path: Path) -> None:
    done = run_here("export", str(copy), str(tmp_path / "out"), "--to", to)
    assert done.returncode == 4 and "can't be written for others" in done.stderr
    done = run_here("export", translator, str(tmp_path / "out"), "--to", to, "--precision", "int8")
    assert done.returncode == 2 and f"{to} has no place for packed weights" in done.stderr
    assert "--to regard" in done.stderr
    assert not (tmp_path / "out").exists()


def test_what_makes_no_sense_is_refused(translator: str, copy: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    done = run_here("export", translator, out, "--precision", "auto")
    assert done.returncode == 2 and "a copy is for any" in done.stderr
    done = run_here("export", translator, out, "--precision", "int9")
    assert done.returncode == 2 and "int9: unknown; known: auto, bf16" in done.stderr
    done = run_here("export", translator, out, "--precision", "int8", "--check")
    assert done.returncode == 1 and "transformers, which doesn't read regard" in done.stderr
    assert not Path(out).exists()
    before = (copy / "model.json").read_bytes()
    done = run_here("export", translator, str(copy), "--precision", "int4")
    assert done.returncode == 1 and "is there already" in done.stderr
    assert (copy / "model.json").read_bytes() == before


Change = Callable[[dict[str, Tensor], dict[str, Any]], Any]


def rewrite(copy: Path, change: Change) -> None:
    """The same copy with other tensors and another packed.json, and the digests of those."""
    old = inspect(copy / "checkpoints" / "step-0")
    tensors, held = old.tensors("model"), old.json("packed")
    change(tensors, held)
    data = {"spec": old.json("spec"), "state": old.json("state"), "packed": held}
    files = {name: old.read(name) for name in old.files if name.startswith(("tokenizer", "lexicon"))}
    Store(copy / "checkpoints").save(0, {"model": tensors}, data, files)


PART = "decoder.blocks.0.cross.inner.key"
PLAIN, SCALE = f"{PART}.product.plain", f"{PART}.product.scale"
DAMAGE: dict[str, tuple[Change, str]] = {
    "type": (lambda t, _: t.update({PLAIN: t[PLAIN].float()}), f"{PLAIN}: numbers of the type torch.float32, and not"),
    "sign": (lambda t, _: t.update({PLAIN: t[PLAIN].view(torch.uint8)}), f"{PLAIN}: numbers of the type torch.uint8"),
    "half": (lambda t, _: t.update({SCALE: t[SCALE].half()}), f"{SCALE}: numbers of the type torch.float16"),
    "lost": (lambda t, _: t.pop(SCALE), f"{SCALE}: missing"),
    "more": (lambda t, _: t.update({"head.other": t[SCALE].clone()}), "head.other: the model has no such weight"),
    "short": (
        lambda t, _: t.update({SCALE: t[SCALE][1:].clone()}),
        rf"{SCALE}: shape \(127,\), and the model's is \(128,\)",
    ),
    "turned": (lambda t, _: t.update({PLAIN: t[PLAIN][:, 1:].clone()}), f"{PLAIN}: shape"),
    "unlisted": (lambda _, held: held["matrices"].pop(PART), f"{PLAIN}: the model has no such weight"),
    "unknown": (lambda _, held: held["matrices"].update({"head.x": [1, 1]}), "head.x: the model has no such matrix"),
    "size": (
        lambda _, held: held["matrices"].update({PART: [128, 64]}),
        r"shape \(128, 64\), and the model's is \(128, 128\)",
    ),
    "list": (lambda _, held: held.update(matrices=["head"]), "matrices must be the outputs and inputs"),
    "bits": (lambda _, held: held.update(precision="int3"), "precision is 'int3', and must be one of fp16"),
    "other": (lambda _, held: held.update(precision="int4"), "numbers of the type|shape"),
    "newer": (lambda _, held: held.update(format_version=3), "format 3 is newer than this program"),
    "version": (lambda _, held: held.update(format_version="1"), "format_version is '1'"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_told_by_name(copy: Path, kind: str) -> None:
    change, told = DAMAGE[kind]
    rewrite(copy, change)
    with pytest.raises(CheckpointError, match=told):
        load_bundle(str(copy))


def test_a_copy_written_again_unchanged_is_whole(copy: Path) -> None:
    """So that what the others find is the damage, and not the writing."""
    before = score(find_model(copy))
    rewrite(copy, lambda tensors, held: None)
    assert torch.equal(score(find_model(copy)), before)


@pytest.mark.parametrize("name", ["model.safetensors", "packed.json", "spec.json"])
def test_a_changed_byte_is_noticed(copy: Path, name: str) -> None:
    path = copy / "checkpoints" / "step-0" / name
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(CheckpointError, match=f"{name}: damaged, its digest isn't the one"):
        load_bundle(str(copy))


def test_a_scale_that_is_no_number_is_told(copy: Path) -> None:
    """No writer of ours writes one, so the bytes are put there, and their digest into the manifest."""
    import hashlib

    folder = copy / "checkpoints" / "step-0"
    path = folder / "model.safetensors"
    content = bytearray(path.read_bytes())
    size = int.from_bytes(content[:8], "little")
    first, _ = json.loads(content[8 : 8 + size])[SCALE]["data_offsets"]
    content[8 + size + first : 8 + size + first + 4] = b"\x00\x00\x80\x7f"  # infinity
    path.write_bytes(bytes(content))
    manifest = json.loads((folder / "MANIFEST.json").read_text())
    manifest["files"][path.name][1] = hashlib.sha256(content).hexdigest()
    (folder / "MANIFEST.json").write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match=f"{SCALE}: holds numbers that aren't finite"):
        load_bundle(str(copy))


@pytest.mark.parametrize("name", [name for name, family in presets().items() if not family.layouts])
def test_what_no_layout_of_others_holds_goes_out_in_ours_and_comes_back(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = tiny(name).build().eval()
    with pytest.raises(RegardError, match="no Hugging Face layout") as refused:
        model.export(tmp_path / "theirs")
    assert refused.value.hint == "--to regard" and not (tmp_path / "theirs").exists()
    model.export(tmp_path / "ours", "regard")
    again = Model.load(tmp_path / "ours")
    assert again.spec == model.spec
    assert again.state_dict().keys() == model.state_dict().keys()
    assert all(torch.equal(again.state_dict()[key], tensor) for key, tensor in model.state_dict().items())
