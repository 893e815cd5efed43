"""Clauses: a subject, a verb in some tense, what is denied, and where each language puts it.

The same structure is written twice. English adds do and will; French puts clitic pronouns before the verb, wraps ne …
pas around it, and lets the participle agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.data.corpora.english_french import closed
from regard.data.corpora.english_french.closed import Polarity
from regard.data.corpora.english_french.draw import Draw
from regard.data.corpora.english_french.entry import Phrasing, Verb
from regard.data.corpora.english_french.form import Form, Token, english
from regard.data.corpora.english_french.phrase import Phrase

DO = {
    "present": tuple(english(text, "AUX", "do") for text in ("do", "do", "does", "do", "do", "do")),
    "past": (english("did", "AUX", "do"),) * 6,
}
TENSES = ("present", "past", "future")
COMING = "coming"  # after when: the present in English, the future in French


def tense_of(draw: Draw, slot: str, verb: Verb) -> str:
    return draw.pick(slot, "tense", TENSES if verb.past else TENSES[::2])


@dataclass(slots=True)
class Clause:
    """What a clause says; `preceding` is a direct object before the verb, which the participle agrees with."""

    subject: Phrase
    verb: Verb
    tense: str = "present"
    object: Phrase | None = None
    others: Sequence[Phrase] = ()
    polarity: Polarity | None = None
    middle: Phrasing | None = None
    clitics: Sequence[Token] = ()
    preceding: Phrase | None = None
    inverted: bool = False  # a question: do you see?
    question_key: int = 0  # of est-ce que, which do stands for
    verb_key: int = 0
    support_key: int = 0
    denial_key: int = 0
    middle_key: int = 0
    particle_key: int = 0

    def realise(self, draw: Draw) -> Phrase:
        """Both sides of the clause; it agrees as its subject does."""
        self.number(draw)
        subject = self.subject
        return Phrase(self.english(), self.french(), subject.person, subject.feminine, subject.plural)

    def infinitive(self, draw: Draw, to: Form | None = None, link: Form | None = None) -> Phrase:
        """The clause as a complement, with the person of its subject: to wake up, se réveiller."""
        self.number(draw)
        verb, key = self.verb, self.verb_key
        left = [(to, draw.key() if link else key)] if to else []
        right = [(link, left[0][1])] if link and left else []
        left += [(verb.base, key), *self.tail_english()]
        right += [*self.pronouns(), (verb.infinitive, key), *self.tail_french()]
        return Phrase(left, right)

    def number(self, draw: Draw) -> None:
        """Take the keys that link both sides."""
        key = self.verb_key = draw.count + 1
        self.denial_key, self.middle_key = key + 1, key + 2
        # do stands for est-ce que, for the auxiliary of the past, or for nothing that see doesn't stand for
        self.support_key = self.question_key or (key + 3 if self.tense == "past" else key)
        self.particle_key = key + 4 if self.verb.particles and self.verb.preposition else key
        draw.count += 5

    @property
    def supported(self) -> bool:
        """Whether English needs do."""
        denied = self.polarity is not None and self.polarity.support
        return self.tense != "future" and not self.verb.modal and (self.inverted or denied)

    def english(self) -> list[Token]:
        verb, person, key = self.verb, self.subject.person, self.verb_key
        finite: list[Token] = []
        if self.tense == "future":
            finite, rest = [(closed.WILL, key)], [(verb.base, key)]
        elif verb.modal:
            finite, rest = [(verb.present[person], key)], []
        elif self.supported:
            finite, rest = [(DO[self.tense][person], self.support_key)], [(verb.base, key)]
        elif self.tense == "past":
            assert verb.past is not None
            rest = [(verb.past, key)]
        else:
            rest = [(verb.present[person], key)]
        tokens = finite + self.subject.english if self.inverted else self.subject.english + finite
        if self.polarity is not None and not self.polarity.after:
            tokens += [(form, self.denial_key) for form in self.polarity.english]
        if self.middle is not None:
            tokens += [(form, self.middle_key) for form in self.middle.english]
        return tokens + rest + self.tail_english()

    def french(self) -> list[Token]:
        verb, person, key, polarity = self.verb, self.subject.person, self.verb_key, self.polarity
        tokens = list(self.subject.french)
        if polarity is not None:
            tokens.append((closed.NE, self.denial_key))
        tokens += self.pronouns()
        if self.tense == "past":
            tokens.append((verb.auxiliary[person], self.support_key if self.supported and not self.inverted else key))
        else:
            forms = verb.future if self.tense in ("future", COMING) else verb.indicative
            tokens.append((forms[person], key))
        if polarity is not None and not polarity.late:
            tokens.append((polarity.french, self.denial_key))
        if self.middle is not None:
            tokens += [(form, self.middle_key) for form in self.middle.french]
        if self.tense == "past":
            tokens.append((verb.participle[self.agreement()], key))
        if polarity is not None and polarity.late:
            tokens.append((polarity.french, self.denial_key))
        return tokens + self.tail_french()

    def agreement(self) -> int:
        if self.verb.moves:
            return self.subject.gender_number
        return self.preceding.gender_number if self.preceding is not None else 0

    def pronouns(self) -> list[Token]:
        """The clitics before the verb; a reflexive verb brings its own."""
        own = [(closed.REFLEXIVE[self.subject.person], self.verb_key)] if self.verb.reflexive else []
        return [*own, *self.clitics]

    def tail_english(self) -> list[Token]:
        tokens = [(form, self.particle_key) for form in self.verb.particles]
        if self.polarity is not None and self.polarity.after:
            tokens += [(form, self.denial_key) for form in self.polarity.english]
        if self.object is not None:
            tokens += self.object.english
        for other in self.others:
            tokens += other.english
        return tokens

    def tail_french(self) -> list[Token]:
        tokens: list[Token] = []
        if self.object is not None:
            if self.verb.preposition is not None and self.object.french:
                tokens.append((self.verb.preposition, self.particle_key))
            tokens += self.object.french
        for other in self.others:
            tokens += other.french
        return tokens
