"""A fair comparison of recipes: the same data in the same order, the same budget, several seeds, measured the same way.

What would make it unfair is refused before anything is trained: another task, corpus, tokenizer or way of making
batches. The budget takes the place of those in the recipes. Each run is trained in a process of its own, one at a time,
so that its peak memory is its own; what is compared was measured on validation data at the end of the budget.
"""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from regard.config import Document, spell_word
from regard.core.spec import show_value
from regard.data.prepared import Prepared
from regard.errors import InputError, SpecError
from regard.host.files import explain_disk_errors, replace
from regard.host.meter import SILENT, Meter
from regard.runs.budget import Budget, format_amount
from regard.runs.campaign import Campaign, compare_told, name_data, spell_out
from regard.runs.flops import FlopCount, count_steps
from regard.runs.folder import Run
from regard.runs.listing import read_object
from regard.runs.match import count_weights, match_parameters
from regard.runs.resolve import RUN
from regard.runs.spec import RunSpec
from regard.runs.standing import Standing, choose_goal, insist_on_validation, read_standing
from regard.runs.uses import load_uses
from regard.tasks.measures import Measure, average
from regard.train.goal import Goal
from regard.train.trainer import Archive

SHARED = ("task.", "corpus.", "tokenizer.", "batches.", "data", "train.goal", "device")  # what all must agree in
PROBES = "probes.json"  # what was found of each recipe before it was trained
PROBED = 2  # steps whose time is taken, the first of which pays for memory


@dataclass(frozen=True)
class ContestEntry:
    """One trained run of a recipe."""

    recipe: str
    seed: int
    run: str
    standing: Standing
    flops: float  # that its training took: those of a token, as counted, for all of its tokens


@dataclass(frozen=True)
class ContestResult:
    """All runs of a contest."""

    goal: Goal
    budget: Budget
    entries: list[ContestEntry]
    words: Mapping[str, Sequence[str]]  # by recipe: what sized its model
    found: int  # runs that were there already

    @property
    def recipes(self) -> list[str]:
        return list(dict.fromkeys(entry.recipe for entry in self.entries))

    @property
    def measures(self) -> list[str]:
        """Those that every run has, the goal first."""
        every = [name for name in self.entries[0].standing.measures if self._all_have(name)]
        return sorted(every, key=lambda name: name != self.goal.measure)

    def _all_have(self, name: str) -> bool:
        return all(name in entry.standing.measures for entry in self.entries)

    def collect(self, recipe: str, measure: str) -> list[float]:
        """A measure of each run of a recipe, in the order of the seeds."""
        return [entry.standing.measures[measure] for entry in self.entries if entry.recipe == recipe]

    def average(self, recipe: str, measure: str) -> Measure:
        """Over seeds, with a 95 % interval."""
        return average(self.collect(recipe, measure))

    def subtract(self, recipe: str, measure: str) -> Measure:
        """How much more a recipe has of a measure than the first one, paired by seeds: those share an order of data."""
        pairs = zip(self.collect(recipe, measure), self.collect(self.recipes[0], measure), strict=True)
        return average([one - other for one, other in pairs])

    def average_costs(self, recipe: str) -> dict[str, float]:
        """What the runs of a recipe took, as means over seeds."""
        own = [entry for entry in self.entries if entry.recipe == recipe]
        names = ("parameters", "steps", "tokens", "seconds", "peak_memory")
        costs = {name: sum(asdict(entry.standing)[name] for entry in own) / len(own) for name in names}
        return costs | {"flops": sum(entry.flops for entry in own) / len(own)}

    def conclude(self, recipe: str) -> str:
        """What the seeds say of a recipe and the first one, in a sentence."""
        first, name = self.recipes[0], self.goal.measure
        difference, seeds = self.subtract(recipe, name), len(self.collect(recipe, name))
        if seeds == 1:
            return f"{recipe} has {difference.value:+.4g} {name} against {first}; one seed shows no difference."
        apart = f"{difference.value:+.4g} {name}, 95 % interval {difference.low:+.4g} to {difference.high:+.4g}"
        over = f"paired over {seeds} seeds"
        if not math.isfinite(difference.value) or difference.low <= 0 <= difference.high:
            return f"No difference shown between {recipe} and {first}: {apart}, {over}."
        better = (difference.value > 0) == self.goal.rising
        return f"{recipe} is {'better' if better else 'worse'} than {first}: {apart}, {over}."


