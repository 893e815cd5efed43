"""What came in with a model goes out again, changed only where the model was; transformers is the judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers, processors
from tokenizers import Tokenizer as Engine
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

from regard.decode.writer import Writer
from regard.runs.load import load, load_as, load_bundle
from tests.cli.test_cli import regard
from tests.hub.test_words import TEXTS, learned
from tests.parity.test_hub import VOCABULARY, made
from tests.runs.test_tasks import FINE, FIRST, train

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,?!'- "
LLAMA = ["<unk>", "<s>", "</s>", "<|eot|>", *LETTERS]
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *LETTERS]
CHAT = "{% for message in messages %}{{ message.content }}{% endfor %}"
BESIDE: dict[str, bytes] = {
    "LICENSE": b"free, if named\r\n",
    "README.md": b"---\nlicense: mit\n---\n# Original\n",
    "generation_config.json": b'{"eos_token_id": [2, 3], "temperature": 0.6}',
    "tokenizer_config.json": json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "</s>"}).encode(),
    "chat_template.jinja": CHAT.encode(),
}


def spelled(names: list[str], single: str | None, pair: str | None = None) -> Engine:
    """A tokenizer of letters."""
    engine = Engine(models.WordLevel({name: n for n, name in enumerate(names)}, unk_token=names[0]))
    engine.pre_tokenizer, engine.decoder = pre_tokenizers.Split(Regex("."), "isolated"), decoders.Fuse()
    special = [name for name in names if len(name) > 1]
    engine.add_special_tokens([AddedToken(name, special=True) for name in special])
    if single is not None:
        numbers = [(name, names.index(name)) for name in special]
        engine.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=numbers)
    return engine


def came(case: str, folder: Path, engine: Engine, beside: dict[str, bytes], **keys: Any) -> dict[str, bytes]:
    """A folder as others publish it, and all of its files but the weights."""
    made(case, folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **keys}))
    engine.save(str(folder / "tokenizer.json"))
    for name, content in beside.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    return files(folder)


def files(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".safetensors")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def sent(noun: Path, folder: Path) -> dict[str, bytes]:
    done = regard("export", str(noun), str(folder))
    assert done.returncode == 0, done.stderr
    return files(folder)


LLAMA_KEYS = {"bos_token_id": 1, "eos_token_id": [2, 3], "pad_token_id": None, "mine": {"a": 1}}


def test_what_was_not_changed_goes_out_to_the_byte(tmp_path: Path) -> None:
    before = came("llama", tmp_path / "came", spelled(LLAMA, "<s> $A"), BESIDE, **LLAMA_KEYS)
    assert regard("import", str(tmp_path / "came"), "--out", str(tmp_path / "kept")).returncode == 0
    assert sent(tmp_path / "kept", tmp_path / "out") == before
    assert (tmp_path / "out" / "model.safetensors").is_file()


@pytest.mark.parametrize("adapt", [None, {"rank": 2}])
def test_a_fine_tuned_llama_keeps_context_ends_padding_and_template(tmp_path: Path, adapt: Any) -> None:
    before = came("llama", tmp_path / "came", spelled(LLAMA, "<s> $A"), BESIDE, **LLAMA_KEYS)
    tree = {"task": {"kind": "language", "context": 16}, "corpus": FIRST, "start": str(tmp_path / "came")}
    done = train(tmp_path, {**tree, "train": {**FINE, "evaluate": 0, **({} if adapt is None else {"adapt": adapt})}})
    assert done.returncode == 0, done.stderr
    after = sent(tmp_path / "run", tmp_path / "out")
    assert {name for name in before if after[name] != before[name]} == {"README.md"}
    assert after.keys() == before.keys()
    assert json.loads(after["config.json"])["max_position_embeddings"] == 128
    page = after["README.md"].decode()
    assert page.startswith("---\nlicense: mit\n---\n> **This model was changed.**")
    assert page.endswith("# Original\n")
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert theirs.generation_config.eos_token_id == [2, 3]
    assert tokenizer.pad_token is None
    assert tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False) == "hi"
    ours = load_as(str(tmp_path / "run"), Writer, "it writes")
    row = tokenizer("The cat", return_tensors="pt")["input_ids"]
    assert row[0].tolist() == ours.read("The cat")
    with torch.no_grad():
        torch.testing.assert_close(theirs(row).logits, ours.model(row), atol=1e-4, rtol=1e-3)


def test_where_training_begins_texts_in_another_way_the_tokenizer_does_so_too(tmp_path: Path) -> None:
    """GPT-2's tokenizer puts nothing before a text; a language model that was trained here began each with <s>."""
    came("gpt2", tmp_path / "came", spelled(LLAMA, None), BESIDE, bos_token_id=1, eos_token_id=2)
    tree = {"task": {"kind": "language", "context": 16}, "corpus": FIRST, "start": str(tmp_path / "came")}
    assert train(tmp_path, {**tree, "train": {**FINE, "evaluate": 0}}).returncode == 0
    after = sent(tmp_path / "run", tmp_path / "out")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer("The cat")["input_ids"] == load(str(tmp_path / "run")).read("The cat")
    assert tokenizer("The cat")["input_ids"][0] == 1
    assert after["LICENSE"] == BESIDE["LICENSE"]


