"""A run's task and model, made for each other: from settings, from words, and from the model that it goes on from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from regard.core.model import ModelSpec
from regard.data.canvas import Canvas
from regard.data.lexicon import Lexicon
from regard.errors import SpecError
from regard.models import families
from regard.runs.spec import ModelChoice, RunSpec
from regard.tasks.bundle import Bundle
from regard.tasks.task import TaskSpec


@dataclass(frozen=True)
class Assembly:
    """What is learned, by which model, and how that model's family describes it. It is made once for a run."""

    task: TaskSpec  # as this model can learn it
    model: ModelSpec
    family: Mapping[str, Any] | None  # its settings; None: a model of one's own
    choice: ModelChoice | None  # None: it goes on from a model that was trained before

    @classmethod
    def make(cls, spec: RunSpec, origin: Bundle | None = None) -> Assembly:
        """Before the words are known; `origin`: the model that the run goes on from, if it does."""
        if origin is not None:
            model, family = origin.model.spec, origin.family
        else:
            assert spec.model is not None
            model, chosen = spec.model.spec, spec.model.family
            family = None if chosen is None else chosen.model_dump(mode="json")
        return cls(spec.task.adapt_to(model), model, family, spec.model if origin is None else None)

    def with_words(self, lexicon: Lexicon) -> Assembly:
        """The same with a vector for each token, if there are any, for pictures as they are, if there are any, and with
        the head that the task needs for its labels.
        """
        sized = self if lexicon.words is None else self._resize(*(len(part) for part in lexicon.words))
        sized = sized if lexicon.canvas is None else sized._redraw(lexicon.canvas)
        model = self.task.fit_model(give_head(sized.model, self.task, sized.family), lexicon)
        return replace(sized, model=model, family=tell_classes(sized.family, model))

    def _resize(self, source: int, target: int) -> Assembly:
        """The same with a vector for each of so many tokens."""
        family = self.family
        if self.choice is None:
            return replace(self, model=self.model.grow(source, target))
        insist_on_vocabulary(self.choice, source, target)
        if family is None:
            return self
        return replace(self, model=self.model.resize(source, target), family={**family, "vocabulary": target})

    def _redraw(self, canvas: Canvas) -> Assembly:
        """The same, described as a model for such pictures; the task gives it to them."""
        if self.choice is not None:
            insist_on_picture(self.choice, canvas)
        told = {"image": canvas.height if canvas.height == canvas.width else canvas.shape[:2]}
        sizes = {**told, "channels": canvas.channels}
        family = self.family
        if family is None:
            return self
        return replace(self, family={**family, **{name: size for name, size in sizes.items() if name in family}})


def tell_classes(family: Mapping[str, Any] | None, model: ModelSpec) -> Mapping[str, Any] | None:
    """The settings of a family, with as many classes as its model's head has, where they say how many."""
    count = None if model.head is None else model.head.label_count
    return family if family is None or count is None or "classes" not in family else {**family, "classes": count}


def insist_on_picture(choice: ModelChoice, canvas: Canvas) -> None:
    """Refuse a model that was told to read other pictures than the corpus has."""
    stacks = (stack for stack in (choice.spec.encoder, choice.spec.decoder) if stack is not None)
    drawn = next((stack.embedding.picture for stack in stacks if stack.embedding.picture is not None), None)
    if drawn is None:
        return  # the task says that it reads none
    height, width, channels = drawn
    wrong = {"image": (height, width) != canvas.shape[:2], "channels": channels != canvas.channels}
    # a family's usual size is nobody's wish
    told = next((name for name in wrong if wrong[name] and (name in choice or choice.family is None)), None)
    if told is not None:
        reads, has = (f"{one[0]} × {one[1]} × {one[2]}" for one in (drawn, canvas.shape))
        raise SpecError(
            f"model.{told}: it reads pictures of {reads} (height, width, channels), and those of the corpus are {has}",
            f"leave model.{told} out: it follows from the pictures; task.size and task.channels change those",
        )


def insist_on_vocabulary(choice: ModelChoice, source: int, target: int) -> None:
    """Refuse a model that was told to have another number of tokens than the tokenizers have."""
    given = choice.get("vocabulary", target)
    if given != target:
        raise SpecError(
            f"model.vocabulary: {given}, and the tokenizer has {target} tokens",
            "leave model.vocabulary out: it follows from the tokenizer",
        )
    if choice.family is not None:
        return
    spec = choice.spec
    sizes = {"encoder": source if spec.decoder is not None else target, "decoder": target}
    for side, stack in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        held = None if stack is None else stack.embedding.token_count
        if held not in (None, sizes[side]):  # None: it doesn't read tokens
            raise SpecError(f"model.{side}.embedding.vocabulary: {held}, and the tokenizer has {sizes[side]} tokens")


def give_head(model: ModelSpec, task: TaskSpec, settings: Mapping[str, Any] | None) -> ModelSpec:
    """A model with its family's own head for a task, unless its head is of that kind; whoever knows the family knows
    this head too, so what was trained here can be sent out.
    """
    if settings is None or task.answers is None or (model.head is not None and model.head.answers == task.answers):
        return model
    family = families()[str(settings.get("kind"))]
    make = family.heads.get(task.answers)
    return model if make is None else model.replace(head=make(family.settings.parse(settings)))
