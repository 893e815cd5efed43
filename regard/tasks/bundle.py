"""A model with all that belongs to it: its tokenizers, what it was trained for, what came with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from regard.core.model import Model, ModelSpec
from regard.data.lexicon import Lexicon
from regard.data.origin import Origin
from regard.data.processor import read_processor
from regard.decode.pipeline import Pipeline
from regard.tasks.task import Beside, TaskSpec
from regard.tasks.vector import MODULES

CONTEXT = ("max_position_embeddings", "n_positions", "n_ctx")  # how a config.json calls the longest text


@dataclass
class Bundle:
    """A model and all that belongs to it, wherever it comes from."""

    model: Model
    lexicon: Lexicon | None  # None: there is no tokenizer
    task: TaskSpec | None  # what it was trained for, if it was trained here
    about: dict[str, Any] | None = None  # what is known of a model from elsewhere that wasn't trained here
    config: Mapping[str, Any] = field(default_factory=dict)  # the config.json of a model from elsewhere
    family: dict[str, Any] | None = None  # the model as its family describes it
    origin: Origin | None = None  # what came with a model from elsewhere, or with the one that it was trained from
    beside: Beside = lambda _: None  # what its run keeps beside it, by the folder
    plugins: Mapping[str, str] = field(default_factory=dict)  # the digests of those that it was made with, by name

    def pipeline(self, purpose: TaskSpec | None = None) -> Pipeline:
        """What a user asks: a translator, a writer, …; `purpose`: another than its own, where it will serve.

        Where there is no tokenizer, it has the model and can't be asked anything else.
        """
        task = purpose or self.purpose()
        if self.lexicon is None:
            return Pipeline(self.model, task=task, config=self.config)
        # what was trained here reads texts as it did then; what wasn't, as its tokenizer's file says
        lexicon = self.lexicon if self.task is None else replace(self.lexicon, foreign=False)
        kept = {"config.json": json.dumps(dict(self.config)).encode()} if self.config else {}
        found = task.pipeline(self.model, lexicon, self.origin or Origin(kept))
        found.task, found.config, found.beside = task, self.config, self.beside
        return found

    def purpose(self) -> TaskSpec:
        """What it was trained for, or what it can do by its make."""
        return self.task or infer_task(self.model.spec, self.config, self.origin)


def infer_images(picture: tuple[int, int, int], origin: Origin | None) -> TaskSpec:
    """Labelling pictures, which come to the model's size as its own files say."""
    fit = read_processor(origin or Origin(), picture).fit
    return TaskSpec.parse({"kind": "images", "size": picture[:2], "fit": fit})


def infer_task(spec: ModelSpec, config: Mapping[str, Any], origin: Origin | None = None) -> TaskSpec:
    """What a model from elsewhere can do, by its make; a folder of sentence-transformers makes vectors."""
    head = None if spec.head is None else spec.head.answers
    if origin is not None and MODULES in origin.files and head not in ("classes", "tags"):
        return TaskSpec.parse("embedding")
    if spec.encoder is not None and spec.decoder is not None:
        return TaskSpec.parse("translation")
    if head == "classes" and spec.main.embedding.picture is not None:
        return infer_images(spec.main.embedding.picture, origin)
    if spec.decoder is not None and head == "words":
        told = next((config[key] for key in CONTEXT if isinstance(config.get(key), int)), None)
        return TaskSpec.parse({"kind": "language"} | ({} if told is None else {"context": told}))
    kinds = {"words": "masking", "classes": "classification", "tags": "tagging"}
    return TaskSpec.parse(kinds.get(head or "", "embedding"))
