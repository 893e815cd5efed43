"""What a run's folder tells of it, for a report: state, settings, curves, evaluations, speed, memory, versions.

Weights aren't read here. A folder that is damaged or half written tells what is left of it, with a note of what is
missing; none of it is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

from regard.config import read
from regard.core.spec import show_value
from regard.errors import CheckpointError, RegardError
from regard.lens.curves import Curves, find_peak_memory, is_number, read_curves
from regard.runs.folder import flatten
from regard.runs.listing import UNREADABLE, RunRow, describe_run, explain, read_object
from regard.runs.resolve import PREPARING, RUN, is_run, no_run, split_noun
from regard.runs.results import read_notes
from regard.runs.show import draw
from regard.runs.spec import RunSpec
from regard.tasks.task import TaskSpec
from regard.train.checkpoint import Store, inspect
from regard.train.listener import read_journal

# each fact of a run with what it is counted in; a report tells those that some run has
FACTS = {
    "state": "text",
    "task": "text",
    "model": "text",
    "parameters": "count",
    "best": "text",
    "steps": "count",
    "tokens": "count",
    "time": "seconds",
    "speed": "tokens a second",
    "waiting for batches": "share",
    "peak memory": "bytes",
    "memory of a generated token": "bytes",
    "memory whatever the length": "bytes",
    "data": "digest",
    "samples": "text",
    "seed": "text",
    "begun from": "text",
    "machine": "text",
    "versions": "text",
    "plug-ins": "text",
    "changed": "date",
    "space on disk": "bytes",
}
NUMBERS = ("count", "seconds", "tokens a second", "share", "bytes", "date")


@dataclass
class Account:
    """What there is to tell of one run."""

    noun: str
    label: str  # what a report calls it
    folder: Path
    row: RunRow
    facts: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)  # the run file on one level: train.optimizer.rate
    text: str = ""  # the run file
    curves: Curves = field(default_factory=Curves)
    rising: dict[str, bool] = field(default_factory=dict)  # which measures are better when there is more of them
    goal: str = ""  # the measure that says which checkpoint is best
    tokenizers: dict[str, str] = field(default_factory=dict)  # digests: equal where text is cut alike
    tests: list[dict[str, Any]] = field(default_factory=list)  # what was measured afterwards, and recorded
    notes: list[str] = field(default_factory=list)  # what is damaged or missing

    @property
    def digest(self) -> str:
        """Equal for runs on the same samples."""
        return str(self.facts.get("data", ""))

    @property
    def best(self) -> int | None:
        """Which of its evaluations was best."""
        return max((n for n, best in enumerate(self.curves.best) if best), default=None)

    def as_json(self) -> dict[str, Any]:
        return {
            "run": self.noun,
            "label": self.label,
            "state": self.row.state,
            "facts": self.facts,
            "settings": self.settings,
            "goal": self.goal,
            "rising": self.rising,
            "curves": self.curves.as_json(),
            "best": self.best,
            "tests": self.tests,
            "notes": self.notes,
        }


def insist_on_run(noun: str, verb: str = "report") -> None:
    """Refuse what isn't a run; one that is damaged or half made is one. `verb`: what was to be done with it."""
    folder = Path(split_noun(noun)[0])
    if is_run(folder) or (folder / PREPARING).is_file():
        return
    below = [path for path in sorted(folder.iterdir()) if is_run(path)] if folder.is_dir() else []
    if below:
        raise CheckpointError(
            f"{folder}: not a run, but there are {len(below)} in it", f"regard {verb} {quote(str(folder))}/*"
        )
    raise no_run(folder)


def read_account(noun: str, label: str) -> Account:
    """All that a run's folder tells."""
    folder = Path(split_noun(noun)[0])
    found = Account(noun, label, folder, describe_run(folder))
    if found.row.problem:
        found.notes.append(found.row.problem)
    entries = _read_entries(found)
    found.curves = read_curves(entries)
    tree = _read_settings(found)
    state = _read_state(found)
    found.goal, found.rising = _read_goal(found, tree, state)
    found.tests, found.tokenizers = read_notes(folder), _read_tokenizers(folder)
    found.facts = _list_facts(found, tree, state, entries)
    return found


def _read_entries(account: Account) -> list[dict[str, Any]]:
    """The journal; a run that has none was brought in, or nobody has trained it yet."""
    if account.row.state in ("imported", "saved"):
        return []
    try:
        return read_journal(account.folder / "metrics.jsonl")
    except RegardError as error:
        account.notes.append(f"no curves: {error.message}")
        return []


def _read_settings(account: Account) -> dict[str, Any]:
    """The run file as a tree, with what earlier versions didn't know yet filled in where this one can read it."""
    path = account.folder / RUN
    if not path.is_file():
        return {}
    try:
        account.text = path.read_text(encoding="utf-8", errors="replace")
        tree = read(path).tree
    except (RegardError, OSError) as error:
        account.notes.append(f"no settings: {explain(error)}")
        return {}
    with suppress(*UNREADABLE):  # plug-ins that aren't loaded here, or another version's words: it tells as it is
        tree = RunSpec.parse(tree).model_dump(mode="json")
    account.settings = {name: value for name, value in flatten(tree).items() if name != "out"}  # each has its own
    return tree


def _read_state(account: Account) -> dict[str, Any]:
    """What the newest checkpoint that is whole says of the run."""
    try:
        newest = Store(account.folder / "checkpoints").latest(inspect)
        return {} if newest is None else newest.json("state")
    except UNREADABLE as error:
        account.notes.append(f"no checkpoint: {explain(error)}")
        return {}


