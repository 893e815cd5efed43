"""What every mixer of ours keeps, whatever it computes: each law of `regard/laws`, on each of its cases."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch

from regard.core.mixer import MixerSpec
from regard.core.view import View
from regard.errors import InputError, SpecError
from regard.laws import LAWS, Case, Law, Subject
from regard.laws.player import Player
from regard.laws.stepping import BEGUN, join_parts
from regard.laws.subject import WIDTH, begin, follow
from regard.laws.variant import label
from regard.laws.watching import draw_packed, pack, wrap_in_block
from tests.laws.cases import SPECS, SUBJECTS

SPOKEN_OF = {law: [subject for subject in SUBJECTS if not law.excuse(subject)] for law in LAWS}
TRIALS = [
    pytest.param(law, case, subject, id=f"{law.name}-{number}-{subject.name}")
    for law, subjects in SPOKEN_OF.items()
    for number, case in enumerate(law.cases)
    for subject in subjects
]


@pytest.mark.parametrize(("law", "case", "subject"), TRIALS)
def test_every_mixer_keeps_every_law(law: Law[Any], case: Case, subject: Subject) -> None:
    found = law.try_case(subject, case)
    assert found is None, found.tell()


def test_every_file_in_the_folder_is_covered() -> None:
    assert {spec.kind for spec in SPECS} == set(MixerSpec.kinds)
    assert len(SPECS) > 2 * len(MixerSpec.kinds)


@cache
def is_causal(spec: MixerSpec) -> bool:
    return spec.build(WIDTH).causal


SPEAKS_OF: dict[str, Callable[[MixerSpec], bool]] = {  # all mixers, where a law isn't here
    "no position sees a later one": is_causal,
    "no gradient comes from a later position": is_causal,
    "who may look ahead does": lambda spec: not is_causal(spec),
    "padding at the end changes nothing before it": lambda spec: False,
    "who takes positions for a set doesn't see their order": lambda spec: not spec.build(WIDTH).ordered,
    "padding of the memory changes nothing": lambda spec: spec.over_memory,
    "stepping equals running whole": is_causal,
    "reading in chunks equals running whole": is_causal,
    "two states don't know of each other": is_causal,
    "a state shows all its tensors": is_causal,
    "a padded prompt decodes as if alone": is_causal,
    "selecting rows equals running those rows": is_causal,
    "the beams of a sentence share its memory": is_causal,
    "rewinding is right or refused": is_causal,
    "a state has the type of its model": is_causal,
    "joined rows go on as if alone": is_causal,
    "joined rows are selected, and selected rows joined": is_causal,
    "joined rows are rewound or refused together": is_causal,
    "detaching cuts the graph": is_causal,
    "whatever is done to a state, rows are as if alone": is_causal,
    "whatever is joined, rows are as if alone": is_causal,
    "watching a step changes nothing": is_causal,
    "packed documents are as if alone": lambda spec: not spec.over_memory,
    "nothing of a document reaches its neighbours": lambda spec: not spec.over_memory,
    "watching packed documents changes nothing": lambda spec: not spec.over_memory,
    "gradients in steps equal those of the whole": lambda spec: is_causal(spec) and not spec.ignores_input,
    "gradients go through a join": lambda spec: is_causal(spec) and not spec.ignores_input,
    "whatever is done to a state, gradients are right": is_causal,
    # one that is drawn while it learns is soft in use, and so are its gradients
    "gradients equal finite differences in double": lambda spec: getattr(spec, "hard", False) is not True,
}


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_nobody_is_excused_whom_a_law_speaks_of(law: Law[Any]) -> None:
    expected = [label(spec) for spec in SPECS if SPEAKS_OF.get(law.name, lambda _: True)(spec)]
    assert [subject.name for subject in SPOKEN_OF[law]] == expected
    assert law.promise.endswith(".") and law.cases


def test_every_mixer_can_be_watched_and_every_state_is_weighed() -> None:
    for subject in SUBJECTS:
        mixer, x, memory = subject.make(), subject.draw(), subject.remember()
        assert mixer.names, subject.name
        if subject.causal:
            state = begin(mixer, x, memory)
            assert state is not None
            with torch.no_grad():
                follow(mixer, x[:, :5], state, memory)
            assert state.nbytes > 0


def test_a_joined_state_counts_each_row_by_itself() -> None:
    script = join_parts(*BEGUN, after=())
    for subject in SUBJECTS[:: len(SUBJECTS) // 10]:
        if subject.causal:
            player = Player(subject, script)
            for event in script.events:
                player.play(event)
            assert player.state is not None and player.state.lengths is not None
            assert (player.state.rows, player.state.length) == (8, 9)
            assert player.state.lengths.tolist() == [4, 4, 9, 1, 1, 1, 0, 0]


@pytest.mark.parametrize(
    "subject",
    [each for each in SUBJECTS if each.causal and not each.over_memory],
    ids=lambda subject: subject.name,
)
def test_packed_documents_leave_no_state(subject: Subject) -> None:
    (case,) = pack.cases
    block, x = wrap_in_block(subject), draw_packed(subject, case)
    state = block.start(len(x), View.of(x[:, :0]))
    with pytest.raises(InputError, match="pack documents"):
        block(x, View.of(x, case.valid, documents=case.numbers), state)


@pytest.mark.parametrize("kind", sorted(MixerSpec.kinds))
def test_a_misspelt_setting_is_an_error_with_a_suggestion(kind: str) -> None:
    for name in MixerSpec.kinds[kind].model_fields:
        if name != "kind" and len(name) > 3:
            typo = name[:-2] + name[-1] + name[-2] if name[-1] != name[-2] else name + "x"
            with pytest.raises(SpecError, match=f"{typo}: unknown setting; did you mean '{name}'"):
                MixerSpec.parse({"kind": kind, typo: 1})


@pytest.mark.parametrize("kind", sorted(MixerSpec.kinds))
def test_an_ill_typed_or_negative_setting_is_an_error_that_names_it(kind: str) -> None:
    for name, info in MixerSpec.kinds[kind].model_fields.items():
        if name == "kind":
            continue
        with pytest.raises(SpecError, match=name):
            MixerSpec.parse({"kind": kind, name: object()})
        if "int" in str(info.annotation):
            with pytest.raises(SpecError, match=rf"{name}: .*-3"):
                MixerSpec.parse({"kind": kind, name: -3})
