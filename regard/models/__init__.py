"""One file for each family: its presets, as specs. A family enters itself when it is made.

A family describes itself by a few settings (width, depth, heads, …) and composes them into a model's spec. A preset is
those settings with values; `preset("gpt2", depth=4, width=128)` is one with others. The slots of a block can be filled
in every family: `preset("gpt2", mix="mamba")` (`fit.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Generic, TypeVar

from regard.config import merge
from regard.core.hint import suggest_preset
from regard.core.mixer import MixerSpec
from regard.core.model import ModelSpec
from regard.core.plugins import find_installed, load_installed
from regard.core.registry import Kinds, import_folder
from regard.core.role import AbsoluteSpec, FeedSpec, HeadSpec, NormSpec, RelativeSpec
from regard.core.spec import Spec
from regard.errors import SpecError
from regard.models.fit import fill
from regard.models.layout import Layout
from regard.models.slot import Choice, Say

SLOTS = ("mix", "cross", "ffn", "norm", "position")
PositionSlot = Annotated[Choice, Say((AbsoluteSpec, RelativeSpec))]


class Settings(Spec):
    """What a family of models lets one choose. A run file names a preset, or `model` for a whole model of one's own.

    The slots are every family's: as it has them, unless given; `none`: without.
    """

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds("regard.models")
    home: ClassVar[str | None] = "model"
    meanings: ClassVar[Mapping[str, str]] = {
        "width": "Every position is a vector of this many numbers.",
        "depth": "There are this many blocks.",
        "decoder_depth": "The decoder has this many blocks; unless given, as many as the encoder.",
        "heads": "There are this many attention heads.",
        "kv_heads": "There are this many heads of keys and values.",
        "hidden": "The feed-forward has this many hidden units.",
        "vocabulary": "There are vectors for this many tokens; in a run, the tokenizer says how many.",
        "source_vocabulary": "There are vectors for this many tokens of the source, where it has tokens of its own.",
        "context": "There are positions for this many tokens.",
        "activation": "The activation of the feed-forward.",
        "cell": "The kind of the recurrent cells.",
        "experts": "There are this many experts.",
        "top": "Each token goes through this many experts.",
        "base": "The base of the rotary angles: the larger, the slower the last channels turn.",
        "scaling": "Rotations are slowed in this way to reach past the context of training.",
        "eps": "The norms add this to the variance, so that nothing is divided by 0.",
        "share": "The encoder and the decoder use one table of token vectors.",
        "tied": "The token vectors themselves score the words.",
        "mix": "This mixes positions in each block; unless given, as the family has it.",
        "cross": "This mixes positions with the memory; unless given, as the family has it.",
        "ffn": "The feed-forward of each block; unless given, as the family has it; none: a block goes without.",
        "norm": "The norm around sublayers; unless given, as the family has it.",
        "position": "Positions are known by this; unless given, as the family has it; none: they aren't.",
        "dropout": "This share of each sublayer's output is dropped while training.",
        "attention_dropout": "This share of the attention weights is dropped while training.",
    }
    mix: Annotated[Choice, Say((MixerSpec,))] = None
    cross: Annotated[Choice, Say((MixerSpec,))] = None
    ffn: Annotated[Choice, Say((FeedSpec,))] = None
    norm: Annotated[Choice, Say((NormSpec,))] = None
    position: PositionSlot = None


S = TypeVar("S", bound=Settings)


@dataclass(frozen=True)
class Family(Generic[S]):
    """A name, the settings, how they become a spec, and the presets as settings that differ from the defaults."""

    settings: type[S]
    compose_own: Callable[[S], ModelSpec]  # the model as the family knows it, whatever was said of its slots
    presets: Mapping[str, Mapping[str, Any]]
    layouts: Mapping[str, Layout] = field(default_factory=dict)  # of Hugging Face checkpoints, by their model type
    heads: Mapping[str, Callable[[S], HeadSpec]] = field(default_factory=dict)  # how it makes a head for some answers

    def __post_init__(self) -> None:
        """Enter it under its settings' kind; another family of that name, or with a preset of one, is refused."""
        there = {name: family for name, family in FAMILIES.items() if name != self.name}
        taken = {preset: family.name for family in there.values() for preset in family.presets}
        for preset in self.presets:
            if preset in taken:
                raise SpecError(f"preset {preset!r} is taken by the family {taken[preset]}", "another name")
        FAMILIES[self.name] = self

    @property
    def name(self) -> str:
        return str(self.settings.model_fields["kind"].default)

    def compose(self, settings: S) -> ModelSpec:
        """The model that settings describe, its slots filled with what was said of them."""
        fields, usual = settings.fields(), self.settings.model_fields
        said = {slot: fields[slot] for slot in SLOTS if fields[slot] not in (None, usual[slot].default)}
        return fill(self.compose_own(settings), self.name, fields, said)

    def preset(self, name: str, overrides: Mapping[str, Any]) -> ModelSpec:
        chosen = self.settings.parse(self.tree(name, overrides))
        return self.compose(chosen).note_family(chosen.model_dump(mode="json"))

    def tree(self, name: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
        """All settings of a preset as plain data, with some of them changed; not yet validated."""
        return merge(self.settings.parse(self.presets[name]).model_dump(), overrides)


FAMILIES: dict[str, Family[Any]] = {}


def families() -> dict[str, Family[Any]]:
    """Every family by its name: those of this folder, and those of plug-ins."""
    import_folder(__name__)
    find_installed()
    return dict(sorted(FAMILIES.items()))


def presets() -> dict[str, Family[Any]]:
    """Every preset's family, by the preset's name."""
    return {name: family for family in families().values() for name in family.presets}


def preset(name: str, /, **overrides: Any) -> ModelSpec:
    """The spec of a preset, with other settings if wanted.

    >>> import regard
    >>> regard.preset("gpt2").build("meta").parameter_count()
    124439808
    >>> regard.preset("transformer-tiny", mix="mamba").encoder.blocks[0].mix.kind
    'mamba'
    """
    known = presets()
    if name not in known:
        load_installed()  # a plug-in that can't be imported may have it
        raise SpecError(f"no preset is called {name!r}{suggest_preset(name, known)}")
    return known[name].preset(name, overrides)


def head_count(width: int, heads: int | None, size: int) -> int:
    """How many heads, unless given: one for each `size` channels."""
    return heads or max(1, width // size)
