"""The laws that hold every mixer, ours and anybody's: `check` tries them, and finds the smallest case that breaks one.

Each law is one function whose docstring says what it promises and why that matters. `regard laws` is the same from
the command line.
"""

from regard.laws import reading, stepping, watching, gradients, description  # noqa: F401, I001  the order of the rulings
from regard.laws.case import Case as Case
from regard.laws.law import LAWS as LAWS
from regard.laws.law import Breach as Breach
from regard.laws.law import Counterexample as Counterexample
from regard.laws.law import Law as Law
from regard.laws.subject import Subject as Subject
from regard.laws.trial import Ruling as Ruling
from regard.laws.trial import Trial as Trial
from regard.laws.trial import check as check
