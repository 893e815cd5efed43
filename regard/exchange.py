"""Bringing checkpoints in and sending them out, as the command line does it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.data.lexicon import Lexicon
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.files import write
from regard.hub.check import largest_difference
from regard.hub.ctranslate2 import converted
from regard.hub.fetch import fetched
from regard.hub.load import Imported, imported, remembered
from regard.hub.onnx import written
from regard.hub.save import exported, plan_of
from regard.noun import IMPORT, brought, found, network, parts
from regard.tasks.task import TaskSpec
from regard.train.checkpoint import Store

Format = Literal["hf", "ctranslate2", "onnx"]
# told to others, never used here
BESIDE = ("tokenizer_config.json", "generation_config.json", "special_tokens_map.json")


@dataclass
class Brought:
    """What a folder holds."""

    folder: str
    type: str  # as its config.json calls it
    family: str
    parameters: int
    dtype: str
    unused: list[str]  # tensors of heads that this model doesn't have
    largest_difference: float | None = None  # of any output, from what transformers gives
    run: str | None = None  # where it was kept


def bring(noun: str, out: Path | None, check: bool) -> Brought:
    """Read a folder in Hugging Face layout, downloaded first if wanted, and compare it with transformers if wanted."""
    folder = Path(noun)
    if noun.startswith("hf:"):
        name = noun.removeprefix("hf:")
        folder = fetched(name, Path(name.rpartition("/")[2]))
    arrived = imported(folder)
    model, plan = arrived.model, arrived.plan
    facts = Brought(
        str(folder),
        plan.kind,
        plan.settings.kind,
        model.parameter_count(),
        str(next(model.parameters()).dtype).removeprefix("torch."),
        arrived.unused,
    )
    if check:
        facts.largest_difference = largest_difference(folder, arrived)
    if out is not None:
        facts.run = str(keep(arrived, folder, out))
    return facts


def keep(arrived: Imported, folder: Path, out: Path) -> Path:
    """A run that holds a model from elsewhere, so that every verb that takes a run takes it."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RegardError(f"{out}: is there already", "--out ANOTHER")
    plan = arrived.plan
    files: dict[str, bytes] = {}
    if arrived.tokenizers is not None:
        files = Lexicon(arrived.tokenizers, arrived.labels, foreign=True).files()
    files |= {name: (folder / name).read_bytes() for name in BESIDE if (folder / name).is_file()}
    files |= arrived.origin.entries()
    settings = plan.settings.model_dump(mode="json")
    about = {"type": plan.kind, "class": plan.architecture, "settings": settings, "config": dict(plan.config)}
    data = {"spec": plan.spec.model_dump(mode="json"), "state": {"moment": {"ranking": []}, "import": about}}
    Store(out / "checkpoints").save(0, {"model": arrived.model.state_dict()}, data, files)
    write(out / IMPORT, json.dumps(about, indent=1).encode())
    return out


def send(noun: str, to: Format, folder: Path) -> list[Path]:
    """Write a model for others."""
    if to == "hf":
        return _to_hugging_face(noun, folder)
    given = parts(noun)
    if to == "onnx":
        written(given.model, folder)
        return [folder]
    if given.lexicon is None:
        raise RegardError(f"{noun}: there is no tokenizer in it, and CTranslate2 wants the words")
    return converted(given.model, *given.lexicon.tokenizers, folder)


def _to_hugging_face(noun: str, folder: Path) -> list[Path]:
    """A run's model, its tokenizer and how it generates."""
    checkpoint = found(noun)
    about = brought(checkpoint)
    if about is not None:
        there = [path.name for path in checkpoint.path.glob("tokenizer*.json")]
        there += [name for name in BESIDE if (checkpoint.path / name).exists()]
        files = {name: checkpoint.read(name).decode() for name in there}
        return exported(remembered(about), network(checkpoint), folder, files=files)
    given = parts(noun)
    if given.family is None:
        raise RegardError(f"{noun}: a model of one's own has no family, so no Hugging Face layout either")
    if given.lexicon is None or given.lexicon.tokenizers[0] is not given.lexicon.tokenizers[1]:
        raise RegardError(f"{noun}: that layout has one vocabulary, and this run has two", "tokenizer.shared=true")
    plan = plan_of(given.model.spec, given.family, noun)
    keys, files = beside(given.purpose(), given.lexicon)
    return exported(plan, given.model, folder, keys, files)


def beside(task: TaskSpec, lexicon: Lexicon) -> tuple[dict[str, Any], dict[str, str]]:
    """What stands in config.json beside the model's own, and the files beside that: the tokenizer, how to generate."""
    tokenizer = lexicon.tokenizer
    numbers = {"pad": tokenizer.pad, "eos": tokenizer.end, "bos": tokenizer.begin}
    keys: dict[str, Any] = {f"{name}_token_id": number for name, number in numbers.items()}
    names = {f"{name}_token": tokenizer.pieces([number])[0] for name, number in numbers.items()}
    further = {"unk": tokenizer.unknown, "sep": tokenizer.separator, "mask": tokenizer.mask}
    names |= {f"{name}_token": tokenizer.pieces([number])[0] for name, number in further.items() if number is not None}
    translates = task.form == "pairs" and task.kind != "embedding"
    if translates:
        keys |= {"decoder_start_token_id": tokenizer.begin, "forced_eos_token_id": None}
    if lexicon.labels:
        keys["id2label"] = {str(number): label for number, label in enumerate(lexicon.labels)}
        keys["label2id"] = {label: number for number, label in enumerate(lexicon.labels)}
    tree = json.loads(tokenizer.engine.to_str())
    trees: dict[str, Any] = {
        "tokenizer.json": tree if lexicon.foreign else tree | {"post_processor": template(task, tokenizer)},
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", **names},
    }
    if translates or task.kind == "language":
        trees["generation_config.json"] = keys | ({"num_beams": 5, "max_length": 512} if translates else {})
    return keys, {name: json.dumps(content) for name, content in trees.items()}


def template(task: TaskSpec, tokenizer: Tokenizer) -> dict[str, Any]:
    """How a text begins and ends, as the task reads it: a source has only an end, running text only a beginning."""
    named = {"begin": tokenizer.begin, "end": tokenizer.end, "separator": tokenizer.separator}
    tokens = {name: tokenizer.pieces([number])[0] for name, number in named.items() if number is not None}

    def special(name: str, side: int) -> dict[str, Any]:
        return {"SpecialToken": {"id": tokens[name], "type_id": side}}

    first, second = ({"Sequence": {"id": name, "type_id": side}} for side, name in enumerate("AB"))
    opening = [] if task.form == "pairs" and task.kind != "embedding" else [special("begin", 0)]
    closing = [] if task.kind == "language" else ["separator" if task.fields().get("joined") else "end"]
    middle = "separator" if "separator" in tokens else "end"
    return {
        "type": "TemplateProcessing",
        "single": [*opening, first, *(special(name, 0) for name in closing)],
        "pair": [*opening, first, special(middle, 0), second, *(special(name, 1) for name in closing)],
        "special_tokens": {
            token: {"id": token, "ids": [named[name]], "tokens": [token]} for name, token in tokens.items()
        },
    }