def pairs_of_texts(folder: Path) -> dict[str, Any]:
    (folder / "pairs.tsv").write_text("yes\tthe cat\ta cat\nno\tthe cat\ta dog\n" * 6)
    reader = {"kind": "labels", "path": str(folder / "pairs.tsv"), "label": 0, "text": 1, "second": 2}
    return {"task": "classification", "corpus": {"kind": "files", "train": reader}}


@pytest.mark.parametrize("start", ["came", "grown", None])
def test_a_pair_classifier_tells_its_texts_apart_elsewhere_too(tmp_path: Path, start: str | None) -> None:
    """From a BERT, from one whose tokenizer lacks what stands between the texts, and from nothing."""
    tree = pairs_of_texts(tmp_path)
    if start is None:
        model = {"kind": "bert-tiny", "width": 16, "depth": 2, "heads": 2, "context": 64}
        tree |= {"model": model, "tokenizer": {"vocabulary": 60}}
    else:
        names = BERT if start == "came" else [name for name in BERT if name != "[SEP]"]
        end, pair = ("[SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1") if start == "came" else (".", None)
        engine = spelled(names, f"[CLS] $A {end}" if start == "came" else "[CLS] $A", pair)
        if start == "came":
            letters = "abcdefghijklmnopqrstuvwxyz"
            pieces = {name: n for n, name in enumerate([*BERT[:4], *letters, *(f"##{letter}" for letter in letters)])}
            engine.model = models.WordPiece(pieces, unk_token="[UNK]")
            engine.pre_tokenizer, engine.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
        keys = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": names.index(end)}
        settings = {"tokenizer_config.json": b'{"tokenizer_class": "BertTokenizer", "do_lower_case": false}'}
        settings = settings if start == "came" else {"special_tokens_map.json": b'{"cls_token": "[CLS]"}'}
        before = came("bert classes", tmp_path / "came", engine, settings, problem_type="regression", **keys)
        tree |= {"start": str(tmp_path / "came")}
    done = train(tmp_path, {**tree, "train": {**FINE, "evaluate": 0}})
    assert done.returncode == 0, done.stderr
    after = sent(tmp_path / "run", tmp_path / "out")
    if start == "came":
        assert after["tokenizer.json"] == before["tokenizer.json"]
    theirs = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    tokenizer, ours = AutoTokenizer.from_pretrained(tmp_path / "out"), load(str(tmp_path / "run"))
    assert "token_type_ids" in tokenizer("the cat", "a dog")
    assert len(tokenizer) <= theirs.config.vocab_size
    assert theirs.config.id2label == {0: "no", 1: "yes"}
    assert theirs.config.problem_type is None
    for texts in (["the cat", "a dog"], ["a cat"]):
        with torch.no_grad():
            shares = theirs(**tokenizer(*texts, return_tensors="pt")).logits.softmax(-1)[0].tolist()
        assert list(ours.classify(*texts).probabilities.values()) == pytest.approx(shares, abs=1e-5)


