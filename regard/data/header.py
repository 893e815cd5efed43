"""Header lines and swapped columns: what looks like the names of columns is asked about, never learned in silence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from regard.core.spec import show_value
from regard.data.lines import Line
from regard.data.sample import Sample
from regard.errors import DataError

COLUMNS = """text texts sentence sentences content review reviews comment message question query document title body
    input utterance tweet phrase premise hypothesis source src target tgt translation word words token tokens form
    label labels class classes category categories sentiment polarity gold tag tags pos upos xpos ner chunk score
    rating stars emotion intent topic output answer"""
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
HINT = "header: true leaves such a line out, header: false takes it (corpus.train.header=true); --data: tail -n +2 FILE"
EARLY = 1000  # samples after which labels are counted first, so that a mistake in a large file is told soon
FEW = 20  # samples that say nothing about how many labels there are
SOME = 50  # samples among which a label is rarely alone


def body(lines: Iterator[Line], header: bool | None) -> Iterator[Line]:
    """The lines of a file without its header, if it is known to have one."""
    if header:
        next(lines, None)
    return lines


def refuse_names(place: str, columns: Mapping[str, str]) -> None:
    """Refuse a file's first line where each column is a usual name for what it should hold."""
    known, texts = SIDES if "source" in columns else NAMES, columns.values()
    differ = len({text.lower() for text in texts}) > 1
    if differ and all(_names(text, known) for text in texts) and not all(_names(text, ORDINARY) for text in texts):
        shown = " and ".join(map(show_value, texts))
        raise DataError(f"{place}: {shown} look like the names of columns, not like a {' and a '.join(columns)}", HINT)


def _names(text: str, known: frozenset[str]) -> bool:
    """Whether a text is made of such names: `sentence`, `sentence1`, `text_a`, `"gold_label"`, `English text`."""
    if len(text) > 30 or not re.fullmatch(r"[\w\s\"-]+", text) or re.search(r"\s\d", text):
        return False
    parts = re.findall(r"[^\W\d_]+", text.lower())
    return any(part in known for part in parts) and all(part in known or len(part) == 1 for part in parts)


def check_labels(samples: Iterable[Sample], many: bool, swapped: str, headless: bool) -> Iterator[Sample]:
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


def _refuse_many(counts: Counter[str], samples: int, place: str, swapped: str) -> None:
    if samples >= FEW and len(counts) > samples / 2:
        raise DataError(
            f"{place}: {show_value(next(iter(counts)))} and {len(counts) - 1} other labels for {samples} texts: "
            "are the columns swapped?",
            f"{swapped}; or many: true, if nearly every text has a label of its own",
        )


def _refuse_lone(counts: Counter[str], samples: int, place: str) -> None:
    """Refuse a first label that never comes again and isn't like the others: the name of its column."""
    label, others = next(iter(counts)), list(counts.values())[1:]
    if counts[label] > 1 or not others or place.rpartition(":")[2] != "1":
        return
    numbers = not _number(label) and all(_number(other) for other in counts if other != label)
    alone = samples >= SOME and min(others) > 1
    if _names(label, LABELS) or numbers or alone:
        raise DataError(f"{place}: the label {show_value(label)} stands there and nowhere else: is it a header?", HINT)


def _number(label: str) -> bool:
    return re.fullmatch(r"[+-]?\d+([.,]\d+)?", label) is not None


def check_tags(samples: Iterable[Sample], many: bool) -> Iterator[Sample]:
    """The same sentences, once it is sure that there are more kinds of words than of tags."""
    words, tags = set[str](), set[str]()
    for sample in samples:
        words.update(sample["words"])
        tags.update(sample["tags"])
        yield sample
    if not many and len(tags) > max(SOME, len(words)):
        raise DataError(
            f"{len(tags)} tags for {len(words)} different words, such as {show_value(min(tags))}: "
            "are the columns swapped?",
            "word: 1, tag: 0; or many: true, if it is so",
        )
