"""Bringing checkpoints in and sending them out, as the command line does it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.core.model import Model
from regard.data.tokenizer import BEGIN, END, PAD, UNKNOWN, Tokenizer
from regard.errors import RegardError
from regard.hub.check import largest_difference
from regard.hub.ctranslate2 import converted
from regard.hub.fetch import fetched
from regard.hub.load import imported, is_folder
from regard.hub.save import exported, plan_for
from regard.models import presets
from regard.run import Run, found, load, network

Format = Literal["hf", "ctranslate2"]


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


def bring(noun: str, out: Path | None, check: bool) -> Brought:
    """Read a folder in Hugging Face layout, downloaded first if wanted, and compare it with transformers if wanted."""
    folder = Path(noun)
    if noun.startswith("hf:"):
        name = noun.removeprefix("hf:")
        folder = fetched(name, out or Path(name.rpartition("/")[2]))
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
    return facts


def send(noun: str, to: Format, folder: Path) -> list[Path]:
    """Write a model for others."""
    if to == "hf":
        return _to_hugging_face(noun, folder)
    if is_folder(Path(noun)):
        arrived = imported(Path(noun))
        if arrived.tokenizers is None:
            raise RegardError(f"{noun}: there is no tokenizer in it, and CTranslate2 wants the words")
        return converted(arrived.model, *arrived.tokenizers, folder)
    speaker = load(noun)
    assert isinstance(speaker.network, Model)
    return converted(speaker.network, speaker.source, speaker.target, folder)


def _to_hugging_face(noun: str, folder: Path) -> list[Path]:
    """A run's model, its tokenizer and how it generates."""
    run, checkpoint = Run.open(Path(noun.partition("@")[0])), found(noun)
    kind = run.spec.model["kind"]
    if kind not in presets():
        raise RegardError(f"{noun}: a model of one's own has no family, so no Hugging Face layout either")
    if not (checkpoint.path / "tokenizer.json").exists():
        raise RegardError(f"{noun}: that layout has one vocabulary, and this run has two", "tokenizer.shared=true")
    content = checkpoint.read("tokenizer.json")
    changes = run.spec.model | {"vocabulary": len(Tokenizer.parse(content, f"{checkpoint.path}/tokenizer.json"))}
    family = presets()[kind]
    settings = family.settings.parse(family.tree(kind, {key: changes[key] for key in changes if key != "kind"}))
    plan = plan_for(family, settings, noun)
    special = {"pad_token_id": Tokenizer.pad, "eos_token_id": Tokenizer.end, "bos_token_id": Tokenizer.begin}
    starts = special | {"decoder_start_token_id": Tokenizer.begin, "forced_eos_token_id": None}
    names = {"pad_token": PAD, "unk_token": UNKNOWN, "bos_token": BEGIN, "eos_token": END}
    files = {
        "tokenizer.json": ending(json.loads(content)),
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", **names},
        "generation_config.json": starts | {"num_beams": 5, "max_length": 512},
    }
    return exported(plan, network(checkpoint), folder, starts, {name: json.dumps(tree) for name, tree in files.items()})


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
