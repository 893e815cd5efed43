"""The run file: one tree of settings that says everything about a run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import GetCoreSchemaHandler, model_validator
from pydantic_core import CoreSchema, core_schema

from regard.core.hint import suggest_preset
from regard.core.model import ModelSpec
from regard.core.registry import Kinds
from regard.core.spec import Count, FileName, Spec, StandIn, show_value
from regard.data.batches import BatchSpec
from regard.data.corpus import CorpusSpec
from regard.data.tokenizer import TokenizerSpec
from regard.errors import SpecError
from regard.host.machine import Device
from regard.models import Settings, presets
from regard.tasks.task import TaskSpec
from regard.tasks.translation import TranslationTaskSpec
from regard.train.goal import Goal
from regard.train.spec import TrainSpec


class ModelChoice(dict[str, Any], StandIn):
    """The model that a run file asks for, as the file says it: a preset's name as its kind, and changes to it; or a
    whole spec of one's own, of the kind `model`.

    It is composed and drawn here, once, so that each mistake is told at its place in the file. All else about a run's
    model follows from `spec`.
    """

    roles: ClassVar[tuple[type[Spec], ...]] = (Settings, ModelSpec)
    words: ClassVar[str] = "preset or settings"

    def __init__(self, settings: Mapping[str, Any], spec: ModelSpec, family: Settings | None) -> None:
        super().__init__(settings)
        self.spec = spec  # for the family's usual number of tokens
        self.family = family  # its settings; None: the file describes a whole model

    @property
    def name(self) -> str:
        """The preset, or `model`."""
        return str(self["kind"])

    @classmethod
    def read(cls, value: Any) -> ModelChoice:
        """What a run file says, validated by the family's own rules."""
        if isinstance(value, cls):
            return value
        settings = {"kind": value} if isinstance(value, str) else value
        if not isinstance(settings, dict):
            raise ValueError(f"a preset's name, or settings with a kind, and not {show_value(value)}")
        name, changes = settings.get("kind"), {key: item for key, item in settings.items() if key != "kind"}
        if name == "model":
            return cls(settings, ModelSpec.model_validate(settings), None)
        known = presets()
        if not isinstance(name, str) or name not in known:
            raise ValueError(f"no preset is called {show_value(name)}{suggest_preset(name, ['model', *known])}")
        family = known[name]
        chosen = family.settings.model_validate(family.tree(name, changes))
        try:
            spec = family.compose(chosen)
            spec.build("meta")
        except SpecError as error:
            # a family's own settings stand below `model` here
            error.hint = re.sub(r"^(?=[a-z_.]+=)", "model.", error.hint)
            raise ValueError(str(error)) from None
        return cls(settings, spec, chosen)

    @classmethod
    def find_spec(cls, data: Any) -> type[Spec] | None:
        kind = data.get("kind") if isinstance(data, Mapping) else data
        if kind == "model":
            return ModelSpec
        return presets()[kind].settings if isinstance(kind, str) and kind in presets() else None

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(cls.read)


class RunSpec(Spec):
    """All that a run is made of."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds()
    home: ClassVar[str | None] = ""
    kind: Literal["run"] = "run"
    uses: tuple[str, ...] = ()
    """These plug-ins are loaded first: modules, or files beside the run file."""
    task: TaskSpec = TranslationTaskSpec()
    """What is learned."""
    data: FileName = "."
    """The folder in which the corpus's files are looked for."""
    corpus: CorpusSpec
    """Where the samples come from."""
    tokenizer: TokenizerSpec = TokenizerSpec()
    """How text is cut into tokens."""
    batches: BatchSpec = BatchSpec()
    """How samples are put together."""
    model: ModelChoice | None = None
    """A preset's name, with changes to it if wanted, or a whole model of one's own (kind model)."""
    start: FileName | None = None
    """A run, or a folder in Hugging Face layout, whose model is trained further."""
    train: TrainSpec
    """How long, how fast, and what is kept."""
    seed: Count = 1
    """The same seed trains the same model."""
    device: Device = "auto"
    """The device that computes; auto takes the best that is there."""
    out: FileName
    """The folder that the run is written to."""

    @model_validator(mode="after")
    def check(self) -> Self:
        if (self.model is None) == (self.start is None):
            have, way = ("neither", "model=PRESET or start=RUN") if self.model is None else ("both", "model=null")
            raise ValueError(f"a model to begin with, or a start to go on from: there are {have}\n  try: {way}")
        if self.train.adapt is not None and self.start is None:
            raise ValueError("train.adapt: adapters change a model that was trained; try start=RUN")
        if self.tokenizer.dropout and not isinstance(self.task, TranslationTaskSpec):
            raise ValueError(f"tokenizer.dropout: only translation cuts words anew, and the task is {self.task.kind}")
        if self.train.goal is not None:
            try:
                Goal.choose(self.train.goal, self.task.known_measures())
            except SpecError as error:
                raise ValueError(str(error)) from None
        return self
