"""Bringing checkpoints in and sending them out, as the command line does it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.data.lexicon import Lexicon
from regard.data.tokenizer import BEGIN, END, PAD, UNKNOWN, Tokenizer
from regard.errors import RegardError
from regard.hub.check import largest_difference
from regard.hub.ctranslate2 import converted
from regard.hub.fetch import fetched
from regard.hub.load import Imported, imported, remembered
from regard.hub.onnx import written
from regard.hub.save import exported, plan_for
from regard.models import presets
from regard.noun import IMPORT, brought, found, network, parts
from regard.run import Run
from regard.train.checkpoint import Store, write

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
    run = Run.open(Path(noun.partition("@")[0]))
    chosen = run.spec.model
    if chosen is None or chosen["kind"] not in presets():
        raise RegardError(f"{noun}: a model of one's own has no family, so no Hugging Face layout either")
    kind = chosen["kind"]
    if not (checkpoint.path / "tokenizer.json").exists():
        raise RegardError(f"{noun}: that layout has one vocabulary, and this run has two", "tokenizer.shared=true")
    content = checkpoint.read("tokenizer.json")
    changes = chosen | {"vocabulary": len(Tokenizer.parse(content, f"{checkpoint.path}/tokenizer.json"))}
    family = presets()[kind]
    settings = family.settings.parse(family.tree(kind, {key: changes[key] for key in changes if key != "kind"}))
    plan = plan_for(family, settings, noun)
    special = {"pad_token_id": Tokenizer.pad, "eos_token_id": Tokenizer.end, "bos_token_id": Tokenizer.begin}
    starts = special | {"decoder_start_token_id": Tokenizer.begin, "forced_eos_token_id": None}
    names = {"pad_token": PAD, "unk_token": UNKNOWN, "bos_token": BEGIN, "eos_token": END}
    trees = {
        "tokenizer.json": ending(json.loads(content)),
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", **names},
        "generation_config.json": starts | {"num_beams": 5, "max_length": 512},
    }
    texts = {name: json.dumps(tree) for name, tree in trees.items()}
    return exported(plan, network(checkpoint), folder, starts, texts)


def ending(tokenizer: dict[str, Any]) -> dict[str, Any]:
    """The tokenizer of a source: every text is closed by the end, as our translator does it."""
    end = {"SpecialToken": {"id": END, "type_id": 0}}
    template = {
        "type": "TemplateProcessing",
        "single": [{"Sequence": {"id": "A", "type_id": 0}}, end],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, end, {"Sequence": {"id": "B", "type_id": 1}}, end],
        "special_tokens": {END: {"id": END, "ids": [Tokenizer.end], "tokens": [END]}},
    }
    return tokenizer | {"post_processor": template}
