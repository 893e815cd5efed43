"""What is said of settings that can't be used: where each stands, what is wrong, and what to write instead.

A setting that nobody knows may be another toolkit's word for one of ours, or one of ours that stands elsewhere. It is
looked for where it was written, then one level up, and so on, and only what this very run can have is offered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from pydantic import ValidationError

from regard.core.foreign import CALLS, FOREIGN, KINDS, NAMELESS, NEEDLESS, Alias
from regard.core.hint import nearest, suggest
from regard.core.setting import descend, has_key, settle
from regard.core.spec import LONGEST, MOST, Spec, show_value
from regard.errors import InputError

Place = tuple[str | int, ...]
Level = tuple[Place, type[Spec], Any]  # where a spec stands, its class, and its data


def explain(
    error: ValidationError, spec: type[Spec], settings: Any = None, where: Callable[[Place], str] = lambda _: ""
) -> str:
    """One line for each problem: where it is, what is wrong, and what was given or is meant."""
    lines: list[str] = []
    for item in error.errors(include_url=False)[:MOST]:
        place = find_place(item["loc"], settings)
        # a run file is all there is around its settings, so it has no name among them
        name = ".".join(map(str, place)) or ("" if spec.home == "" else spec.__name__)
        message = item["msg"].removeprefix("Value error, ")
        given = item["input"]
        hides = isinstance(given, dict | Spec) or item["type"] == "missing"
        hides = hides or (isinstance(given, str) and show_value(given) in message)  # it is told already
        if item["type"] == "unknown":
            told = advise(spec, settings, place, given, item["ctx"]["known"])
            message, hides = f"{message}{told}", hides or "=" in told
        elif item["type"] in ("kind", "literal_error"):
            message = advise_kind(place, given, message, item.get("ctx", {}).get("expected", ""))
        shown = "" if hides else f" (given: {show_value(given)})"
        lines.append(f"{where(place)}{name}{': ' * bool(name)}{message[:1].lower()}{message[1:]}{shown}")
    return "\n".join(dict.fromkeys(lines))


def find_place(location: Place, settings: Any) -> Place:
    """Where a problem is in the data; pydantic names the branches of a choice too, and those aren't places."""
    parts = [part for part in location if "[" not in str(part)]
    if not isinstance(settings, dict):
        return tuple(parts)
    place: list[str | int] = []
    node: Any = settings
    for part in parts:
        if not isinstance(node, dict | list | tuple) or (not isinstance(node, dict) and isinstance(part, str)):
            break  # inside a plain value there are no places
        place.append(part)
        if isinstance(node, dict):
            node = node.get(str(part))
        else:
            node = node[part] if isinstance(part, int) and part < len(node) else None
    return tuple(place)


def advise(spec: type[Spec], settings: Any, place: Place, value: Any, known: list[str]) -> str:
    """The end of a message about an unknown setting: what to write instead, or all that is known at its place."""
    word, levels = str(place[-1]) if place else "", climb(spec, settings, place)
    if word.lower() in NEEDLESS:
        return f"; {NEEDLESS[word.lower()]}"
    # a row that has no value like this one is the second choice: a bool `early_stopping` isn't a number of evaluations
    rows = sorted(FOREIGN.get(word.lower(), []), key=lambda row: row.closed and not translate_value(row, value)[1])
    for above, level, data in levels:
        prefix = "".join(f"{part}." for part in above)
        for row in rows:
            path = locate(row, level, data)
            if path is not None:
                return f"; did you mean {write_assignment(row, f'{prefix}{path}', value)}?{write_note(row)}"
    names = [name for name in known if name != "kind"]
    if rows:
        places = [row.place.lstrip(".") for row in rows if not row.place.startswith(".")]
        ours = " or ".join(dict.fromkeys(places))
        return f"; our word for it is {ours}, and nothing here has that; known: {', '.join(sorted(names))}"
    near = suggest(word, names)
    if near.startswith("; known") and (slip := suggest(word, ["kind"])).startswith("; did"):
        near = slip  # it isn't listed among the settings, but it may be meant
    for above, level, data in levels if near.startswith("; known") else []:
        found = [".".join(map(str, (*above, path))) for path in find_keys(level, data, word)]
        if len(found) == 1 and not isinstance(value, dict):
            return f"; did you mean {found[0]}={write_value(value)}?"
        if found:
            return f"; which one? {', '.join(found)}"
    return near


