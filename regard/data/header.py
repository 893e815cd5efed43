"""Names of columns: which field is what by its name, and header lines and swapped columns, which are asked about.

What looks like a mistake is never learned in silence: it is a `Doubt`, which knows the settings that settle it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from regard.core.spec import show_value
from regard.data.lines import Line
from regard.data.sample import Form, Sample
from regard.errors import Doubt

COLUMNS = """text texts sentence sentences content review reviews comment message question query document title body
    input utterance tweet phrase premise hypothesis source src target tgt translation word words token tokens form
    label labels class classes category categories sentiment polarity gold tag tags pos upos xpos ner chunk score
    rating stars emotion intent topic output answer picture image filename caption captions"""
LANGUAGES = """ar bg bn ca cs da de el en es et fa fi fr ga gl he hi hr hu id is it ja ko lt lv mk ms mt nb nl nn no pl
    pt ro ru sk sl sq sr sv sw ta th tr uk ur vi zh ara ces deu eng fra fre ger ita jpn nld pol por rus spa zho
    english french german spanish italian portuguese dutch russian chinese japanese korean arabic polish czech
    swedish danish norwegian finnish greek hebrew hindi turkish ukrainian français deutsch español italiano"""
NAMES, SIDES = frozenset(COLUMNS.split()), frozenset(f"{COLUMNS} {LANGUAGES}".split())
# codes of languages that are words, and may well be a first pair
ORDINARY = frozenset(("he", "hi", "id", "is", "it", "no"))
# what no class is called: `pos` or `question` may well be one
LABELS = frozenset(
    {"label", "labels", "class", "classes", "category", "sentiment", "polarity", "gold", "tag", "target"}
)
HINT = (
    "header: true leaves such a line out, header: false takes it (corpus.train.header=true, "
    "or --data '{path: FILE, header: true}')"
)
WAYS = {"leave the line out": {"header": True}, "it is a sample like others": {"header": False}}
# what fields are usually called, the likeliest first
USUAL = {
    "source": "source src input premise",
    "target": "target tgt output translation answer",
    "text": """text sentence content review comment message body document utterance tweet phrase question query
        premise input title""",
    "label": "label labels class category sentiment polarity gold stars rating score emotion intent topic tag target",
    "words": "words tokens word token form",
    "tags": "tags upos xpos ner pos chunk tag labels label",
    "picture": "picture image img file filename path name photo id",
    "texts": "texts captions caption text sentences sentence comment description raw",
}
WORD = re.compile(r"[^\W\d][\w .#/-]{0,29}")  # what a column may be called
WANTED = {
    "pairs": ("source", "target"),
    "documents": ("text",),
    "labels": ("text", "label"),
    "tags": ("words", "tags"),
    "images": ("picture", "label"),
    "captions": ("picture", "texts"),
    "pictures": ("picture",),
}
EARLY = 1000  # samples after which labels are counted first, so that a mistake in a large file is told soon
FEW = 20  # samples that say nothing about how many labels there are
SOME = 50  # samples among which a label is rarely alone


def body(lines: Iterator[Line], header: bool | None) -> Iterator[Line]:
    """The lines of a file without its header, if it is known to have one."""
    if header:
        next(lines, None)
    return lines


def refuse_names(place: str, columns: Mapping[str, str], cells: Sequence[str] = (), form: Form = "") -> None:
    """Refuse a file's first line where each column is a usual name for what it should hold.

    `cells`: the whole line, if there are further columns: names among names are names too.
    """
    known, texts = SIDES if "source" in columns else NAMES, columns.values()
    differ = len({text.lower() for text in texts}) > 1
    plain = differ and all(_names(text, known) for text in texts) and not all(_names(text, ORDINARY) for text in texts)
    if not plain and not _is_wide_header(cells):
        return
    shown = " and ".join(map(show_value, texts if plain else cells[:10]))
    guess = guess_fields(form, cells)
    by_name = f"{spell_settings(guess)}; or " if guess else ""
    ways: dict[str, Mapping[str, Any]] = {
        **({f"columns by name: {spell_settings(guess)}": guess} if guess else {}),
        **WAYS,
    }
    raise Doubt(
        f"{place}: {shown} look like the names of columns, not like a {' and a '.join(columns)}", by_name + HINT, ways
    )


def _is_wide_header(cells: Sequence[str]) -> bool:
    """Whether a line of three columns or more is made of short words, all different, two of them usual names."""
    words = {cell.strip().lower() for cell in cells}
    if len(cells) < 3 or len(words) < len(cells):
        return False
    return all(map(WORD.fullmatch, words)) and sum(_names(word, SIDES) and word not in ORDINARY for word in words) > 1


def guess_fields(form: Form, names: Sequence[str], strictly: bool = False) -> dict[str, str]:
    """Which of a file's fields are those of a form, by their names; nothing where that isn't clear.

    `strictly`: all of them by a usual name; otherwise the one that is left over may be called as it likes.
    """
    found: dict[str, str] = {}
    for wanted in WANTED.get(form, ()):
        left = [name for name in names if name not in found.values()]
        usual = USUAL[wanted].split()
        ranked = sorted((usual.index(part), n) for n, name in enumerate(left) for part in _parts(name) if part in usual)
        if ranked:
            found[wanted] = left[ranked[0][1]]
    languages = [name for name in names if any(part in LANGUAGES.split() for part in _parts(name))]
    if len(languages) > 2:  # `id` is a code too, and more often a number
        languages = [name for name in languages if not ORDINARY.intersection(_parts(name))]
    if form == "pairs" and len(languages) == 2:
        found = dict(zip(("source", "target"), languages, strict=True))
    missing = [wanted for wanted in WANTED.get(form, ()) if wanted not in found]
    left = [name for name in names if name not in found.values()]
    if len(missing) == 1 and len(left) == 1 and not strictly and form != "tags":
        found[missing[0]], missing = left[0], []
    return {} if missing else {wanted: found[wanted] for wanted in WANTED.get(form, ())}


def _parts(name: str) -> list[str]:
    """The words in a field's own name: `ner_tags`, `review.Text`, `sentence1`."""
    return re.findall(r"[^\W\d_]+", name.rpartition(".")[2].lower())


