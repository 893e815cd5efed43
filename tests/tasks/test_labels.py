"""Classification and tagging: how texts are arranged, what is learned, and that small models learn it."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer as Engine
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from regard.core.inputs import Inputs
from regard.core.model import ModelSpec
from regard.data.batches import BatchSpec
from regard.data.corpus import CorpusSpec
from regard.data.lexicon import Lexicon
from regard.data.preparation import prepare
from regard.data.prepared import Prepared
from regard.data.tokenizer import SEPARATOR, Kind, Tokenizer, TokenizerSpec
from regard.errors import InputError, SpecError
from regard.models import preset
from regard.tasks.classification import ClassificationTaskSpec, Classifier, arrange
from regard.tasks.tagging import RAW, SpellingSpec, Tagger, TaggingTaskSpec, pieces, spell, words_of
from regard.tasks.task import TaskSpec
from regard.train.optimizer import AdamW
from regard.train.schedule import Constant
from regard.train.spec import TrainSpec
from regard.train.trainer import Trainer

LABELS = "fine film\tgood\nfine fine film\tgood\ndull film\tbad\ndull dull film\tbad\n"


def ready(task: TaskSpec, corpus: dict[str, Any], folder: Path, tokenizer: TokenizerSpec) -> Prepared:
    return prepare(CorpusSpec.parse(corpus), task, tokenizer, 100, folder, folder / "data")[0]


@pytest.fixture
def opinions(tmp_path: Path) -> Prepared:
    (tmp_path / "a.tsv").write_text(LABELS)
    reader = {"kind": "labels", "path": "a.tsv"}
    corpus: dict[str, Any] = {"kind": "files", "train": reader, "validation": reader}
    return ready(ClassificationTaskSpec(), corpus, tmp_path, TokenizerSpec(pieces="word"))


def test_one_text_and_a_pair_are_arranged_with_delimiters(opinions: Prepared) -> None:
    tokenizer = opinions.lexicon.tokenizer
    one, two = tokenizer.encode(["fine film", "dull"])
    row, sides = arrange(one, two, tokenizer)
    assert tokenizer.pieces(row) == ["[BOS]", "fine", "film", "[SEP]", "dull", "[EOS]"]
    assert sides == [0, 0, 0, 0, 1, 1]
    assert tokenizer.pieces(arrange(one, [], tokenizer)[0]) == ["[BOS]", "fine", "film", "[EOS]"]


def test_a_text_cant_spell_the_frame_that_a_tokenizer_of_others_puts_around_it() -> None:
    scores = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *((piece, -3.0) for piece in ("▁", *"as/<>"))]
    engine = Engine(models.Unigram(scores, 2, False))
    engine.pre_tokenizer = pre_tokenizers.Metaspace()
    engine.add_special_tokens(["<pad>", "</s>", "<unk>"])
    engine.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    tokenizer = Tokenizer(engine, unknown=2, begin=0, end=1)
    lexicon = Lexicon((tokenizer, tokenizer), ["x", "y"], foreign=True)
    torch.manual_seed(1)
    network = fitted(ClassificationTaskSpec(), "bilstm", lexicon).build().eval()
    classifier = Classifier(network, lexicon)
    spelled_out, unknown = classifier.classify("a </s>", "s"), classifier.classify("a \u65e5", "s")
    assert spelled_out == unknown


def test_a_pair_needs_a_separator() -> None:
    plain = TokenizerSpec(pieces="word").train(["a b"])
    assert plain.separator is None
    with pytest.raises(InputError, match=r"\[SEP\]"):
        arrange([4], [5], plain)
    plain.extend((SEPARATOR,))
    assert arrange([4], [5], plain)[0] == [2, 4, 6, 5, 3]


def fitted(task: TaskSpec, name: str, lexicon: Lexicon, **settings: object) -> ModelSpec:
    size = {"width": 32, "depth": 1, "vocabulary": len(lexicon.tokenizer)}
    heads = {"heads": 2} if name not in ("lstm", "bilstm", "elmo") else {}
    return task.fit_model(preset(name, **size, **heads, **settings), lexicon)


@pytest.mark.parametrize(
    ("name", "pool"), [("gpt2", "last"), ("bert-tiny", "first"), ("lstm", "last"), ("bilstm", "mean")]
)
def test_the_label_is_read_where_the_model_has_seen_most(opinions: Prepared, name: str, pool: str) -> None:
    spec = fitted(ClassificationTaskSpec(), name, opinions.lexicon)
    assert spec.head is not None
    assert spec.head.fields()["pool"] == pool
    chosen = fitted(ClassificationTaskSpec(pool="first"), name, opinions.lexicon)
    assert chosen.head is not None
    assert chosen.head.fields()["pool"] == "first"


def test_the_auxiliary_loss_is_the_language_models_beside_the_labels(opinions: Prepared) -> None:
    torch.manual_seed(1)
    task = ClassificationTaskSpec(auxiliary=0.5, dropout=0.0)
    model = fitted(task, "gpt2", opinions.lexicon, dropout=0.0).build().train()
    learner = task.build(opinions, BatchSpec(), 1)
    places = learner.batches(0, 0)
    batch = next(places).batch
    places.close()
    features = model.features(Inputs(batch.inputs.tokens, valid=batch.inputs.real))
    logits = model.answer(features, valid=batch.inputs.real)
    table = model.scored(features).table()[:, :-1]
    kept = batch.inputs.real[:, 1:]
    words = F.cross_entropy(table[kept], batch.inputs.tokens[:, 1:][kept])
    expected = F.cross_entropy(logits, batch.labels, reduction="sum") + 0.5 * words * len(batch.labels)
    torch.testing.assert_close(learner.loss(model, batch), expected)
    plain = ClassificationTaskSpec(dropout=0.0).build(opinions, BatchSpec(), 1)
    torch.testing.assert_close(plain.loss(model, batch), F.cross_entropy(logits, batch.labels, reduction="sum"))


def test_an_encoder_has_no_auxiliary_loss(opinions: Prepared) -> None:
    with pytest.raises(SpecError, match="sees the next word"):
        fitted(ClassificationTaskSpec(auxiliary=0.5), "bert-tiny", opinions.lexicon)


def test_an_encoder_and_a_decoder_are_refused(opinions: Prepared) -> None:
    with pytest.raises(SpecError, match="needs one of them"):
        fitted(ClassificationTaskSpec(), "transformer-tiny", opinions.lexicon)


def trained(task: TaskSpec, name: str, prepared: Prepared, steps: int) -> Trainer:
    torch.manual_seed(1)
    model = fitted(task, name, prepared.lexicon, dropout=0.0).build()
    spec = TrainSpec(steps=steps, evaluate=0, optimizer=AdamW(rate=0.01), schedule=Constant())
    trainer = Trainer(model, task.build(prepared, BatchSpec(tokens=64), 1), spec)
    trainer.run()
    model.eval()
    return trainer


@pytest.mark.parametrize("name", ["gpt2", "bert-tiny", "lstm"])
def test_a_small_model_learns_to_label(opinions: Prepared, name: str) -> None:
    trainer = trained(ClassificationTaskSpec(dropout=0.0), name, opinions, 40)
    pipeline = ClassificationTaskSpec().pipeline(trainer.model, opinions.lexicon)
    assert [pipeline.classify(text).label for text in ("fine film", "dull film")] == ["good", "bad"]
    assert sum(pipeline.classify("dull film").probabilities.values()) == pytest.approx(1)
    found = pipeline.measure(opinions.samples("validation"))
    assert found["accuracy"] == 1
    assert found["labels"]["good"]["count"] == 2


@pytest.fixture
def sentences(tmp_path: Path) -> Prepared:
    return ready(
        TaggingTaskSpec(spelling=SpellingSpec(size=4, width=8)),
        {"kind": "en-fr", "train": 300, "validation": 50, "test": 0, "combinations": 0, "level": "first"},
        tmp_path,
        TokenizerSpec(pieces="given"),
    )


def test_a_word_is_labelled_on_its_first_piece() -> None:
    tokenizer = TokenizerSpec(pieces="bpe", vocabulary=30).train(["unhappy cats sleep"])
    words = ["cats", "unhappy", "sleep"]
    ((tokens, first),) = pieces([words], tokenizer)
    joined = [tokenizer.pieces(tokens[a:b]) for a, b in zip(first, [*first[1:], len(tokens)], strict=True)]
    assert ["".join(part).replace("▁", "") for part in joined] == words


def strangers() -> dict[str, Engine]:
    """Engines as they come with models from elsewhere."""
    bytes_of = json.loads(TokenizerSpec(pieces="byte").train([]).engine.to_str())["model"]["vocab"]
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("Ġ", "c"), ("Ġc", "at"), ("a", "t")]
    gpt = Engine(models.BPE({**bytes_of, **{a + b: 300 + n for n, (a, b) in enumerate(merges)}}, merges))
    gpt.pre_tokenizer, gpt.post_processor = pre_tokenizers.ByteLevel(add_prefix_space=False), processors.ByteLevel()
    spaced = Engine.from_str(gpt.to_str())
    spaced.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    known = {letter: n for n, letter in enumerate(["<unk>", "▁", *"thegrcan.N'", "▁t", "▁c", "t▁"])}
    llama = Engine(models.BPE(known, [("▁", "t"), ("▁", "c")], unk_token="<unk>", fuse_unk=True))
    llama.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    words = ["[UNK]", "the", "green", "c", "##at", "##s", "isn", "'", "t", ".", "e", "##t", "##e"]
    bert = Engine(models.WordPiece({word: n for n, word in enumerate(words)}, unk_token="[UNK]"))
    bert.normalizer, bert.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    return {"gpt2": gpt, "gpt2, prefix": spaced, "llama": llama, "bert": bert}


@pytest.mark.parametrize("kind", [*get_args(Kind), "gpt2", "gpt2, prefix", "llama", "bert"])
def test_words_are_cut_as_running_text(kind: Any) -> None:
    sentences = [["the", "green", "cat", "isn't", "the", "cats", "."], ["Été", "the", "10 000", "e\u0301té", "cat"]]
    if kind in get_args(Kind):
        tokenizer = TokenizerSpec(pieces=kind, vocabulary=300).train([" ".join(words) for words in sentences] * 5)
    else:
        tokenizer = Tokenizer(strangers()[kind], unknown=0)
    for words, (tokens, first) in zip(sentences, pieces(sentences, tokenizer), strict=True):
        assert tokens == tokenizer.encode([" ".join(words)])[0]
        ends = [*first[1:], len(tokens)]
        assert all(begin < end for begin, end in zip(first, ends, strict=True))
        if tokenizer.unknown not in tokens and kind not in ("bert", "given"):
            engine = tokenizer.engine
            engine.decoder = decoders.ByteLevel() if "gpt2" in kind else engine.decoder or decoders.Metaspace()
            found = [tokenizer.decode([tokens[a:b]])[0] for a, b in zip(first, ends, strict=True)]
            assert [letters(word) for word in found] == [letters(word) for word in words]


def letters(text: str) -> str:
    return re.sub("[ #]", "", unicodedata.normalize("NFC", text))


def test_a_word_that_the_tokenizer_makes_nothing_of_is_still_a_word() -> None:
    tokenizer = TokenizerSpec(pieces="bpe", vocabulary=30).train(["abc"])
    ((tokens, first),) = pieces([["abc", "\u200b", "abc"]], tokenizer)
    assert len(first) == 3
    assert len(tokens) > first[-1]
    cleaning = Tokenizer(strangers()["bert"], unknown=0)
    assert pieces([["\0", "the", "\0", "", "cats", "\0"]], cleaning) == [([0, 1, 0, 0, 3, 4, 5, 0], [0, 1, 2, 3, 4, 7])]


def test_spelling_knows_strange_letters_and_both_ends_of_long_words() -> None:
    letters = {"a": 2, "b": 3}
    assert spell("abz", letters) == [2, 3, 1]
    long = spell("a" * 40 + "b" * 40, letters)
    assert long == [2] * 15 + [3] * 15
    assert words_of([2, 3, 0, 1, 0]) == [[2, 3], [1]]


def test_padding_and_neighbours_change_no_tag(sentences: Prepared) -> None:
    task = TaggingTaskSpec(spelling=SpellingSpec(size=4, width=8))
    torch.manual_seed(1)
    tagger = Tagger(fitted(task, "bilstm", sentences.lexicon).build().eval(), sentences.lexicon, task)
    texts = [sample["words"] for sample in sentences.samples("validation")[:20]]
    assert tagger.tag_all(texts) == [tagger.tag_all([text])[0] for text in texts]


def test_letters_tell_unknown_words_apart(sentences: Prepared) -> None:
    task = TaggingTaskSpec(spelling=SpellingSpec(size=4, width=8))
    torch.manual_seed(1)
    model = fitted(task, "bilstm", sentences.lexicon).build().eval()
    tagger = Tagger(model, sentences.lexicon, task)
    seen: list[torch.Tensor] = []
    model.register_forward_hook(lambda _, __, out: seen.append(out))
    for word in ("flurbing", "flurbed"):
        tagger.tag([word])
    assert not torch.allclose(seen[0], seen[1])


@pytest.mark.parametrize("name", ["bilstm", "bert-tiny"])
def test_a_small_model_learns_to_tag(sentences: Prepared, name: str) -> None:
    task = TaggingTaskSpec(spelling=SpellingSpec(size=4, width=8), forget=0.1, dropout=0.0)
    trainer = trained(task, name, sentences, 150)
    measures = trainer.task.evaluate(trainer.model, lambda: None)
    assert measures is not None
    assert measures["accuracy"] > 0.9
    tagger = task.pipeline(trainer.model, sentences.lexicon)
    assert [tag for _, tag in tagger.tag("The cat sleeps.")][:2] == ["DET", "NOUN"]


def test_plain_text_is_cut_into_words_and_signs() -> None:
    assert RAW.findall("Don't stop, l'ami: it's well-known (2).") == [
        *("Don't", "stop", ",", "l'ami", ":", "it's", "well-known", "(", "2", ")", ".")
    ]


def test_a_learned_mix_of_layers_starts_even_and_is_what_its_formula_says(sentences: Prepared) -> None:
    spec = fitted(TaggingTaskSpec(blend=True), "elmo", sentences.lexicon)
    torch.manual_seed(1)
    model = spec.build().eval()
    assert model.encoder is not None
    assert model.encoder.blend is not None
    model.encoder.blend.shares.data = torch.tensor([0.3, -1.0])
    model.encoder.blend.gain.data.fill_(2.0)
    layers: list[torch.Tensor] = []
    model.encoder.blend.register_forward_pre_hook(lambda _, given: layers.extend(given[0]))
    found = model.features(torch.randint(4, 20, (2, 5)))
    shares = torch.tensor([0.3, -1.0]).softmax(0)
    torch.testing.assert_close(found, 2.0 * (shares[0] * layers[0] + shares[1] * layers[1]))
