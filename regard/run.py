"""A run: one file that says everything, and one folder that holds everything.

`run.yaml` is the file as it was resolved, `data/` the corpus made ready, `checkpoints/` what was saved, `metrics.jsonl`
what was measured. A run is named by its folder: `RUN` is its average if one was made, otherwise the checkpoint that
validated best; `RUN@best`, `RUN@latest`, `RUN@average` and `RUN@step-2000` say which.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
import yaml
from pydantic import field_validator

import regard
from regard.config import Document, read
from regard.core.model import Model, ModelSpec
from regard.core.spec import Count, FileName, Spec, quoted, told
from regard.data.batches import BatchSpec
from regard.data.corpus import CorpusSpec
from regard.data.prepared import REPORT, Prepared, prepare
from regard.data.tokenizer import Tokenizer, TokenizerSpec
from regard.decode.pipeline import Translator
from regard.errors import Busy, CheckpointError, InputError, RegardError, SpecError
from regard.hub.load import imported, is_folder
from regard.hub.npz import pronouncer
from regard.hub.words import foreign
from regard.models import preset, presets
from regard.tasks.task import TaskSpec
from regard.tasks.translation import Translate, Translation
from regard.train.checkpoint import Checkpoint, Store, reported, write
from regard.train.listener import Listener
from regard.train.trainer import Trainer, TrainSpec, fill, fits

Device = Literal["auto", "cpu", "cuda", "mps"]
IMPORT = "import.json"  # of a folder that holds a model from elsewhere, and was never trained here


class RunSpec(Spec):
    """All that a run is made of."""

    kinds: ClassVar[dict[str, type[Spec]]] = {}
    kind: Literal["run"] = "run"
    task: TaskSpec = Translation()
    data: FileName = "."  # where the corpus's files are looked for
    corpus: CorpusSpec
    tokenizer: TokenizerSpec = TokenizerSpec()
    batches: BatchSpec = BatchSpec()
    model: dict[str, Any]  # a preset's name as its kind, and changes to it; or a whole spec, of the kind `model`
    train: TrainSpec
    seed: Count = 1
    device: Device = "auto"
    out: FileName

    @field_validator("model", mode="before")
    @classmethod
    def known(cls, value: Any) -> Any:
        """Validate the settings with the family's own rules, so that each problem is told where it stands."""
        chosen = {"kind": value} if isinstance(value, str) else value
        if not isinstance(chosen, dict):
            return chosen
        name, changes = chosen.get("kind"), {key: item for key, item in chosen.items() if key != "kind"}
        if name == "model":
            ModelSpec.model_validate(chosen)
        elif not isinstance(name, str) or name not in presets():
            raise ValueError(f"no preset is called {quoted(name)}{told(name, ['model', *presets()])['hint']}")
        else:
            family = presets()[name]
            settings = family.settings.model_validate(family.tree(name, changes))
            try:
                family.compose(settings).build("meta")
            except SpecError as error:
                raise ValueError(str(error)) from None
        return chosen


def composed(settings: Mapping[str, Any], source: int, target: int) -> ModelSpec:
    """The model of a run, for vocabularies of so many tokens."""
    name, changes = settings["kind"], {key: item for key, item in settings.items() if key != "kind"}
    if name == "model":
        spec = ModelSpec.parse(settings)
    else:
        given = changes.setdefault("vocabulary", target)
        if given != target:
            raise SpecError(
                f"model.vocabulary: {given}, and the tokenizer has {target} tokens",
                "leave model.vocabulary out: it follows from the tokenizer",
            )
        if source != target:
            changes["source_vocabulary"] = source
        spec = preset(name, **changes)
    if spec.encoder is None or spec.decoder is None:
        missing = "encoder" if spec.encoder is None else "decoder"
        raise SpecError(f"model: {name} has no {missing}, and translation needs both", "model=transformer-tiny")
    for side, stack, size in (("encoder", spec.encoder, source), ("decoder", spec.decoder, target)):
        held = stack.embedding.fields().get("vocabulary")
        if held != size:
            raise SpecError(f"model.{side}.embedding.vocabulary: {held}, and the tokenizer has {size} tokens")
    return spec


