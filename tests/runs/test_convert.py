"""Checkpoints in and out by the command line: what is trained here is what transformers loads."""

from __future__ import annotations

import json
import os
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer as Engine
from tokenizers import models
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from regard.core.model import Model
from regard.data.corpora.english_french import pairs
from regard.data.tokenizer import Tokenizer
from regard.decode.pipeline import Pipeline
from regard.decode.search import Search
from regard.decode.translator import Translator, limit
from regard.errors import RegardError
from regard.hub.load import import_folder
from regard.hub.targets.ctranslate2 import convert
from regard.models import preset
from regard.runs.load import load
from tests.cli.test_cli import regard
from tests.parity.test_hub import VOCABULARY, made
from tests.train.small import document

TINY: dict[str, Any] = {"kind": "marian-base", "width": 32, "depth": 2, "heads": 4, "hidden": 48, "dropout": 0.0}
SENTENCES = ["The cat sleeps.", "I like the green cat.", "She doesn't see the dog, does she?", "a b c"]


@pytest.fixture(scope="module", params=["marian-base", "transformer-tiny"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that was trained for a few steps, so that its sentences differ: norms last, and first."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("exchange")
    file = folder / "run.yaml"
    file.write_text(json.dumps({**document(folder / "run").tree, "model": {**TINY, "kind": request.param}}))
    done = regard("train", str(file), "train.steps=40", "train.evaluate=0", "train.save=40")
    assert done.returncode == 0, done.stderr
    return folder / "run"


@pytest.fixture(scope="module")
def sent(run: Path) -> Path:
    folder = run.parent / "hf"
    done = regard("export", str(run), str(folder), "--json")
    assert done.returncode == 0, done.stderr
    assert {Path(name).name for name in json.loads(done.stdout)["files"]} == {
        *("config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
    }
    return folder


def test_transformers_translates_alike_with_auto_classes_alone(run: Path, sent: Path) -> None:
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(sent).eval(), AutoTokenizer.from_pretrained(sent)
    ours = load(str(run))
    for sentence in SENTENCES:
        mine = ours.translate(sentence, beam=1)
        words = tokenizer(sentence, return_tensors="pt")
        assert tokenizer.convert_ids_to_tokens(words["input_ids"][0]) == mine.source_tokens
        wanted = [piece for piece in mine.tokens if piece != "[EOS]"]
        most = len(wanted) + 1
        found = model.generate(**words, num_beams=1, do_sample=False, max_new_tokens=most, max_length=None)
        pieces = tokenizer.convert_ids_to_tokens(found[0])[1:]
        assert pieces[: len(wanted)] == wanted
        if len(mine.tokens) < limit(len(mine.source_tokens) - 1):  # it came to an end by itself
            assert pieces[len(wanted)] == "[EOS]"
            assert str(tokenizer.decode(found[0], skip_special_tokens=True)).strip() == mine.text


def test_the_folder_translates_here_too(run: Path, sent: Path) -> None:
    before, after = load(str(run)), load(str(sent))
    # a folder of others scores as transformers does, unless it is told otherwise
    how = {"beam": 3, "length": "gnmt", "alpha": 0.6, "until": "sure", "max_tokens": 30}
    for sentence in SENTENCES:
        one, other = (side.translate(sentence, **how) for side in (before, after))
        assert (one.text, one.tokens, one.source_tokens) == (other.text, other.tokens, other.source_tokens)
        if one.cut is None:  # the end at the limit is free in transformers
            assert one.score == pytest.approx(other.score, abs=1e-4)


def test_a_folder_is_kept_as_a_run_and_goes_out_as_it_came_in(run: Path, sent: Path, tmp_path: Path) -> None:
    done = regard("import", str(sent), "--out", str(tmp_path / "kept"), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["run"] == str(tmp_path / "kept")
    kept, before = load(str(tmp_path / "kept")), load(str(run))
    how = {"beam": 1, "max_tokens": 30}
    texts = [[side.translate(text, **how).text for text in SENTENCES] for side in (kept, before)]
    assert texts[0] == texts[1]
    done = regard("export", str(tmp_path / "kept"), str(tmp_path / "again"))
    assert done.returncode == 0, done.stderr
    one, other = (load_file(folder / "model.safetensors") for folder in (sent, tmp_path / "again"))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert regard("import", str(sent), "--out", str(tmp_path / "kept")).returncode != 0


def test_import_checks_the_export_against_transformers(sent: Path) -> None:
    done = regard("import", str(sent), "--check", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["type"] in ("marian", "pegasus")
    assert 0 <= found["largest_difference"] <= 1e-4
    assert "difference" in regard("import", str(sent), "--check").stdout


def test_without_transformers_the_check_says_so(sent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert regard("import", str(sent)).returncode == 0
    done = regard("import", str(sent), "--check")
    assert done.returncode != 0
    assert "needs the package transformers" in done.stderr
    assert "pip install 'regard[hub]'" in done.stderr


def test_a_folder_that_is_there_is_left_alone(run: Path, sent: Path) -> None:
    before = (sent / "config.json").read_bytes()
    done = regard("export", str(run), str(sent))
    assert done.returncode != 0
    assert "is there already" in done.stderr
    assert (sent / "config.json").read_bytes() == before
    assert not list(sent.parent.glob("*.tmp-*"))


@pytest.mark.parametrize("to", ["hf", "ctranslate2"])
def test_a_strangers_folder_where_we_write_aside_is_left_alone(run: Path, to: str, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    strange = tmp_path / f"out.tmp-{os.getpid()}"
    strange.mkdir()
    (strange / "mine.txt").write_text("mine")
    done = regard("export", str(run), str(tmp_path / "out"), "--to", to)
    assert done.returncode == 4
    assert (strange / "mine.txt").read_text() == "mine"


def test_a_model_without_a_place_in_that_layout_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    changed = {key: TINY[key] for key in ("width", "depth", "dropout")}
    file.write_text(json.dumps({**document(tmp_path / "run").tree, "model": {"kind": "seq2seq", **changed}}))
    assert regard("train", str(file), "train.steps=1", "train.evaluate=0").returncode == 0
    done = regard("export", str(tmp_path / "run"), str(tmp_path / "hf"))
    assert done.returncode != 0
    assert "no Hugging Face layout" in done.stderr and "try: --to regard" in done.stderr
    assert not (tmp_path / "hf").exists()


def test_load_gives_a_translator_or_the_model_as_it_is(sent: Path, tmp_path: Path) -> None:
    import regard as house

    assert isinstance(house.load(str(sent)), Translator)
    made("gpt2", tmp_path / "gpt2")
    found = house.load(str(tmp_path / "gpt2"))
    assert type(found) is Pipeline
    assert found.tokenizers is None
    assert isinstance(found.model, Model)
    assert found.model(torch.zeros(1, 3, dtype=torch.long)).shape == (1, 3, VOCABULARY)
    done = regard("translate", str(tmp_path / "gpt2"))
    assert done.returncode != 0
    assert "regard.load(NOUN).model" in done.stderr


def test_import_says_what_a_folder_lacks(tmp_path: Path) -> None:
    done = regard("import", str(tmp_path))
    assert done.returncode == 4
    assert "config.json" in done.stderr


def trained(folder: Path, **model: Any) -> Path:
    """A run that has learned enough for its sentences to differ."""
    file = folder / "run.yaml"
    file.write_text(json.dumps({**document(folder / "run").tree, "model": {**TINY, **model}}))
    done = regard("train", str(file), "train.steps=80", "train.evaluate=0", "train.save=80")
    assert done.returncode == 0, done.stderr
    return folder / "run"


def given(folder: Path, tokenizer: Engine, **keys: Any) -> None:
    """Put a tokenizer into a folder, and the numbers of its special tokens into config.json."""
    config = json.loads((folder / "config.json").read_text())
    special = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    (folder / "config.json").write_text(json.dumps(config | special | keys))
    tokenizer.save(str(folder / "tokenizer.json"))


@pytest.mark.parametrize("kind", ["marian-base", "transformer-tiny", "rotary"])
def test_ctranslate2_translates_alike(tmp_path: Path, kind: str) -> None:
    engine = pytest.importorskip("ctranslate2")
    rotary = {
        "kind": "transformer-tiny",
        "position": None,
        "mix": {"kind": "attention", "heads": 4, "position": "rotary"},
    }
    run = trained(tmp_path, **(rotary if kind == "rotary" else {"kind": kind}))
    done = regard("export", str(run), str(tmp_path / "ct2"), "--to", "ctranslate2")
    assert done.returncode == 0, done.stderr
    ours, theirs = load(str(run)), engine.Translator(str(tmp_path / "ct2"), intra_threads=1)
    sentences = [pair.source for pair in islice(pairs("test"), 200)]
    mine = [best[0] for best in ours.translate_all(sentences, Search(beam=1, max_tokens=30))]
    pieces = [item.source_tokens for item in mine]
    found = theirs.translate_batch(pieces, beam_size=1, max_decoding_length=30, min_decoding_length=0)
    assert len(sentences) == 200
    assert len({item.text for item in mine}) > 5
    for item, other in zip(mine, found, strict=True):
        assert [piece for piece in item.tokens if piece != "[EOS]"] == other.hypotheses[0]


@pytest.mark.parametrize("case", ["gpt2", "llama", "llama tied, one key head"])
def test_ctranslate2_generates_alike(tmp_path: Path, case: str) -> None:
    engine = pytest.importorskip("ctranslate2")
    made(case, tmp_path / "theirs")
    words = {f"w{n}": n for n in range(VOCABULARY)}
    given(tmp_path / "theirs", Engine(models.WordLevel(words, unk_token="w0")))
    assert regard("import", str(tmp_path / "theirs"), "--out", str(tmp_path / "kept")).returncode == 0
    done = regard("export", str(tmp_path / "kept"), "--to", "ctranslate2", str(tmp_path / "ct2"))
    assert done.returncode == 0, done.stderr
    model = import_folder(tmp_path / "theirs").model
    prompts = torch.randint(3, VOCABULARY, (200, 6), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        state = model.start(200)
        scores = model.step(prompts, state)
        rows = [scores.argmax(-1)]
        while len(rows) < 16:
            rows.append(model.step(rows[-1], state).argmax(-1))
    expected = torch.stack(rows, 1).tolist()
    generator = engine.Generator(str(tmp_path / "ct2"), intra_threads=1)
    found = generator.generate_batch(
        [[f"w{n}" for n in prompt] for prompt in prompts.tolist()],
        max_length=16,
        min_length=16,
        sampling_topk=1,
        include_prompt_in_result=False,
        end_token=[],
    )
    assert [result.sequences_ids[0] for result in found] == expected


def test_ctranslate2_gets_a_name_for_each_row_of_a_table_that_is_larger_than_the_tokenizer(tmp_path: Path) -> None:
    engine = pytest.importorskip("ctranslate2")
    made("gpt2", tmp_path / "theirs")
    words = {f"w{n}": n for n in range(VOCABULARY - 6)} | {"<unused 0>": VOCABULARY - 6}
    given(tmp_path / "theirs", Engine(models.WordLevel(words, unk_token="w0")))
    done = regard("export", str(tmp_path / "theirs"), "--to", "ctranslate2", str(tmp_path / "ct2"))
    assert done.returncode == 0, done.stderr
    generator = engine.Generator(str(tmp_path / "ct2"), intra_threads=1)
    (found,) = generator.generate_batch(
        [["w4", "w5"]], max_length=6, min_length=6, sampling_topk=1, end_token=[], include_prompt_in_result=False
    )
    model, row = import_folder(tmp_path / "theirs").model, [4, 5]
    with torch.no_grad():
        while len(row) < 8:
            row.append(int(model(torch.tensor([row]))[0, -1].argmax()))
    assert found.sequences_ids[0] == row[-6:]


def test_a_piece_that_ctranslate2_would_find_no_row_for_is_refused_by_name(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    made("gpt2", tmp_path / "theirs")
    words = {f"w{n}": n for n in range(VOCABULARY + 5)}
    tokenizer = Tokenizer(Engine(models.WordLevel(words, unk_token="w0")))
    with pytest.raises(RegardError, match=f"'w97' is number 97, and the model's table has {VOCABULARY} rows"):
        convert(import_folder(tmp_path / "theirs").model, tokenizer, tokenizer, tmp_path / "ct2", {})
    assert not (tmp_path / "ct2").exists()


def test_what_ctranslate2_lacks_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    run = trained(tmp_path, kind="transformer-tiny", mix="mamba")
    done = regard("export", str(run), str(tmp_path / "ct2"), "--to", "ctranslate2")
    assert done.returncode != 0
    assert "here are mamba and feedforward" in done.stderr
    assert not (tmp_path / "ct2").exists()


SIZES = {"width": 32, "depth": 2, "heads": 2, "vocabulary": 60}


@pytest.mark.parametrize("kind", ["gpt2", "bert-tiny", "transformer-tiny"])
def test_a_model_in_hand_is_saved_and_loaded_to_the_bit(kind: str, tmp_path: Path) -> None:
    model = preset(kind, **SIZES).build()
    again = Model.load(model.save(tmp_path / "mine"))
    assert again.spec == model.spec and again.spec.family == model.spec.family
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name


def test_a_saved_model_takes_no_place_that_is_taken(tmp_path: Path) -> None:
    model = preset("gpt2", **SIZES).build()
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RegardError, match="is there already"):
        model.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_model_in_hand_goes_out_and_transformers_agrees(tmp_path: Path) -> None:
    import transformers

    model = preset("gpt2", **SIZES).build().eval()
    model.export(tmp_path / "theirs")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "theirs").eval()
    tokens = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        torch.testing.assert_close(theirs(tokens).logits, model(tokens), rtol=1e-4, atol=1e-5)


def test_a_saved_model_still_goes_out(tmp_path: Path) -> None:
    model = Model.load(preset("gpt2", **SIZES).build().save(tmp_path / "mine"))
    assert [file.name for file in model.export(tmp_path / "theirs")] == ["config.json", "model.safetensors"]


def test_a_model_of_no_family_is_refused_by_name(tmp_path: Path) -> None:
    spec = preset("gpt2", **SIZES)
    changed = spec.replace(decoder=spec.decoder.replace(depth=1))  # type: ignore[union-attr]
    with pytest.raises(RegardError, match="no family"):
        changed.build().export(tmp_path / "theirs")
    assert not (tmp_path / "theirs").exists()


def test_loading_insists_on_a_kind(tmp_path: Path) -> None:
    folder = preset("gpt2", **SIZES).build().save(tmp_path / "mine")
    with pytest.raises(RegardError, match="no tokenizer"):
        load(folder, kind=Translator)
