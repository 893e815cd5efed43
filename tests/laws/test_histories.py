"""Whatever is done to a state, in whatever order, each row is as if it had run alone: in many histories.

A few are tried with every law in `test_mixers.py`.
"""

from __future__ import annotations

import pytest

from regard.laws import Subject
from regard.laws.player import Chance
from regard.laws.stepping import live_through, live_together
from tests.laws.cases import SUBJECTS

CAUSAL = [subject for subject in SUBJECTS if subject.causal]


@pytest.mark.long
@pytest.mark.parametrize("subject", CAUSAL, ids=lambda subject: subject.name)
def test_every_row_is_as_if_alone_in_many_histories(subject: Subject) -> None:
    found = live_through.try_case(subject, Chance(tuple(range(100, 400))))
    assert found is None, found.tell()


@pytest.mark.long
@pytest.mark.parametrize("subject", CAUSAL, ids=lambda subject: subject.name)
def test_every_row_is_as_if_alone_where_many_histories_join(subject: Subject) -> None:
    found = live_together.try_case(subject, Chance(tuple(range(100, 300)), joins=True))
    assert found is None, found.tell()