def device(name: Device) -> torch.device:
    """Where to compute; `auto` takes a GPU if there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    elif (name == "cuda" and not torch.cuda.is_available()) or (
        name == "mps" and not torch.backends.mps.is_available()
    ):
        raise SpecError(f"device: {name} isn't available on this machine", "device=auto")
    return torch.device(name)


def versions() -> dict[str, str]:
    import numpy
    import tokenizers

    return {
        "regard": regard.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "tokenizers": tokenizers.__version__,
    }


@dataclass
class Run:
    """A folder with everything that a run needs and left."""

    folder: Path
    spec: RunSpec

    @property
    def store(self) -> Store:
        return Store(self.folder / "checkpoints", self.spec.train.keep)

    @classmethod
    def open(cls, folder: Path) -> Run:
        """A run that was begun."""
        path = folder / "run.yaml"
        if not path.is_file():
            there = "there is no such folder" if not folder.exists() else "there is no run.yaml in it"
            raise CheckpointError(f"{folder}: not a run, {there}", "regard train CONFIG out=" + str(folder))
        document = read(path)
        return cls(folder, RunSpec.parse(document.tree | {"out": str(folder)}, document.where))

    @classmethod
    def begin(
        cls, document: Document, report: Callable[[str], None] = lambda _: None, ready: Prepared | None = None
    ) -> Run:
        """Check everything, make the corpus ready, and write the folder; on a mistake nothing is left behind.

        `ready`: what another run has made ready of the same corpus, to be copied.
        """
        spec = RunSpec.parse(document.tree, document.where)
        device(spec.device)
        folder = Path(spec.out)
        run = cls(folder, spec)
        with reported(folder, 0):
            if (folder / "run.yaml").exists():
                raise RegardError(f"{folder}: a run is there already", f"regard resume {folder}, or out=ANOTHER")
            if folder.exists() and (not folder.is_dir() or {item.name for item in folder.iterdir()} - {"lock", "data"}):
                raise RegardError(f"{folder}: is there already and isn't a run", "out=ANOTHER")
            fresh = not folder.exists()
            folder.mkdir(parents=True, exist_ok=True)
            try:
                with run.lock():
                    run._prepare(report, ready)
            except BaseException:
                shutil.rmtree(folder if fresh else folder / "data", ignore_errors=True)
                raise
        return run

    def _prepare(self, report: Callable[[str], None], ready: Prepared | None) -> None:
        spec, data = self.spec, self.folder / "data"
        shutil.rmtree(data, ignore_errors=True)
        if ready is not None:
            shutil.copytree(ready.folder, data)
            prepared = self.prepared()
        else:
            like = None if spec.tokenizer.like is None else Path(spec.tokenizer.like) / "data"
            prepared, log = prepare(spec.corpus, spec.tokenizer, spec.batches.longest, Path(spec.data), data, like)
            report(f"data: {log.summary()}")
            if log.reasons:
                report(f"data: every such line is in {data / REPORT}")
        model = self._model(prepared).build("meta")
        sizes = " and ".join(f"{size:,}" for size in dict.fromkeys(len(part) for part in prepared.tokenizers))
        report(f"model: {model.parameter_count():,} parameters, a vocabulary of {sizes}")
        facts = {"versions": versions(), "data": prepared.digest, "config": self.digest}
        write(self.folder / "run.json", json.dumps(facts, indent=1).encode())
        write(self.folder / "run.yaml", self.resolved().encode())

    def resolved(self) -> str:
        """The run file with every default filled in."""
        return yaml.safe_dump(self.spec.model_dump(mode="json"), sort_keys=False, allow_unicode=True)

    @property
    def digest(self) -> str:
        """Equal for runs that are told to do the same, wherever they are."""
        tree = self.spec.model_dump(mode="json")
        for place in ("out", "data"):
            del tree[place]
        return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()

    def prepared(self) -> Prepared:
        return Prepared.load(self.folder / "data", self.spec.tokenizer.dropout)

    def task(self, prepared: Prepared) -> Translate:
        assert isinstance(self.spec.task, Translation)
        return self.spec.task.build(prepared, self.spec.batches, self.spec.seed)

    def _model(self, prepared: Prepared) -> ModelSpec:
        source, target = prepared.tokenizers
        return composed(self.spec.model, len(source), len(target))

    def trainer(self, prepared: Prepared, listeners: Sequence[Listener] = ()) -> Trainer:
        """A trainer at the start of the run."""
        torch.manual_seed(self.spec.seed)
        model = self._model(prepared).build()
        identity = {"config": self.digest, "data": prepared.digest, "versions": versions()}
        files = {name: (prepared.folder / name).read_bytes() for name in prepared.facts["tokenizers"]}
        return Trainer(
            model.to(device(self.spec.device)),
            self.task(prepared),
            self.spec.train,
            listeners,
            self.store,
            files,
            identity,
            f"regard resume {self.folder}",
        )

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other trainers out, for as long as this process lives."""
        import fcntl

        path = self.folder / "lock"
        with path.open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.seek(0)
                owner = file.read().strip() or "another process"
                raise Busy(f"{self.folder}: {owner} is training in it", "wait for it, or out=ANOTHER") from None
            file.truncate(0)
            file.write(f"process {os.getpid()}")
            file.flush()
            yield