def spell_settings(settings: Mapping[str, Any]) -> str:
    """Settings as one types them in a run file: `source: en, header: true`."""
    spelled = {True: "true", False: "false", None: "null"}
    return ", ".join(
        f"{name}: {spelled[value] if value is None or isinstance(value, bool) else value}"
        for name, value in settings.items()
    )


def _names(text: str, known: frozenset[str]) -> bool:
    """Whether a text is made of such names: `sentence`, `sentence1`, `text_a`, `"gold_label"`, `English text`."""
    if len(text) > 30 or not re.fullmatch(r"[\w\s\"-]+", text) or re.search(r"\s\d", text):
        return False
    parts = re.findall(r"[^\W\d_]+", text.lower())
    return any(part in known for part in parts) and all(part in known or len(part) == 1 for part in parts)


def check_labels(samples: Iterable[Sample], many: bool, swapped: Mapping[str, Any], headless: bool) -> Iterator[Sample]:
    """The same samples, once it is sure that their labels are labels.

    `many`: even if there are many of them; `swapped`: what to type if they are texts; `headless`: nobody has said
    whether there is a header.
    """
    counts, number, first = Counter[str](), 0, ""
    for number, sample in enumerate(samples, 1):
        first = first or str(sample["place"])
        counts[sample["label"]] += 1
        if number == EARLY and not many:
            _refuse_many(counts, number, first, swapped)
        yield sample
    if not many:
        _refuse_many(counts, number, first, swapped)
    if counts and headless:
        _refuse_lone(counts, number, first)


def _refuse_many(counts: Counter[str], samples: int, place: str, swapped: Mapping[str, Any]) -> None:
    if samples >= FEW and len(counts) > samples / 2:
        raise Doubt(
            f"{place}: {show_value(next(iter(counts)))} and {len(counts) - 1} other labels for {samples} texts: "
            "are the columns swapped?",
            f"{spell_settings(swapped)}; or many: true, if nearly every text has a label of its own",
            {"swap them": swapped, "nearly every text has a label of its own": {"many": True}},
        )


def _refuse_lone(counts: Counter[str], samples: int, place: str) -> None:
    """Refuse a first label that never comes again and isn't like the others: the name of its column."""
    label, others = next(iter(counts)), list(counts.values())[1:]
    if counts[label] > 1 or not others or place.rpartition(":")[2] != "1":
        return
    numbers = not _number(label) and all(_number(other) for other in counts if other != label)
    alone = samples >= SOME and min(others) > 1
    if _names(label, LABELS) or numbers or alone:
        raise Doubt(
            f"{place}: the label {show_value(label)} stands there and nowhere else: is it a header?", HINT, WAYS
        )


def _number(label: str) -> bool:
    return re.fullmatch(r"[+-]?\d+([.,]\d+)?", label) is not None


def check_tags(samples: Iterable[Sample], many: bool, swapped: Mapping[str, Any]) -> Iterator[Sample]:
    """The same sentences, once it is sure that there are more kinds of words than of tags."""
    words, tags = set[str](), set[str]()
    for sample in samples:
        words.update(sample["words"])
        tags.update(sample["tags"])
        yield sample
    if not many and len(tags) > max(SOME, len(words)):
        raise Doubt(
            f"{len(tags)} tags for {len(words)} different words, such as {show_value(min(tags))}: "
            "are the columns swapped?",
            f"{spell_settings(swapped)}; or many: true, if it is so",
            {"swap them": swapped, "it is so": {"many": True}},
        )
