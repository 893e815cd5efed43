"""Stories with questions about them, as bAbI's tasks write them (Weston et al. 2015)."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterator
from pathlib import PurePath
from typing import ClassVar, Literal

from regard.core.spec import Size
from regard.data.encoding import UTF8, Encoding
from regard.data.lines import LONGEST, lines
from regard.data.log import Log
from regard.data.reader import ReaderSpec
from regard.data.sample import Form, Sample
from regard.data.source import Paths
from regard.data.split import hash_text

NUMBERED = re.compile(r"(\d+) (.*\S)\s*")
PART = re.compile(r"[^_.]+")  # of a file's name


class Babi(ReaderSpec):
    """Numbered sentences, among them questions with their answers; a story begins where the numbers begin anew.

    A question is read with the sentences before it, without earlier questions. All questions of a story stay on one
    side of a split, and so do stories that are the same up to their first question. What a file's name begins with
    (`qa7_counting_train.txt`) is the part of the corpus that its questions belong to. Behind a bad line a story isn't
    whole any more, and its questions are left out.
    """

    form: ClassVar[Form] = "labels"
    inside: ClassVar[tuple[str, ...]] = (".txt",)
    kind: Literal["babi"] = "babi"
    path: Paths
    sentences: Size = 50
    """A question is read with at most this many sentences before it: the last ones."""
    longest: Size = LONGEST
    encoding: Encoding = UTF8

    def samples(self, log: Log) -> Iterator[Sample]:
        for path in self.find(self.path):
            story, group, last, whole = deque[str](maxlen=self.sentences), "", math.inf, True
            named = PART.match(PurePath(path).name)
            told = {} if named is None else {"part": named[0]}
            for line in lines(path, log, self.longest, self.encoding):
                found = None if line.text is None else NUMBERED.fullmatch(line.text)
                if found is None:
                    whole = False
                    if line.text is None:
                        log.drop()
                    else:
                        log.skip(line.place, "not a numbered sentence")
                    continue
                number, text = int(found[1]), found[2]
                if number <= last:
                    story.clear()
                    group, whole = "", True
                last = number
                if "\t" not in text:
                    if len(story) == story.maxlen:
                        log.remark(line.place, f"a story of more than {self.sentences} sentences loses its first ones")
                    story.append(text)
                    continue
                question, answer = (part.strip() for part in text.split("\t")[:2])
                if not question or not answer or not story:
                    log.skip(line.place, "a question without a story, words or an answer")
                    continue
                if not whole:
                    log.skip(line.place, "a question behind a bad line of its story")
                    continue
                log.keep(line.repaired)
                text = " ".join(story)
                # by what is told, not by the file's place: wherever a corpus lies, it is split alike
                group = group or f"{hash_text(text):016x}"
                asked = {"text": text, "second": question, "label": answer}
                yield {**asked, **told, "group": group, "place": line.place}