def found(noun: str) -> Checkpoint:
    """The checkpoint that `RUN`, `RUN@best`, `RUN@latest`, `RUN@average` or `RUN@step-2000` names."""
    name, _, which = noun.partition("@")
    folder = Path(name)
    if not (folder / "run.yaml").is_file() and not (folder / IMPORT).is_file():
        Run.open(folder)  # says what is wrong
    damaged: list[str] = []
    store, average = Store(folder / "checkpoints", warn=damaged.append), Store(folder / "average")
    if match := re.fullmatch(r"step-(\d+)", which):
        return store.at(int(match[1]))
    if which not in ("", "best", "latest", "average"):
        raise RegardError(f"{noun}: {which!r} is no checkpoint", f"{name}@best, @latest, @average or @step-N")
    wanted = average.latest() if which in ("", "average") else None
    if wanted is None and which == "average":
        raise CheckpointError(f"{name}: there is no average", f"regard average {name} --last 5")
    newest = wanted or store.latest()
    if newest is None:
        raise CheckpointError(damaged[0] if damaged else f"{name}: nothing was saved yet", f"regard resume {name}")
    for line in damaged:
        print(f"regard: {line}; an older one is used", file=sys.stderr)
    if which in ("latest", "average") or wanted is not None:
        return newest
    try:
        ranking = newest.json("state")["moment"]["ranking"]
        return store.at(int(ranking[0][1])) if ranking else newest
    except (TypeError, LookupError, ValueError, OverflowError):
        raise CheckpointError(f"{newest.path}/state.json: damaged, its ranking can't be read") from None


def weights(checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    """The weights to use: the running average where there is one."""
    tensors = checkpoint.tensors("model")
    if (checkpoint.path / "average.safetensors").exists():
        tensors |= checkpoint.tensors("average")
    return tensors


def network(checkpoint: Checkpoint) -> Model:
    """A checkpoint's model, ready to use. Shapes are compared before memory is taken."""
    name = f"{checkpoint.path}/model.safetensors"
    spec, tensors = ModelSpec.parse(checkpoint.json("spec")), weights(checkpoint)
    deepest = max(stack.depth for stack in (spec.encoder, spec.decoder) if stack is not None)
    if deepest > len(tensors):  # drawing so many layers would take its time
        raise CheckpointError(f"{name}: {len(tensors)} weights, and the model has {deepest} layers")
    fits(spec.build("meta"), tensors, name)
    model = spec.build()
    fill(model, tensors, name)
    return model.eval()


def load(noun: str, where: Device = "auto") -> Translator:
    """A run, ready to translate: `load("runs/en-fr").translate("I like the green cat.", beam=5)`.

    Or a folder in Hugging Face layout, if its model is an encoder and a decoder; or the npz file of `g2p-en`.
    """
    if noun.endswith(".npz"):
        return pronouncer(Path(noun))
    if is_folder(Path(noun)):
        arrived = imported(Path(noun))
        return _translator(noun, arrived.model.to(device(where)), arrived.tokenizers)
    checkpoint = found(noun)
    shared = (checkpoint.path / "tokenizer.json").exists()
    names = ["tokenizer.json"] * 2 if shared else ["tokenizer.source.json", "tokenizer.target.json"]
    model = network(checkpoint)
    about = brought(checkpoint)
    if about is not None:
        there = all((checkpoint.path / name).exists() for name in names)
        cutters = tuple(foreign(checkpoint.read(name), name, about["config"]) for name in names) if there else None
        return _translator(noun, model.to(device(where)), cutters)
    source, target = (Tokenizer.parse(checkpoint.read(name), f"{checkpoint.path}/{name}") for name in names)
    for side, stack, tokenizer in (("encoder", model.spec.encoder, source), ("decoder", model.spec.decoder, target)):
        held = None if stack is None else stack.embedding.fields().get("vocabulary")
        if held != len(tokenizer):
            raise CheckpointError(f"{checkpoint.path}: its {side} knows {held} tokens, its tokenizer {len(tokenizer)}")
    return Translator(model.to(device(where)), source, target)


def brought(checkpoint: Checkpoint) -> dict[str, Any] | None:
    """What is known of a model that came from elsewhere; None for what was trained here."""
    about = checkpoint.json("state").get("import")
    types = {"type": str, "class": str, "settings": dict, "config": dict}
    if about is None:
        return None
    if not isinstance(about, dict) or not all(isinstance(about.get(key), kind) for key, kind in types.items()):
        raise CheckpointError(f"{checkpoint.path}/state.json: damaged, where the model comes from can't be read")
    return about


def _translator(noun: str, model: Model, cutters: tuple[Tokenizer, ...] | None) -> Translator:
    """A model that came from elsewhere, if it can translate."""
    if model.encoder is None or model.decoder is None or cutters is None:
        lacks = "it has no tokenizer" if cutters is None else "only an encoder with a decoder translates"
        raise InputError(f"{noun}: {lacks}", "regard.load(FOLDER).model is the network")
    return Translator(model, cutters[0], cutters[-1])
