"""What generation_config.json says is what comes out: token for token as transformers generates by itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from tokenizers import Tokenizer as Engine
from tokenizers import models, pre_tokenizers, processors

from regard.data.lexicon import Lexicon
from regard.errors import CheckpointError, DataError, RegardError, SpecError
from regard.hub.load import import_folder
from regard.runs.convert import keep
from regard.runs.load import load
from tests.cli.test_cli import regard
from tests.parity.test_hub import LLAMA, MARIAN

WORDS = ["<pad>", "</s>", "<unk>", "<stop>", *(f"w{n}" for n in range(26))]
NUMBERS = {word: n for n, word in enumerate(WORDS)}
TEXTS = ["w1 w2 w3", "w9", "w5 w4 w3 w2 w1 w7", "w20 w20 w11"]


def saved(folder: Path, kind: str, **generation: Any) -> Any:
    """A random model with a tokenizer, and with settings for generating."""
    torch.manual_seed(5)
    sizes = {"vocab_size": len(WORDS), "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 0}
    if kind == "marian":
        config = hf.MarianConfig(**{**MARIAN, **sizes, "decoder_vocab_size": len(WORDS)})
        model = hf.MarianMTModel(config).eval()
    else:
        model = hf.LlamaForCausalLM(hf.LlamaConfig(**{**LLAMA, **sizes})).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "embed_positions" not in name:
                weight.add_(torch.randn_like(weight) * 0.15)
    model.generation_config = hf.GenerationConfig(**{**sizes, "decoder_start_token_id": 0, **generation})
    model.save_pretrained(folder)
    # as a file may have them: transformers itself refuses to save some
    (folder / "generation_config.json").write_text(json.dumps(model.generation_config.to_diff_dict() | generation))
    engine = Engine(models.WordLevel(NUMBERS, unk_token="<unk>"))
    engine.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    engine.add_special_tokens(WORDS[:4])
    engine.post_processor = processors.TemplateProcessing(
        single="$A </s>" if kind == "marian" else "$A", pair="$A $B", special_tokens=[("</s>", 1)]
    )
    engine.save(str(folder / "tokenizer.json"))
    return model


def theirs(model: Any, text: str, ends: tuple[int, ...] = (1,)) -> list[str]:
    """What transformers writes, up to its end."""
    words = [NUMBERS[word] for word in text.split()]
    read = torch.tensor([[*words, 1] if model.config.is_encoder_decoder else words])
    found = model.generate(input_ids=read, attention_mask=torch.ones_like(read))[0].tolist()
    written = found[1:] if model.config.is_encoder_decoder else found[len(words) :]
    stop = next((place for place, token in enumerate(written) if token in ends), len(written))
    return [WORDS[token] for token in written[:stop]]


SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {"max_length": 12},
    "several ends": {"eos_token_id": [1, 3, 7], "max_length": 14},
    "forced begin": {"forced_bos_token_id": 9, "max_length": 12},
    "forced begin, beam": {"forced_bos_token_id": 9, "num_beams": 3, "max_length": 12},
    "forced end": {"forced_eos_token_id": 1, "max_length": 9},
    "forced end, beam": {"forced_eos_token_id": 1, "max_length": 9, "num_beams": 3},
    "suppressed": {"suppress_tokens": list(range(4, 16)), "max_length": 12},
    "not first": {"begin_suppress_tokens": list(range(1, 20)), "max_length": 12},
    "not first after a forced one": {
        "begin_suppress_tokens": list(range(1, 20)),
        "forced_bos_token_id": 5,
        "max_length": 12,
    },
    "bad words": {"bad_words_ids": [[0], *([n] for n in range(8, 18)), [20, 21], [1]], "max_length": 12},
    "no repeats": {"no_repeat_ngram_size": 2, "max_length": 20},
    "repetition": {"repetition_penalty": 1.7, "max_length": 16},
    "repetition, beam": {"repetition_penalty": 1.7, "num_beams": 3, "max_length": 12},
    "at least": {"min_length": 6, "max_length": 12, "suppress_tokens": [29]},
    "at least new": {"min_new_tokens": 5, "max_new_tokens": 9},
    "beam": {"num_beams": 4, "max_length": 12},
    "beam, short ones": {"num_beams": 4, "length_penalty": 0.4, "max_length": 12},
    "beam, long ones": {"num_beams": 4, "length_penalty": 2.0, "max_length": 12},
    "beam, sums": {"num_beams": 4, "length_penalty": 0.0, "max_length": 12},
    "beam, early": {"num_beams": 4, "early_stopping": True, "max_length": 12},
    "beam, late": {"num_beams": 4, "early_stopping": "never", "max_length": 12},
    "beam, several ends": {"num_beams": 3, "eos_token_id": [1, 3, 7, 12], "max_length": 12},
    "all of opus": {
        "bad_words_ids": [[0]],
        "forced_eos_token_id": 1,
        "num_beams": 4,
        "max_length": 20,
        "no_repeat_ngram_size": 3,
    },
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_translator_of_others_writes_as_transformers_does(tmp_path: Path, name: str) -> None:
    model = saved(tmp_path / "model", "marian", **SETTINGS[name])
    keep(import_folder(tmp_path / "model"), tmp_path / "kept")
    ends = SETTINGS[name].get("eos_token_id", [1])
    expected = [theirs(model, text, tuple(ends)) for text in TEXTS]
    for noun in ("model", "kept"):
        pipeline = load(str(tmp_path / noun))
        drop = {WORDS[end] for end in ends}
        beam = SETTINGS[name].get("num_beams", 1)  # theirs where nothing is said; ours is five
        found = [[piece for piece in pipeline.translate(text, beam=beam).tokens if piece not in drop] for text in TEXTS]
        assert found == expected


ALONE = ("greedy", "several ends", "suppressed", "not first", "bad words", "no repeats", "repetition", "at least new")


@pytest.mark.parametrize("name", ALONE)
def test_a_writer_of_others_writes_as_transformers_does(tmp_path: Path, name: str) -> None:
    model = saved(tmp_path / "model", "llama", **SETTINGS[name], do_sample=False)
    keep(import_folder(tmp_path / "model"), tmp_path / "kept")
    ends = SETTINGS[name].get("eos_token_id", [1])
    expected = [theirs(model, text, tuple(ends)) for text in TEXTS]
    for noun in ("model", "kept"):
        pipeline = load(str(tmp_path / noun))
        drop = {WORDS[end] for end in ends}
        assert [[piece for piece in pipeline.write(text)[0].tokens if piece not in drop] for text in TEXTS] == expected


def test_what_a_user_says_wins_and_what_nobody_says_is_the_models(tmp_path: Path) -> None:
    said = {"num_beams": 3, "length_penalty": 0.5, "max_length": 11}
    saved(tmp_path / "one", "marian", **said)
    pipeline = load(str(tmp_path / "one"))
    assert (pipeline.search.beam, pipeline.search.length, pipeline.search.alpha) == (3, "power", 0.5)
    assert pipeline.settings({}).beam == 3
    assert pipeline.settings({"best": 4}).beam == 4
    assert pipeline.settings({"beam": 1, "alpha": 0.9}).alpha == 0.9
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    plain = regard("translate", str(tmp_path / "one"), "--file", str(tmp_path / "in.txt"))
    assert plain.returncode == 0, plain.stderr
    assert plain.stdout.splitlines() == [pipeline.translate(text).text for text in TEXTS]
    greedy = regard("translate", str(tmp_path / "one"), "--file", str(tmp_path / "in.txt"), "--beam", "1")
    assert greedy.stdout.splitlines() == [pipeline.translate(text, beam=1).text for text in TEXTS]


def test_a_limit_that_a_user_says_wins_over_both_of_the_models(tmp_path: Path) -> None:
    saved(tmp_path / "llama", "llama", do_sample=False, min_new_tokens=8, max_new_tokens=12)
    writer = load(str(tmp_path / "llama"))
    assert len(writer.write("w1 w2")[0].tokens) >= 8
    assert len(writer.write("w1 w2", max_tokens=5)[0].tokens) == 5
    assert len(writer.write("w1 w2", min_tokens=15)[0].tokens) >= 15
    assert writer.begin("w1 w2", writer.search.replace(min_tokens=0), [], 1, False).settings.min_tokens == 0
    said = regard("generate", str(tmp_path / "llama"), "--prompt", "w1", "--json", "--tokens", "5")
    assert len(json.loads(said.stdout)["tokens"]) == 5
    saved(tmp_path / "marian", "marian", min_length=9, max_length=13)
    pipeline = load(str(tmp_path / "marian"))
    assert (pipeline.search.min_tokens, pipeline.search.max_tokens) == (8, 12)
    assert pipeline.settings({"max_tokens": 5}).min_tokens == 5
    assert pipeline.settings({"min_tokens": 20}).max_tokens == 20
    assert pipeline.settings({"min_tokens": 0}).min_tokens == 0
    assert len(pipeline.translate(TEXTS[0], max_tokens=3).tokens) <= 4
    with pytest.raises(SpecError, match="min_tokens"):
        pipeline.settings({"min_tokens": 9, "max_tokens": 3})


@pytest.mark.parametrize("kind", ["marian", "llama"])
def test_a_maximum_in_the_file_counts_before_a_minimum_as_in_transformers(tmp_path: Path, kind: str) -> None:
    model = saved(tmp_path, kind, do_sample=False)
    (tmp_path / "generation_config.json").write_text(
        json.dumps({"eos_token_id": 1, "do_sample": False, "min_new_tokens": 9, "max_new_tokens": 4})
    )
    model.generation_config.update(max_new_tokens=4, suppress_tokens=[1])
    pipeline = load(str(tmp_path))
    for text in TEXTS:
        found = pipeline.translate(text) if kind == "marian" else pipeline.write(text)[0]
        assert found.tokens[:4] == theirs(model, text)


def test_sampling_is_as_the_model_says_unless_the_user_does(tmp_path: Path) -> None:
    saved(tmp_path, "llama", do_sample=True, temperature=0.6, top_p=0.9, max_new_tokens=7)
    writer = load(str(tmp_path))
    search = writer.search
    assert (search.sample, search.temperature, search.top_p, search.top_k) == (True, 0.6, 0.9, 50)
    said = regard("generate", str(tmp_path), "--prompt", "w1", "--json", "--set", "seed=3")
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout)["text"] == writer.write("w1", seed=3)[0].text
    greedy = regard("generate", str(tmp_path), "--prompt", "w1", "--json", "--temperature", "0", "--tokens", "3")
    assert len(json.loads(greedy.stdout)["tokens"]) == 3
    wanted = writer.write("w1", sample=False, temperature=1.0, max_tokens=3)[0].tokens
    assert [token["token"] for token in json.loads(greedy.stdout)["tokens"]] == wanted


def test_an_older_config_says_it_where_there_is_no_other_file(tmp_path: Path) -> None:
    saved(tmp_path, "marian")
    (tmp_path / "generation_config.json").unlink()
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"num_beams": 6, "bad_words_ids": [[0]]}))
    pipeline = load(str(tmp_path))
    assert pipeline.search.beam == 6
    assert pipeline.generation.banned == ((0,),)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("guidance_scale", 1.5),
        ("encoder_no_repeat_ngram_size", 3),
        ("num_beam_groups", 2),
        ("sequence_bias", [[[3], 1.0]]),
        ("exponential_decay_length_penalty", [5, 1.1]),
        ("length_penalty", -1.0),
        ("forced_eos_token_id", 9),
        ("bad_words_ids", "w1"),
        ("suppress_tokens", [-1]),
        ("max_length", "long"),
        ("max_new_tokens", 0),
        ("temperature", 0.0),
        ("top_p", 0),
        ("min_p", 1.5),
        ("repetition_penalty", 0.0),
        ("num_beams", 0),
        ("top_k", 2.5),
    ],
)
def test_what_cannot_be_computed_is_refused_by_name(tmp_path: Path, key: str, value: Any) -> None:
    saved(tmp_path, "marian")
    (tmp_path / "generation_config.json").write_text(json.dumps({key: value, "eos_token_id": 1}))
    with pytest.raises(RegardError, match=f"generation_config.json: {key}"):
        load(str(tmp_path))


@pytest.mark.parametrize("kind", ["marian", "llama"])
def test_drawn_beams_are_refused_by_name(tmp_path: Path, kind: str) -> None:
    saved(tmp_path, kind)
    told = {"eos_token_id": 1, "do_sample": True, "num_beams": 4}
    (tmp_path / "generation_config.json").write_text(json.dumps(told))
    with pytest.raises(CheckpointError, match=r"generation_config.json: num_beams is 4, and with do_sample"):
        load(str(tmp_path))
    (tmp_path / "generation_config.json").write_text(json.dumps(told | {"num_beams": 1}))
    assert load(str(tmp_path)).search.sample


def test_a_temperature_of_zero_beside_no_sampling_says_nothing(tmp_path: Path) -> None:
    saved(tmp_path, "llama")
    (tmp_path / "generation_config.json").write_text(json.dumps({"do_sample": False, "temperature": 0.0}))
    assert not load(str(tmp_path)).search.sample


@pytest.mark.parametrize("kind", ["marian", "llama"])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("suppress_tokens", [4, 99]),
        ("begin_suppress_tokens", [30]),
        ("bad_words_ids", [[5], [6, 99]]),
        ("forced_bos_token_id", 30),
        ("forced_eos_token_id", 99),
    ],
)
def test_tokens_that_the_model_does_not_have_are_refused_by_name(
    tmp_path: Path, kind: str, key: str, value: Any
) -> None:
    saved(tmp_path, kind)
    (tmp_path / "generation_config.json").write_text(json.dumps({key: value, "eos_token_id": 1}))
    with pytest.raises(CheckpointError, match=f"generation_config.json: {key} is .*, and (30|99) isn't one of .* 30 "):
        load(str(tmp_path))


@pytest.mark.parametrize("told", [99, [99], [99, 3, 1], [3, 99, 1]])
def test_an_end_that_nothing_reaches_is_left_out_and_the_kept_model_loads(tmp_path: Path, told: Any) -> None:
    saved(tmp_path / "model", "llama")
    (tmp_path / "model" / "generation_config.json").write_text(json.dumps({"eos_token_id": told}))
    keep(import_folder(tmp_path / "model"), tmp_path / "kept")
    for noun in ("model", "kept"):
        assert load(str(tmp_path / noun)).tokenizer.ends == ((3, 1) if told not in (99, [99]) else (1,))


@pytest.mark.parametrize(("key", "name"), [("eos_token_id", "end"), ("bos_token_id", "begin")])
def test_a_config_whose_tokens_nothing_reaches_is_refused_when_it_comes_in(tmp_path: Path, key: str, name: str) -> None:
    saved(tmp_path, "llama")
    (tmp_path / "generation_config.json").unlink()
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {key: 99}))
    with pytest.raises(DataError, match=f"config.json: {name}: 99 isn't a token of 30"):
        import_folder(tmp_path)


def test_every_end_is_kept_with_a_lexicon_and_older_ones_load(tmp_path: Path) -> None:
    saved(tmp_path / "model", "llama", eos_token_id=[3, 1])
    keep(import_folder(tmp_path / "model"), tmp_path / "kept")
    assert load(str(tmp_path / "model")).tokenizer.ends == (3, 1)
    assert load(str(tmp_path / "kept")).tokenizer.ends == (3, 1)
    words = import_folder(tmp_path / "model").tokenizers
    assert words is not None
    files = Lexicon(words, foreign=True).files()
    facts = json.loads(files["lexicon.json"])
    del facts["numbers"][0]["further"]
    older = files | {"lexicon.json": json.dumps(facts).encode()}
    assert Lexicon.read(older.get, "older").tokenizer.ends == (3,)
    facts["numbers"][0]["further"] = [1000]
    damaged = files | {"lexicon.json": json.dumps(facts).encode()}
    with pytest.raises(RegardError, match="further"):
        Lexicon.read(damaged.get, "damaged")
