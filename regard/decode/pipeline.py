"""What a trained model is for its users: a translator, a writer, … All have the same attributes, and each knows the
command that uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from regard.core.model import Model
from regard.core.packed import find_precision
from regard.core.spec import Spec
from regard.data.picture import Fit
from regard.data.tokenizer import Tokenizer
from regard.decode.ensemble import Ensemble
from regard.decode.reading import Reading
from regard.errors import InputError

if TYPE_CHECKING:
    import regard

KEEPING = ("save", "save_pretrained", "push_to_hub")  # what others call writing a model to a folder


@dataclass(repr=False)
class Pipeline:
    """A model, ready to be asked. Where there is no tokenizer, there is nothing to ask it but the model itself."""

    usage: ClassVar[str] = "eval {}"  # what one types after `regard`; the braces are for the model's name
    reads: ClassVar[Literal["texts", "pictures", "graphs"]] = "texts"  # what it is asked about
    verbs: ClassVar[tuple[str, ...]] = ()  # the methods that ask it something; a call does the first
    model: Model | Ensemble
    task: Spec | None = field(default=None, kw_only=True)  # what it learned, or what it can do by its make
    config: Mapping[str, Any] = field(default_factory=dict, kw_only=True)  # the run file, or others' config.json
    # what its run keeps beside it, by the folder: the model that it began as (start), the one that judged it (judge)
    beside: Callable[[str], Any] = field(default=lambda _: None, kw_only=True)

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer] | None:
        """Of what it reads and of what it writes; the same one twice where there is one; None: it has none."""
        return None

    @property
    def precision(self) -> str:
        """What its weights are packed to, or fp32; `int8 + fp32` where the models of an ensemble differ."""
        models = self.model.models if isinstance(self.model, Ensemble) else (self.model,)
        return " + ".join(dict.fromkeys(map(find_precision, models)))

    def lay_out(self, text: Any, target: str | None = None) -> Reading:
        """What the model reads of a text, or of a picture, and what each position is to answer."""
        raise InputError(f"what a {type(self).__name__} reads isn't laid out to be looked at", ".model(…, probe=…)")

    def look(self, text: Any, target: str | None = None, *, names: str | Sequence[str] = "*") -> regard.Look:
        """What the model computes on a text, to be looked at; `target`: what it is to write, for one that translates.

        For a model that reads pictures: a picture or its path, and the caption that a captioner is to write. `names`:
        patterns of what the look is about. Nothing is computed before it is asked for.

        >>> import regard
        >>> look = regard.load("runs/en-fr").look("the cat sleeps", names="*.cross.weights")
        >>> list(look.weights())
        ['decoder.blocks.0.cross.weights']
        """
        import regard

        return regard.look(self, text, target, names=names)

    @classmethod
    def command(cls, noun: str | Path) -> str:
        """What one types to use a model by its name."""
        return f"regard {cls.usage.format(quote(str(noun)))}"

    def __repr__(self) -> str:
        facts = [f"{self.model.parameter_count():,} parameters", f"on {self.model.device}"]
        if self.tokenizers is not None:
            sizes = dict.fromkeys(len(tokenizer) for tokenizer in self.tokenizers)
            facts.insert(1, f"{' and '.join(f'{size:,}' for size in sizes)} tokens")
        if self.task is not None:
            facts.append(f"task {self.task.kind}")
        return f"<{type(self).__name__}: {', '.join(facts)}>"

    def __call__(self, *texts: Any, **settings: Any) -> Any:
        """What it is for, with the arguments of its first verb: `translator(…)` is `translator.translate(…)`."""
        if not self.verbs:
            raise TypeError(f"a {type(self).__name__} has no tokenizer to read with; ask its network: .model(tokens)")
        return getattr(self, self.verbs[0])(*texts, **settings)

    def __getattr__(self, name: str) -> Any:
        """Only for what isn't there: say what is."""
        hint = "" if name.startswith("_") else f"; {self._advise(name)}"
        raise AttributeError(f"a {type(self).__name__} has no attribute {name!r}{hint}")

    def _advise(self, name: str) -> str:
        """What there is in the place of a name that others' pipelines have."""
        if name in KEEPING:
            return (
                "its network is kept by .model.save(FOLDER); for other programs, in a shell: regard export RUN FOLDER"
            )
        return f"it has {', '.join(f'.{verb}(…)' for verb in self.verbs) or '.model, its network'}"


@dataclass(repr=False)
class PicturePipeline(Pipeline):
    """One that is asked about pictures, all of one size."""

    reads: ClassVar[Literal["texts", "pictures", "graphs"]] = "pictures"
    # how pictures of other sizes come to the model's, unless it is said; None: as it was trained, or not at all
    fit: Fit | None = field(default=None, kw_only=True)


def refuse_target(pipeline: Pipeline, target: str | None) -> None:
    """For those that write nothing of what they read: a target would be passed over in silence."""
    if target is not None:
        told = f"this {type(pipeline).__name__} reads one {pipeline.reads.removesuffix('s')}, and a target is given too"
        raise InputError(told, "leave it out: a target is for translators, and a caption for captioners")