def _read_goal(account: Account, tree: Mapping[str, Any], state: Mapping[str, Any]) -> tuple[str, dict[str, bool]]:
    """The measure that ranks, and which way measures are better, as far as it is known."""
    try:
        rising = dict(TaskSpec.parse(tree.get("task", "translation")).known_measures())
    except UNREADABLE:  # a task from outside that isn't loaded here
        rising = {}
    words = _branch(tree, "train").get("goal")
    if isinstance(words, str) and words[:1] in ("+", "-"):
        rising |= {words[1:]: words[0] == "+"}
    if account.row.measure or isinstance(words, str):
        return account.row.measure or str(words).lstrip("+-"), rising
    # earlier versions kept the best value, and not what it was of
    ranking, best = _branch(state, "moment").get("ranking"), account.best
    value = ranking[0][0] if ranking and best is not None else None
    same = (name for name, one in account.curves.measures.items() if best is not None and one.value[best] == value)
    return (next(same, "") if value is not None else ""), rising


def _read_tokenizers(folder: Path) -> dict[str, str]:
    files = _branch(read_object(folder / "data/data.json"), "files")
    return {name: str(told) for name, told in files.items() if name.startswith("tokenizer")}


def _list_facts(
    account: Account, tree: Mapping[str, Any], state: Mapping[str, Any], entries: list[dict[str, Any]]
) -> dict[str, Any]:
    """What is known of a run, by the names in FACTS; what isn't known isn't there."""
    row, begun = account.row, read_object(account.folder / "run.json")
    prepared, moment = read_object(account.folder / "data/data.json"), _branch(state, "moment")
    last = _find_last(entries)
    told: dict[str, Any] = {
        "state": _describe_state(row, entries),
        "task": row.task,
        "model": row.model,
        "parameters": row.parameters,
        "best": _describe_best(account),
        "steps": row.step or None,
        "tokens": max((one for one in (last.get("tokens"), moment.get("tokens")) if is_number(one)), default=None),
        "time": max((one for one in (last.get("seconds"), moment.get("seconds")) if is_number(one)), default=None),
        "speed": account.curves.speed,
        "waiting for batches": last.get("waiting"),
        "peak memory": find_peak_memory(entries),
        **_weigh_state(account),
        "data": state.get("data") or begun.get("data") or prepared.get("digest"),
        "samples": _describe_samples(prepared),
        "seed": tree.get("seed"),
        "begun from": tree.get("start"),
        "machine": begun.get("machine"),
        "versions": _describe_versions(begun.get("versions"), state.get("versions")),
        "plug-ins": ", ".join(map(str, _branch(begun, "plugins"))),
        "changed": row.changed or None,
        "space on disk": row.bytes,
    }
    # files may have been changed: what should be a number is one, and all else is shown as text
    plain = {name: told.get(name) if unit in NUMBERS else _spell(told.get(name)) for name, unit in FACTS.items()}
    return {name: value for name, value in plain.items() if (is_number(value) if FACTS[name] in NUMBERS else value)}


def _find_last(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """What the last entries say of tokens, seconds and waiting."""
    found: dict[str, Any] = {}
    for name in ("tokens", "seconds", "waiting"):
        found[name] = next((entry[name] for entry in reversed(entries) if is_number(entry.get(name))), None)
    return found


def _describe_state(row: RunRow, entries: list[dict[str, Any]]) -> str:
    """Done, and why; or how much of its budget a run has used."""
    if row.state == "done":
        reasons = [entry.get("reason") for entry in entries if entry["event"] == "end"]
        return "done: patience ended" if reasons[-1:] == ["patience"] else "done"
    share = next((entry["progress"] for entry in reversed(entries) if is_number(entry.get("progress"))), None)
    return row.state if share is None or row.state not in ("stopped", "training") else f"{row.state} at {share:.0%}"


def _describe_best(account: Account) -> str:
    best, series = account.best, account.curves.measures.get(account.goal)
    if best is None or series is None or (value := series.value[best]) is None:
        return ""
    return f"{account.goal} {value:.4g} at step {account.curves.evaluated.step[best]:,}"


def _describe_samples(prepared: Mapping[str, Any]) -> str:
    counts = {name: count for name, count in _branch(prepared, "samples").items() if type(count) is int}
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _describe_versions(begun: object, now: object) -> str:
    """Of all that a run was made with; where it went on with others, both."""
    before = begun if isinstance(begun, Mapping) else {}
    after = now if isinstance(now, Mapping) else before
    told = []
    for name in dict.fromkeys([*before, *after]):
        versions = dict.fromkeys(str(one[name]) for one in (before, after) if name in one)
        told.append(f"{name} {' → '.join(versions)}")
    return ", ".join(told)


def _weigh_state(account: Account) -> dict[str, int]:
    """What generation costs in memory, by the model's make."""
    which = split_noun(account.noun)[1]
    try:
        # by its whole path: a folder may have the name of a preset
        outline = draw(f"{account.folder.absolute()}{f'@{which}' if which else ''}")
    except UNREADABLE:  # nothing was saved, or it is damaged, which is noted already
        return {}
    if all(child.name != "decoder" for child in outline.tree.children):
        return {}
    return {
        "memory of a generated token": outline.state_bytes_per_token,
        "memory whatever the length": outline.state_bytes_fixed,
    }


def _spell(value: object) -> str:
    return "" if value is None else value if isinstance(value, str) else show_value(value)


def _branch(tree: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A table within a table; an empty one where something else is."""
    found = tree.get(name)
    return found if isinstance(found, Mapping) else {}