@dataclass(frozen=True)
class RecipeProbe:
    """What a few steps of a recipe told."""

    count: FlopCount
    step_tokens: int  # of the first step
    step_seconds: float

    def grant(self, budget: Budget, name: str) -> Budget:
        """The budget as a run file has it; one without room for a step is refused."""
        given = budget
        if budget.unit == "flops":
            given = Budget("tokens", budget.amount // self.count.per_token)
        used = {"tokens": self.step_tokens, "minutes": self.step_seconds / 60, "steps": 1}[given.unit]
        needs = used * self.count.per_token if budget.unit == "flops" else used
        if given.amount < used:
            raise InputError(
                f"--budget {budget}: one step of {name} takes {format_amount(needs)} {budget.unit}, so it is too small",
                f"--budget {budget.unit}={format_amount(1000 * needs)}, which is about 1,000 steps",
            )
        return given


@dataclass
class Contest:
    """Recipes by name, to be compared at one budget."""

    recipes: Mapping[str, Document]
    budget: Budget
    seeds: int
    out: Path
    match: bool = False
    apart: bool = True  # each run has a process of its own; otherwise peak memory is that of everything done here

    def conduct(self, meter: Meter = SILENT) -> ContestResult:
        """Check everything, train what isn't there, and measure."""
        documents = {name: self._set_up(document) for name, document in self.recipes.items()}
        specs = {name: RunSpec.parse(document.tree, document.where) for name, document in documents.items()}
        self._insist_on_fairness(specs)
        first = next(iter(specs.values())).seed
        seeds = range(first, first + self.seeds)
        with tempfile.TemporaryDirectory(prefix="regard-compare-") as place:
            ready = {name: self._make_ready(name, documents[name], specs, Path(place), meter) for name in documents}
            self._insist_on_same_samples(ready)
            sized = self._match(documents, ready) if self.match else documents
            with meter.watch("counting operations, recipes", len(sized)) as advance:
                probes = {}
                for name, document in sized.items():
                    probes[name] = self._probe(document, Path(place) / f"{name}-probe", ready[name])
                    advance()
            budgets = {name: probe.grant(self.budget, name) for name, probe in probes.items()}
            runs = {
                f"{name}-seed-{seed}": document.change(
                    [*budgets[name].spell(), f"seed={seed}", spell_out(self.out / f"{name}-seed-{seed}")]
                )
                for seed in seeds
                for name, document in sized.items()
            }
            campaign = Campaign(runs, apart=self.apart, ready=next(iter(ready.values())))
            trained = campaign.conduct(meter)
        entries = []
        for name, probe in probes.items():
            for seed in seeds:
                run = trained[f"{name}-seed-{seed}"]
                standing = read_standing(run)
                flops = probe.count.per_token * standing.tokens
                entries.append(ContestEntry(name, seed, str(run.folder), standing, flops))
        changes = {name: _list_changes(documents[name], sized[name]) for name in sized}
        goal = choose_goal(next(iter(trained.values())))
        return ContestResult(goal, self.budget, entries, changes, len(campaign.found))

    def _set_up(self, document: Document) -> Document:
        """A recipe without its own budget: a step, until its real one is known."""
        load_uses(document)
        # patience would end one run before the other
        return document.change([*Budget("steps", 1).spell(), "train.patience=0", spell_out(self.out / "probe")])

    def _insist_on_fairness(self, specs: Mapping[str, RunSpec]) -> None:
        if len(specs) < 2:
            raise InputError("a comparison needs two recipes at least", "regard compare --recipes a.yaml b.yaml")
        if self.seeds < 1:
            raise InputError(f"--seeds {self.seeds}: there must be one at least", "--seeds 3")
        (first, one), *others = specs.items()
        for place, (name, other) in enumerate(others, 1):
            differing = compare_told(_settle(one), other)
            sides = (str(Path(one.data).resolve()), str(Path(other.data).resolve()))
            differing |= {} if sides[0] == sides[1] else {"data": sides}
            for key, (mine, its) in differing.items():
                if key.startswith(SHARED) or key in ("task", "corpus", "tokenizer", "batches"):
                    told = f"{key}: {show_value(mine)} in {first}, and {show_value(its)} in {name}"
                    raise SpecError(
                        f"{told}; recipes are compared on the same data, in the same order",
                        f"{spell_word(key, mine)} after the recipes, which changes all of them",
                    )
            for before, earlier in list(specs.items())[:place]:
                same = not compare_told(_settle(earlier), other.replace(seed=earlier.seed))
                if same and earlier.start == other.start:
                    raise InputError(f"{before} and {name} say the same: there is nothing to compare", "other recipes")

    def _make_ready(
        self, name: str, document: Document, specs: Mapping[str, RunSpec], place: Path, meter: Meter
    ) -> Prepared:
        """The corpus as a recipe reads it: as a run of this contest, or another recipe, has made it ready, or anew."""
        data = name_data(_settle(specs[name]))
        like = next(other for other in specs if name_data(_settle(specs[other])) == data)
        folder = self.out / f"{name}-seed-{next(iter(specs.values())).seed}"
        if like == name and (folder / RUN).exists() and name_data((there := Run.open(folder)).spec) == data:
            return there.prepared()
        folder = place / like
        run = (
            Run.open(folder)
            if (folder / RUN).exists()
            else Run.begin(document.change([spell_out(folder)]), meter=meter)
        )
        insist_on_validation(run)
        return run.prepared()

    def _insist_on_same_samples(self, ready: Mapping[str, Prepared]) -> None:
        """Refuse recipes whose models were left without samples that others have, or bring words of their own."""
        (first, own), *others = ready.items()
        for name, other in others:
            if (own.digest, own.facts["samples"]) != (other.digest, other.facts["samples"]):
                told = f"{name} doesn't learn from the same samples as {first}: its model has room for other lengths"
                raise SpecError(told, "one model.context for all, or a smaller batches.longest")

    def _match(self, documents: Mapping[str, Document], ready: Mapping[str, Prepared]) -> dict[str, Document]:
        """The same recipes, with models of as many weights as the first one has."""
        (first, document), *others = documents.items()
        target = count_weights(document, ready[first].lexicon)
        sized = {name: match_parameters(name, other, ready[name].lexicon, target) for name, other in others}
        return {first: document, **sized}

    def _probe(self, document: Document, place: Path, ready: Prepared) -> RecipeProbe:
        """Begin a recipe's run where it will be thrown away, and make a few steps; what was found is kept beside the
        runs, for a contest that goes on.
        """
        spec = _settle(RunSpec.parse(document.tree, document.where))
        key = hashlib.sha256(f"{Run(place, spec).digest} {ready.digest}".encode()).hexdigest()
        notes = self.out / PROBES
        known = read_object(notes)
        if isinstance(told := known.get(key), dict):
            return RecipeProbe(FlopCount(**told["count"]), told["step_tokens"], told["step_seconds"])
        run = Run.begin(document.change([spell_out(place)]), ready=ready)
        found = RecipeProbe(count_steps(run), _measure_step(run), _time_step(run))
        with explain_disk_errors(self.out, 0):
            self.out.mkdir(parents=True, exist_ok=True)
            replace(notes, json.dumps({**known, key: asdict(found)}, indent=1).encode())
        return found


def _list_changes(before: Document, after: Document) -> list[str]:
    """The words that size a model."""
    if before is after:
        return []
    return [f"model.{key}={after.tree['model'][key]}" for key in ("width", "hidden") if key in after.tree["model"]]


def _settle(spec: RunSpec) -> RunSpec:
    """A run file that says which readers are meant, as that of a run does."""
    return spec.replace(corpus=spec.corpus.settle(spec.task.form, Path(spec.data)))


def _measure_step(run: Run) -> int:
    """How many tokens the first step of a run predicts."""
    task = run.trainer().task
    places = task.batches(0, 0)
    try:
        return sum(task.size(place.batch) for place in islice(places, run.spec.train.accumulate))
    finally:
        places.close()


def _time_step(run: Run) -> float:
    """How many seconds a step of a run takes."""
    short = run.spec.train.replace(steps=PROBED, minutes=None, tokens=None, epochs=None, evaluate=0)
    trainer = Run(run.folder, run.spec.replace(train=short), run.prepared()).trainer()
    trainer.archive, trainer.task.validation = Archive(), []
    trainer.task.begin(trainer.model, trainer.use_start, lambda: None)  # what is computed once is no step's
    started = time.monotonic()
    trainer.run()
    return (time.monotonic() - started) / PROBED
