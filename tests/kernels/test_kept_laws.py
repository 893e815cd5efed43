"""Mixers keep every law by every path of our kernels, at a width that reaches them: the laws' own is too small for it.

Torch's route, where no kernel serves, is the one that attention of the laws' own width takes in `tests/laws`.
"""

from __future__ import annotations

from typing import Any

import pytest

from regard.core.mixer import MixerSpec
from regard.kernels import library as kernels
from regard.kernels.library import Library
from regard.laws import LAWS, Subject
from tests.kernels.test_taken_paths import Counted

WIDTH = 64  # heads of 16, as wide as any register
# mixers that call a kernel by themselves, and what they call
MIXERS: list[tuple[dict[str, Any], str]] = [
    ({"kind": "attention", "heads": 4, "kv_heads": 2, "causal": True, "position": "rotary"}, "regard_look"),
    ({"kind": "attention", "heads": 4, "causal": True, "window": 3}, "regard_look"),
    ({"kind": "attention", "heads": 4, "over": "memory"}, "regard_look"),
    ({"kind": "mamba"}, "regard_scan"),
]
IDS = ["attention", "within a window", "over a memory", "mamba"]


@pytest.mark.parametrize("level", [1, 2], ids=["AVX2", "AVX-512"])
@pytest.mark.parametrize(("settings", "function"), MIXERS, ids=IDS)
def test_every_law_is_kept_by_our_kernels(
    settings: dict[str, Any], function: str, level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = kernels.find_library()
    if not isinstance(found, Library):
        pytest.skip(f"kernels: {found}")
    if level > found.level:
        pytest.skip(f"this machine has {kernels.LEVELS[found.level]}")
    counted = Counted(found.functions)
    monkeypatch.setattr(found, "functions", counted)
    monkeypatch.setattr(found, "level", level)
    subject = Subject.describe(MixerSpec.parse(settings), width=WIDTH, rounding=0.0)
    broken = [law.try_case(subject, case) for law in LAWS if not law.excuse(subject) for case in law.cases]
    assert [one.tell() for one in broken if one is not None] == []
    assert counted.calls[function]