def advise_kind(place: Place, given: Any, message: str, expected: str = "") -> str:
    """A message about a word that is none of those that may stand at a place, and what may have been meant by it."""
    kind = given.get("kind") if isinstance(given, Mapping) else given
    here = str(place[-1]) if place else ""
    if not isinstance(kind, str):
        return message
    ours = KINDS.get(here, {}).get(kind.lower())
    listing = message.partition("; known:")[0]
    if ours is not None:
        return f"{listing}; did you mean {ours.format(place='.'.join(map(str, place)))}?"
    if here in NAMELESS and "; known:" in message:
        return f"{listing}; {NAMELESS[here]}"
    near = nearest(kind, re.findall(r"'([^']*)'", expected))
    return f"{message}; did you mean {near!r}?" if near else message


def climb(spec: type[Spec], settings: Any, place: Place) -> list[Level]:
    """The specs around a setting, from the one that it stands in outwards.

    What is inside a part of a model ends there: `hidden_size` within `ffn` isn't the model's width.
    """
    levels: list[Level] = []
    level, data = settle(spec, settings), settings
    for n, part in enumerate(place):
        if level is None:
            levels = []  # whatever stands further out, it is unknown what lies between
        else:
            levels = [(place[:n], level, data), *([] if str(level.home).startswith(".") else levels)]
        if isinstance(part, int):
            data = data[part] if isinstance(data, list | tuple) and part < len(data) else None
            level = settle(level, data)
        else:
            level = None if level is None else descend(level, data, part)
            data = data.get(part) if isinstance(data, Mapping) else None
    return levels


def find_keys(spec: type[Spec], data: Any, word: str, deepest: int = 3) -> list[str]:
    """Where a spec has a setting of this very name, inside what it is made of."""
    found = [word] if word in spec.model_fields and word != "kind" else []
    for key in spec.model_fields if deepest > 1 else ():
        inner = descend(spec, data, key)
        if inner is not None and not str(inner.home).startswith("."):
            below = data.get(key) if isinstance(data, Mapping) else None
            found += [f"{key}.{path}" for path in find_keys(inner, below, word, deepest - 1)]
    return found


def locate(row: Alias, spec: type[Spec], data: Any) -> str | None:
    """Our setting as it is called from a spec, if the spec can have it: `train.optimizer.rate` is `rate` of AdamW."""
    if spec.home is None:
        return None
    prefix = f"{spec.home}." if spec.home else ""
    path = row.place.removeprefix(prefix)
    if not row.place.startswith(prefix) or not has_key(spec, data, path):
        return None
    around = path.rpartition(".")[0]
    beside = f"{around}.{row.beside}".lstrip(".")
    return path if not row.beside or has_key(spec, data, beside) else None


def write_assignment(row: Alias, place: str, value: Any) -> str:
    """`train.optimizer.rate=0.001`; the setting alone, where the value means something else here."""
    ours, carries = translate_value(row, value)
    if not carries:
        return place
    if not row.form:
        return f"{place}={write_value(ours)}"
    prefix = place.removesuffix(row.place.rpartition(".")[2])
    home = row.place.removesuffix(row.place.rpartition(".")[2])
    return row.form.format(value=write_value(ours)).replace(home, prefix)


def translate_value(row: Alias, value: Any) -> tuple[Any, bool]:
    """Their value as ours, and whether there is one."""
    if (row.note and not row.form and not row.values) or isinstance(value, dict | Spec):
        return None, False
    for form in (value, value.lower()) if isinstance(value, str) else (value,):
        if isinstance(form, str | int | float | bool) and form in row.values:
            return row.values[form], True
    return value, not row.closed


def write_value(value: Any) -> str:
    """A value as YAML has it, on one line, however large it is."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, list | tuple):
        return show_value(list(value)).replace(", ", ",")
    return value[:LONGEST] if isinstance(value, str) else show_value(value)


def write_note(row: Alias) -> str:
    """What must be said beside an assignment, as a sentence."""
    return f" {row.note[:1].upper()}{row.note[1:]}" if row.note else ""


def refuse(strange: Mapping[str, object]) -> NoReturn:
    """Say of an argument that a model's call doesn't know what is passed instead of it."""
    name = next(iter(strange))
    raise InputError(f"a model's call has no argument {name!r}", CALLS.get(name, "help(regard.Model)"))
