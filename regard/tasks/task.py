"""What every task is: what it wants of a corpus and of a model, batches in an order that can be resumed, a loss, and an
evaluation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeVar

from torch import Tensor

from regard.core.model import Model, ModelSpec
from regard.core.registry import Kinds
from regard.core.role import Answers
from regard.core.spec import Spec
from regard.data.batches import BatchSpec, ahead, endless
from regard.data.column import ColumnSpec
from regard.data.lexicon import Lexicon
from regard.data.origin import Origin
from regard.data.tokenizer import Tokenizer
from regard.decode.pipeline import Pipeline
from regard.errors import InputError, SpecError
from regard.tasks.example import Example
from regard.tasks.scores import SampleScores

if TYPE_CHECKING:
    from regard.data.prepared import Prepared
    from regard.data.sample import Form, Sample
    from regard.data.sieve import Row

B = TypeVar("B")
Pulse = Callable[[], None]  # called now and then in long work; it may raise to end it
Beside = Callable[[str], Any]  # what a run keeps beside its model, by the folder's name; None where it has none
Reference = Callable[[], AbstractContextManager[Model]]  # within it, the model as it was before the first step


class TaskSpec(Spec):
    """What is to be learned."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds("regard.tasks")
    home: ClassVar[str | None] = "task"
    usual: ClassVar[str | None] = "translation"
    form: ClassVar[Form]  # of the samples that it learns from
    words: ClassVar[bool] = True  # whether it reads or writes words; without, no tokenizer is learned
    answers: ClassVar[Answers | None] = None  # what its head gives, where families have heads of their own for that
    # numbers that its evaluations report, each with whether more of it is better: a run file may name one as its goal
    measures: ClassVar[Mapping[str, bool]] = {}
    writes: ClassVar[bool] = False  # what it learned is used by writing text, token by token
    searches: ClassVar[bool] = False  # it is measured by what a search writes, which has settings: its field `search`
    roles: ClassVar[tuple[str, str, str]] = ("given", "expected", "answer")  # what an example's sides are called

    @property
    def special(self) -> tuple[str, ...]:
        """Tokens that it needs beside the usual ones."""
        return ()

    def known_measures(self) -> Mapping[str, bool]:
        """What its evaluations report as this task is set, each with whether more is better."""
        return self.measures

    def name_judge(self) -> str | None:
        """The run whose model is asked while this is learned. It is copied into the run's own folder (`judge/`), and a
        task has it by `beside("judge")`, wherever the run goes.
        """
        return None

    def insist_on_judge(self, judge: Pipeline) -> None:
        """Refuse a judge that can't say what is asked of it."""

    def name_text(self) -> str | None:
        """The run whose text is learned beside. What that made ready is copied too (`text/`), and a task has it by
        `beside("text")`.
        """
        return None

    def insist_on_text(self, text: Prepared, lexicon: Lexicon) -> None:
        """Refuse text that can't be learned beside; `lexicon`: the tokens of the run itself."""

    def adapt_to(self, model: ModelSpec) -> Self:
        """This task as a model of such a make can learn it."""
        return self

    def fit_model(self, model: ModelSpec, lexicon: Lexicon) -> ModelSpec:
        """A model that can learn this, made from what was asked for: mostly, one with another head."""
        return model

    def receive(self, sample: Sample) -> Sample:
        """What is kept of a sample as it comes from a corpus, once for each; `Unusable` where it can't be learned from.

        Such a sample is left out, counted and located, as the corpus's policy says.
        """
        return sample

    def texts(self, sample: Sample) -> Sequence[str]:
        """What tokenizers learn from, if there are words; two texts where there are two languages."""
        raise NotImplementedError

    def labels(self, sample: Sample) -> Sequence[str]:
        """The labels in a sample."""
        return ()

    def letters(self, sample: Sample) -> Iterable[str]:
        """The letters in a sample, if words are to be spelled."""
        return ()

    def columns(self, lexicon: Lexicon) -> Mapping[str, ColumnSpec]:
        """What a sample becomes: columns of numbers, and what each of them holds of a sample."""
        raise NotImplementedError

    def encode(self, samples: Sequence[Sample], lexicon: Lexicon) -> Sequence[Row]:
        """Each sample as numbers, column by column: lists of tokens, or arrays as the columns declare them."""
        raise NotImplementedError

    def count_tokens(self, row: Row) -> int:
        """How many tokens of a sample count against the most that there may be."""
        return max(len(numbers) for numbers in row.values())

    def find_fault(self, row: Row) -> str:
        """Why a sample can't be used, though there is a place for each of its tokens; nothing where it can."""
        return ""

    def places(self, row: Row) -> Mapping[str, int]:
        """How many positions a sample takes of an encoder and of a decoder; here of the one that there is."""
        return dict.fromkeys(("encoder", "decoder"), self.count_tokens(row))

    @property
    def closing(self) -> tuple[Literal["end", "separator"], ...]:
        """What stands behind a text that its model reads."""
        return ("end",)

    def build(self, prepared: Prepared, batches: BatchSpec, seed: int) -> Task[Any]:
        """The task on one corpus."""
        raise NotImplementedError

    def choose_pipeline(self, model: ModelSpec) -> type[Pipeline]:
        """What a model of such a make is for its users, known before it is built."""
        return Pipeline

    def pipeline(self, network: Model, lexicon: Lexicon, origin: Origin | None = None) -> Any:
        """What a user asks, once the model has learned; `origin`: what came with the model, or with its start."""
        raise NotImplementedError

    def insist_measurable(self, pipeline: Any) -> None:
        """Refuse what answers in a way that samples of this form can't measure."""

    def measure(self, pipeline: Any, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> Mapping[str, Any]:
        """Every measure of a trained model on samples that it hasn't seen, with intervals."""
        raise NotImplementedError

    def score_samples(self, pipeline: Any, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> SampleScores:
        """What each answer of a trained model is worth by itself, for comparisons with other models."""
        raise InputError(
            f"runs that learned {self.kind} can't be compared yet", "regard eval RUN measures each of them"
        )

    def count_training(self, prepared: Prepared) -> Mapping[str, Counter[str]]:
        """How often training saw each word or label, by what `score_samples` calls them."""
        return {}

    def make_sample(self, text: str) -> Sample:
        """A sample of a text that a user typed: all that a model is given, and nothing that it should answer."""
        raise InputError(f"{self.kind}: it isn't asked by texts", "leave --text and --file out")

    def demonstrate(self, pipeline: Any, samples: Sequence[Sample]) -> list[Example]:
        """What a trained model makes of a few samples, one example each; a typed text has nothing to compare with.

        None of them where a task shows no examples.
        """
        return []


@dataclass
class Place(Generic[B]):
    """A batch, and where it stands in the order."""

    epoch: int
    position: int
    batch: B
    share: float  # of the epoch that is done with it


class Task(ABC, Generic[B]):
    """One thing to learn from one corpus."""

    goal: ClassVar[str]  # the measure that says which checkpoint is best, unless the run file names another
    rising: ClassVar[bool]  # whether more of it is better
    sorted_by: ClassVar[tuple[str, ...]] = ()  # columns whose lengths say which samples share a batch
    mixes: ClassVar[bool] = False  # whether samples of all lengths share a batch, since none is padded to another's
    counts: ClassVar[str] = "tokens"  # what `size` counts, for people who watch how fast a run is
    usual_rows: ClassVar[int | None] = None  # samples of a batch, unless told, where tokens can't say how many
    compares: ClassVar[bool] = False  # whether it asks what the model said as the run began (`begin`)
    expects: ClassVar[bool] = False  # whether its loss is the expected one over a mixer's steps (`expectation.py`)
    reinforces: ClassVar[bool] = False  # whether its loss teaches attention that draws where it looks (`reinforce.py`)

    def __init__(self, spec: Any, prepared: Prepared, batches: BatchSpec, seed: int) -> None:
        self.spec, self.prepared, self.seed = spec, prepared, seed
        self.plan = self.choose_plan(batches)
        # a run reads texts as it learns to, whatever the template of a tokenizer of others says
        self.lexicon, self.columns = replace(prepared.lexicon, foreign=False), prepared.columns
        self.validation = prepared.samples("validation") if prepared.has("validation") else []
        self.beside: Beside = lambda _: None  # a run gives its own

    def choose_plan(self, batches: BatchSpec) -> BatchSpec:
        """How large batches are, where the task has a usual number of samples."""
        return batches if batches.rows is not None else batches.replace(rows=self.usual_rows)

    @property
    def tokenizer(self) -> Tokenizer:
        """The one, for tasks with words of one language."""
        return self.lexicon.tokenizer

    def batches(self, epoch: int, position: int, rank: int = 0, ranks: int = 1) -> Generator[Place[B], None, None]:
        """Batches from a place in the order on, for ever, made ahead of the model.

        What is in one, and what chance does to it, follows from its place alone. Where there are several ranks, each
        takes one batch of as many at a time, and the place is that of the last of them: the same for all.
        """

        def make_all() -> Iterator[Place[B]]:
            places = endless(self.order, epoch, position)
            while group := list(islice(places, ranks)):
                number, place, (chosen, _) = group[rank]
                batch = self.make_batch(chosen, Random(f"{self.seed}/{number}/{place}"))
                number, place, (_, share) = group[-1]
                yield Place(number, place, batch, share)

        return ahead(make_all())

    def order(self, epoch: int) -> Iterator[tuple[Any, float]]:
        """What makes each batch of an epoch, and how much of the corpus is done with it."""
        done, lengths = 0, self.prepared.lengths(*self.sorted_by)
        for rows in self.plan.plan(lengths, self.seed, epoch, self.mixes):
            done += len(rows)
            yield rows, done / len(lengths)

    @abstractmethod
    def make_batch(self, rows: Any, chance: Random) -> B:
        """A batch, from what the order says of it."""

    @abstractmethod
    def loss(self, model: Model, batch: B) -> Tensor:
        """The sum over what is predicted, so that batches of different sizes can be added up.

        What the model's parts cost beside that, such as an uneven use of experts, is added by whoever trains.
        """

    @abstractmethod
    def size(self, batch: B) -> int:
        """How many predictions that is."""

    def evaluate(self, model: Model, pulse: Pulse) -> Mapping[str, Any] | None:
        """Measures on what isn't trained on; None if there is nothing of the kind."""
        return self.measure(model, pulse) if self.validation else None

    @abstractmethod
    def measure(self, model: Model, pulse: Pulse) -> Mapping[str, Any]:
        """Measures on the samples that were kept for validation."""

    @property
    def costs(self) -> Mapping[str, float]:
        """Weights that this task gives to what the model's parts report as costs; the others have their usual ones."""
        return {}

    def begin(self, model: Model, reference: Reference, pulse: Pulse) -> None:
        """Training begins, or goes on: get ready whatever needs the model. `reference`: the model as the run began."""

    def prepare(self, model: Model, batch: B) -> None:
        """Get what a batch needs of the model as it is now, just before its loss: answers that it draws itself."""

    def settle(self) -> None:
        """A batch's gradient was taken."""

    def report(self) -> Mapping[str, float]:
        """What the journal is told of the last step beside its loss: rewards, divergence, seconds by part."""
        return {}

    def memory(self) -> Mapping[str, Tensor]:
        """What the next batch needs to know of this one, for a checkpoint."""
        return {}

    def recall(self, model: Model, memory: Mapping[str, Tensor]) -> None:
        """Be again where a checkpoint was saved."""


def one_stack(model: ModelSpec, task: str) -> None:
    """Insist on an encoder or a decoder alone."""
    if model.encoder is not None and model.decoder is not None:
        raise SpecError(f"model: it has an encoder and a decoder, and {task} needs one of them", "model=bert-tiny")


def layer_of(model: ModelSpec, *answers: Answers) -> dict[str, Any]:
    """How a head with one of these answers gathers its states and what layer it has before, if it is there."""
    return {} if model.head is None or model.head.answers not in answers else model.head.layer_settings()
