"""What goes out beside a model's weights: config, tokenizer, how to generate, licence, a page about it.

What came in with a model goes out as it came, to the byte, and is changed only where the model was. What was made here
is written anew.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Engine

from regard.data.lexicon import Lexicon
from regard.data.origin import Origin
from regard.data.processor import NAME as PROCESSOR
from regard.data.processor import Processor, write_processor
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError, warn
from regard.hub.load import FamilyMatch
from regard.hub.save import carry_over, config_of, dtypes
from regard.hub.words import tokenizers
from regard.tasks.bundle import Bundle
from regard.tasks.task import TaskSpec

Tree = dict[str, Any]
FAST = "PreTrainedTokenizerFast"  # the class that does what tokenizer.json says, and nothing beside
# files that say how text is cut, apart from tokenizer.json
CUTTING = ("vocab.json", "merges.txt", "vocab.txt", "added_tokens.json", ".model", ".spm")
# settings of a tokenizer's class that tokenizer.json makes good
ADDING = ("add_bos_token", "add_eos_token", "added_tokens_decoder")
PROBES = ("the cat sleeps", "a dog")
# what sentence-transformers reads
SENTENCES = ("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json")
MODULES = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
# what a config.json says of labels beside their names: their number, and how scores become answers
ANSWERS = ("num_labels", "_num_labels", "problem_type", "sentence_transformers", "sbert_ce_default_activation_function")
NOTICE = "> **This model was changed.** It was trained further with regard (task: {task}), from a model of others.\n"
ABOUT = "> What this page says of data, results and use is about that one.\n"


def beside(given: Bundle, plan: FamilyMatch, noun: str) -> dict[str, bytes]:
    """All files that belong to a model but for its weights."""
    if given.origin is not None:
        return return_files(given, given.origin, plan)
    if given.lexicon is None and given.task is None:
        return {}  # a model by itself: its weights and its config.json are all there is
    if given.lexicon is not None and given.lexicon.words is None:
        config = config_of(plan) | name_labels(given.lexicon.labels) | dtypes(given.model)
        return {"config.json": dump(config)} | prepare_pictures(given, given.lexicon)
    if given.lexicon is None or given.lexicon.tokenizers[0] is not given.lexicon.tokenizers[1]:
        raise RegardError(f"{noun}: that layout has one vocabulary, and this run has two", "tokenizer.shared=true")
    return make_files(given, given.lexicon, plan)


def make_files(given: Bundle, lexicon: Lexicon, plan: FamilyMatch) -> dict[str, bytes]:
    """The files of a model that was made here."""
    task, tokenizer = given.purpose(), lexicon.tokenizer
    numbers = {"pad": tokenizer.pad, "eos": tokenizer.end, "bos": tokenizer.begin}
    keys: Tree = {f"{name}_token_id": number for name, number in numbers.items()}
    names = numbers | {"unk": tokenizer.unknown, "sep": tokenizer.separator, "mask": tokenizer.mask}
    if translates(task):
        keys |= {"decoder_start_token_id": tokenizer.begin, "forced_eos_token_id": None}
    tree = json.loads(tokenizer.engine.to_str())
    trees: dict[str, Tree] = {
        "config.json": config_of(plan) | keys | name_labels(lexicon.labels) | dtypes(given.model),
        "tokenizer.json": tree if lexicon.foreign else tree | {"post_processor": template(task, tokenizer)},
        "tokenizer_config.json": {"tokenizer_class": FAST, **_pieces(tokenizer, names), **inputs(given)},
    }
    if task.kind != "masking":  # where a text that spells a mask means one
        trees["tokenizer_config.json"]["split_special_tokens"] = True  # what spells a special token is text, as here
    if task.writes:
        trees["generation_config.json"] = keys | ({"num_beams": 5, "max_length": 512} if translates(task) else {})
    return {name: dump(content) for name, content in trees.items()}


def return_files(given: Bundle, origin: Origin, plan: FamilyMatch) -> dict[str, bytes]:
    """The files that came with a model, changed where the model was."""
    files, came = dict(origin.files), origin.json("config.json")
    config = carry_over(came, plan)
    if given.task is not None:
        assert given.lexicon is not None
        kind = dtypes(given.model)
        config |= {key: name for key, name in kind.items() if key in config} or kind
        config |= ends(config, given.task, given.lexicon)
        config = relabel(config, given.task, given.lexicon)
        files |= generating(origin, config, given.task)
        if given.lexicon.words is not None:
            files = cutting(files, origin, given, given.task, given.lexicon)
            files = embedding(files, given)
        files |= prepare_pictures(given, given.lexicon)
        files["README.md"] = add_notice(files.get("README.md", b""), given.task)
    if config != came:
        files["config.json"] = dump(config)
    return files


def prepare_pictures(given: Bundle, lexicon: Lexicon) -> dict[str, bytes]:
    """How pictures are prepared, unless the file that came says the same; a map of features is prepared by nobody."""
    canvas = lexicon.canvas
    if canvas is None or canvas.dtype != "uint8":
        return {}
    fit = given.task.fields().get("fit") if given.task is not None else None
    if given.origin is not None and PROCESSOR in given.origin.files:
        came = Processor.read(given.origin.json(PROCESSOR), canvas.shape)
        if came.canvas == canvas and fit in (None, came.fit):
            return {}
    tree, told = write_processor(canvas, fit)
    for line in told:
        warn(line)
    return {PROCESSOR: dump(tree)}


def dump(tree: Any) -> bytes:
    return (json.dumps(tree, indent=2, ensure_ascii=False) + "\n").encode()


def translates(task: TaskSpec) -> bool:
    return task.form == "pairs" and task.writes


def name_labels(labels: list[str]) -> Tree:
    """What classes or tags are called."""
    if not labels:
        return {}
    return {
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
    }


def relabel(config: Tree, task: TaskSpec, lexicon: Lexicon) -> Tree:
    """The labels that were learned, in place of those that came; here one label of several holds."""
    if not lexicon.labels:
        return config
    kept = {key: value for key, value in config.items() if key not in ANSWERS}
    return kept | name_labels(lexicon.labels)


def ends(config: Mapping[str, Any], task: TaskSpec, lexicon: Lexicon) -> Tree:
    """Numbers that training here gave a meaning to, where nothing that came gives them one."""
    if not task.writes:
        return {}
    target = lexicon.tokenizers[1]
    told = {"bos_token_id": target.begin, "eos_token_id": target.end}
    return {key: number for key, number in told.items() if config.get(key) is None}


def generating(origin: Origin, config: Mapping[str, Any], task: TaskSpec) -> dict[str, bytes]:
    """generation_config.json, once it knows the end that training here gave."""
    came, name = origin.json("generation_config.json"), "generation_config.json"
    if not came or came.get("eos_token_id") is not None or not task.writes:
        return {}
    return {name: dump(came | {"eos_token_id": config["eos_token_id"]})}


def inputs(given: Bundle) -> Tree:
    """Which of a tokenizer's outputs the model takes, where those aren't the usual ones."""
    stack = given.model.spec.encoder or given.model.spec.decoder
    assert stack is not None
    if not stack.embedding.segment_count:
        return {}
    return {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}


def _pieces(tokenizer: Tokenizer, names: Mapping[str, int | None]) -> dict[str, str]:
    return {f"{name}_token": tokenizer.pieces([n])[0] for name, n in names.items() if n is not None}


def cutting(
    files: Mapping[str, bytes], origin: Origin, given: Bundle, task: TaskSpec, lexicon: Lexicon
) -> dict[str, bytes]:
    """The files of a tokenizer: as they came, unless it gained tokens or the task arranges texts in another way."""
    source, target = lexicon.tokenizers
    if source is not target:  # OPUS-MT's: nothing is ever added to one, and it ends a source as training here does
        return dict(files)
    tree = json.loads(source.engine.to_str())
    wanted = tree | {"post_processor": template(task, source)}
    same = arrange_probes(tree, task, given) == arrange_probes(wanted, task, given)
    if same and source.engine.get_vocab() == vocabulary(origin):
        return dict(files)
    kept = {name: content for name, content in files.items() if not name.endswith(CUTTING)}
    begins = {"cls": source.begin} if given.model.decoder is None else {"bos": source.begin, "eos": source.end}
    names = _pieces(source, {**begins, "sep": source.separator, "mask": source.mask})
    settings = {key: value for key, value in origin.json("tokenizer_config.json").items() if key not in ADDING}
    kept["tokenizer.json"] = dump(tree if same else wanted)
    kept["tokenizer_config.json"] = dump(names | settings | {"tokenizer_class": FAST} | inputs(given))
    if "special_tokens_map.json" in kept:
        kept["special_tokens_map.json"] = dump(names | origin.json("special_tokens_map.json"))
    return kept


def vocabulary(origin: Origin) -> dict[str, int] | None:
    """The tokens that came, read from the files that came."""
    with tempfile.TemporaryDirectory(prefix="regard-origin-") as place:
        for name, content in origin.files.items():
            if "/" not in name:
                (Path(place) / name).write_bytes(content)
        found = tokenizers(Path(place), origin.json("config.json"))
    return None if found is None else found[0].engine.get_vocab()


def arrange_probes(tree: Tree, task: TaskSpec, given: Bundle) -> list[Any]:
    """What a tokenizer makes of texts and of pairs, if the task has pairs."""
    engine = Engine.from_str(json.dumps(tree))
    found = [engine.encode(PROBES[0]), *([engine.encode(*PROBES)] if task.kind == "classification" else [])]
    return [(each.ids, each.type_ids if inputs(given) else None) for each in found]


def embedding(files: Mapping[str, bytes], given: Bundle) -> dict[str, bytes]:
    """The modules of sentence-transformers: what was trained here makes the mean at unit length, or no vectors."""
    if "modules.json" not in files:
        return dict(files)
    kept = {name: content for name, content in files.items() if name not in SENTENCES and not name[0].isdigit()}
    if given.purpose().kind != "embedding":
        return kept
    stack = given.model.spec.encoder or given.model.spec.decoder
    assert stack is not None
    modules = [
        {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for n, (path, kind) in enumerate(MODULES.items())
    ]
    pooling = {"word_embedding_dimension": stack.width, "pooling_mode_cls_token": False}
    pooling["pooling_mode_mean_tokens"] = True
    limits = {name: files[name] for name in SENTENCES[1:2] if name in files}
    return kept | limits | {"modules.json": dump(modules), "1_Pooling/config.json": dump(pooling)}


def add_notice(page: bytes, task: TaskSpec) -> bytes:
    """The page that came, with a note that the model was changed, below what the page says to machines."""
    notice = NOTICE.format(task=task.kind).encode()
    head, rest = b"", page
    if page.startswith(b"---"):
        end = page.find(b"\n---", 3)
        after = page.find(b"\n", end + 4) if end >= 0 else -1
        if after >= 0:
            head, rest = page[: after + 1], page[after + 1 :]
    return head + notice + (ABOUT.encode() + b"\n" + rest if rest else b"")


def template(task: TaskSpec, tokenizer: Tokenizer) -> Tree:
    """How a text begins and ends, as the task reads it: a source has only an end, running text only a beginning."""
    named = {"begin": tokenizer.begin, "end": tokenizer.end, "separator": tokenizer.separator}
    tokens = {name: tokenizer.pieces([number])[0] for name, number in named.items() if number is not None}

    def special(name: str, side: int) -> Tree:
        return {"SpecialToken": {"id": tokens[name], "type_id": side}}

    first, second = ({"Sequence": {"id": name, "type_id": side}} for side, name in enumerate("AB"))
    opening = [] if translates(task) else [special("begin", 0)]
    closing = task.closing
    middle = "separator" if "separator" in tokens else "end"
    return {
        "type": "TemplateProcessing",
        "single": [*opening, first, *(special(name, 0) for name in closing)],
        "pair": [*opening, first, special(middle, 0), second, *(special(name, 1) for name in closing)],
        "special_tokens": {
            token: {"id": token, "ids": [named[name]], "tokens": [token]} for name, token in tokens.items()
        },
    }
