"""A guess at the language of a text, by its script and by the small words that every sentence has.

It knows a dozen scripts and the most frequent words of nine languages in Latin letters. That is enough to see that two
sides of a corpus are mixed up, and no more: what it can't tell has no language here.
"""

from __future__ import annotations

import re
from collections import Counter

SMALL = {
    "en": """a an i the of and to in is that it was for on are with as be this have from not by at you they but his she
        he had which were there what your would their we""",
    "fr": """le la les de des du à d l et est une un dans que qui pas pour sur avec il elle au aux ce cette sont nous
        vous mais ou par plus être était je ne se en son ses leur""",
    "de": """der die das und ist nicht ein eine einen einem mit auf für von zu den dem des sich auch es im am als an aus
        bei wird sind war haben ich sie wir ihr""",
    "es": """el la los las de es en que un una por con para no se su del al como más pero fue son está este esta lo ha
        muy nos hay""",
    "it": """il lo la gli le di è che un una in per con non si del della dei al alla sono come più ma anche questo
        questa ha nel nella delle""",
    "pt": """os as de é que um uma em por com para não se do da dos das ao como mais mas foi são este esta no na
        ele ela você""",
    "nl": """de het een en van is dat in op te zijn met voor niet aan er die maar ook bij om naar als dan wordt werd
        hij ze wij ik""",
    "sv": """och att det som en ett är på av för med den inte till har de om var jag han hon men så kan ska från vi""",
    "pl": """na się nie jest to że jak za po dla od ale są był przez tego co jego czy tym przy""",
}
# words that several of them have count for each, so only the others decide
WORDS: dict[str, tuple[str, ...]] = {}
for _name, _words in SMALL.items():
    for _word in _words.split():
        WORDS[_word] = (*WORDS.get(_word, ()), _name)
SCRIPTS = {
    "Cyrillic": "\u0400-\u052f",
    "Greek": "\u0370-\u03ff",
    "Hebrew": "\u0590-\u05ff",
    "Arabic": "\u0600-\u06ff\u0750-\u077f",
    "Devanagari": "\u0900-\u097f",
    "Bengali": "\u0980-\u09ff",
    "Tamil": "\u0b80-\u0bff",
    "Thai": "\u0e00-\u0e7f",
    "Georgian": "\u10a0-\u10ff",
    "Kana": "\u3040-\u30ff",
    "Han": "\u4e00-\u9fff",
    "Hangul": "\uac00-\ud7af",
}
OTHER = re.compile("|".join(f"(?P<{name}>[{letters}]+)" for name, letters in SCRIPTS.items()))
LATIN, WORD = re.compile("[A-Za-zÀ-ɏ]"), re.compile(r"[^\W\d_]+")
BEYOND_LATIN = re.compile("[\u0370-\uffff]")
LONGEST = 2000  # letters of a text that are looked at
LEAST, AHEAD = 3, 2  # different small words before anything is said of a text, and more than of any other language


def guess_language(text: str) -> str | None:
    """The language of a text in Latin letters, or the script of another; None where it can't be told."""
    text = text[:LONGEST]
    if BEYOND_LATIN.search(text) and (script := _find_script(text)) is not None:
        return script
    votes = Counter(name for word in set(WORD.findall(text.lower())) for name in WORDS.get(word, ()))
    ranked = votes.most_common(2)
    if not ranked or ranked[0][1] < LEAST:
        return None
    # nearly as many for another one: they are kin, and the text is too short
    return ranked[0][0] if len(ranked) < 2 or ranked[0][1] >= ranked[1][1] + AHEAD else None


def _find_script(text: str) -> str | None:
    """The script that most letters are of, if it isn't Latin; Japanese has signs of two."""
    counts = Counter[str]()
    for found in OTHER.finditer(text):
        counts[str(found.lastgroup)] += found.end() - found.start()
    if not counts or sum(counts.values()) <= len(LATIN.findall(text)):
        return None
    return "Kana" if counts["Kana"] else counts.most_common(1)[0][0]
