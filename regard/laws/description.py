"""The law of descriptions: a spec is plain data."""

from __future__ import annotations

import json

from regard.core.mixer import MixerSpec
from regard.core.spec import show_value
from regard.laws.case import Described
from regard.laws.law import insist, law
from regard.laws.subject import Subject


@law("a spec survives JSON", Described(), excuse=lambda subject: "" if subject.spec else "it has no spec")
def survive_json(subject: Subject, case: Described) -> None:
    """What is written to a run's folder and read again is the same spec: or else a run comes back as another model."""
    spec = subject.spec
    assert spec is not None
    told = json.loads(spec.model_dump_json())
    insist(told["kind"] == spec.kind, f"kind: {spec.kind!r} is written as {told['kind']!r}")
    again = MixerSpec.parse(told)
    insist(type(again) is type(spec), f"a {type(spec).__name__} comes back as a {type(again).__name__}")
    for name, value in spec.fields().items():
        back = again.fields()[name]
        insist(back == value, f"{name}: {show_value(value)} comes back as {show_value(back)}")
    insist(again == spec, "something beside its settings doesn't come back")