def opus(folder: Path) -> dict[str, bytes]:
    """A folder as OPUS-MT publishes it."""
    library = pytest.importorskip("sentencepiece")
    sides = {f"{side}.spm": learned("unigram", TEXTS[n::2], 120) for n, side in enumerate(("source", "target"))}
    engines = [library.SentencePieceProcessor(model_proto=content) for content in sides.values()]
    names = ["</s>", "<unk>", *(engine.id_to_piece(n) for engine in engines for n in range(3, 120))]
    numbered = {name: n for n, name in enumerate(dict.fromkeys(names))}
    numbered["<pad>"] = pad = len(numbered)
    special = {"pad_token_id": pad, "eos_token_id": 0, "decoder_start_token_id": pad, "forced_eos_token_id": None}
    import transformers

    from tests.parity.test_hub import MARIAN

    torch.manual_seed(1)
    sizes = {"vocab_size": pad + 1, "decoder_vocab_size": pad + 1}
    model = transformers.MarianMTModel(transformers.MarianConfig(**{**MARIAN, **sizes, **special}))
    for weight in model.parameters():
        weight.data += 0.3 * torch.randn_like(weight) * (weight.shape[-1] ** -0.5 if weight.dim() > 1 else 1)
    model.generation_config.num_beams = 2
    model.save_pretrained(folder)
    told = {"tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "fr"}
    words = {"vocab.json": json.dumps(numbered).encode(), "tokenizer_config.json": json.dumps(told).encode()}
    for name, content in {**sides, **words, "LICENSE": b"CC-BY 4.0"}.items():
        (folder / name).write_bytes(content)
    return files(folder)


@pytest.mark.filterwarnings("ignore:Recommended")
def test_opus_mt_goes_out_with_a_tokenizer_that_works_trained_further_or_not(tmp_path: Path) -> None:
    from transformers import MarianMTModel, MarianTokenizer

    before = opus(tmp_path / "came")
    assert regard("import", str(tmp_path / "came"), "--out", str(tmp_path / "kept")).returncode == 0
    assert sent(tmp_path / "kept", tmp_path / "again") == before
    done = train(tmp_path, {"corpus": FIRST, "start": str(tmp_path / "came"), "train": {**FINE, "evaluate": 0}})
    assert done.returncode == 0, done.stderr
    after = sent(tmp_path / "run", tmp_path / "out")
    assert {name for name in after if after[name] != before.get(name)} <= {"README.md", "config.json"}
    assert after.keys() - before.keys() == {"README.md"}
    tokenizer = MarianTokenizer.from_pretrained(tmp_path / "out")
    theirs, ours = MarianMTModel.from_pretrained(tmp_path / "out").eval(), load(str(tmp_path / "run"))
    for text in TEXTS[:6:2]:
        mine = ours.translate(text, beam=1, max_tokens=8)
        words = tokenizer([text], return_tensors="pt")
        assert tokenizer.convert_ids_to_tokens(words["input_ids"][0]) == mine.source_tokens
        found = theirs.generate(**words, num_beams=1, max_new_tokens=8)[0]  # without gradients by itself
        assert tokenizer.convert_ids_to_tokens(found)[1 : len(mine.tokens) + 1] == mine.tokens[:8]


MODULES = {
    "modules.json": b'[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}, '
    b'{"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]',
    "1_Pooling/config.json": b'{"word_embedding_dimension": 64, "pooling_mode_cls_token": true, '
    b'"pooling_mode_mean_tokens": false}',
    "sentence_bert_config.json": b'{"max_seq_length": 64}',
}


def test_modules_that_make_vectors_say_what_was_learned_here_or_stay_away(tmp_path: Path) -> None:
    engine = spelled(BERT, "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1")
    keys = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    before = came("bert", tmp_path / "came", engine, MODULES, **keys)
    assert sent(tmp_path / "came", tmp_path / "same") == before
    trees = {"embedding": {"task": "embedding", "corpus": FIRST}, "classification": pairs_of_texts(tmp_path)}
    for task, tree in trees.items():
        (tmp_path / task).mkdir()
        more = {"start": str(tmp_path / "came"), "train": {**FINE, "evaluate": 0}}
        assert train(tmp_path / task, tree | more).returncode == 0
    after = sent(tmp_path / "embedding" / "run", tmp_path / "vectors")
    assert json.loads(after["1_Pooling/config.json"])["pooling_mode_mean_tokens"] is True
    assert json.loads(after["1_Pooling/config.json"])["pooling_mode_cls_token"] is False
    assert "Normalize" in json.loads(after["modules.json"])[-1]["type"]
    assert not set(MODULES) & set(sent(tmp_path / "classification" / "run", tmp_path / "classes"))


def test_the_licence_goes_to_ctranslate2_too(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    names = [*LLAMA, *(f"<{n}>" for n in range(VOCABULARY - len(LLAMA)))]
    came("llama", tmp_path / "came", spelled(names, "<s> $A"), BESIDE, bos_token_id=1, eos_token_id=2)
    done = regard("export", str(tmp_path / "came"), str(tmp_path / "ct2"), "--to", "ctranslate2")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "ct2" / "LICENSE").read_bytes() == BESIDE["LICENSE"]


def test_a_config_that_would_say_something_else_is_never_written(tmp_path: Path) -> None:
    from regard.errors import RegardError
    from regard.hub.save import export_folder, match_model

    came("llama", tmp_path / "came", spelled(LLAMA, "<s> $A"), {})
    given = load_bundle(str(tmp_path / "came"))
    assert given.family is not None
    config = json.loads((tmp_path / "came" / "config.json").read_text()) | {"rms_norm_eps": 0.5}
    plan = match_model(given.model.spec, given.family, "it")
    with pytest.raises(RegardError, match=r"eps is 1e-06 here and 0\.5 there"):
        export_folder(plan, given.model, tmp_path / "out", {"config.json": json.dumps(config).encode()})
    assert not (tmp_path / "out").exists()
