"""Every path of the kernels that this machine has, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from regard.core.matrix import find_faster
from regard.kernels import library as kernels
from regard.kernels.library import Library, crowd


@pytest.fixture(params=[1, 2], ids=["AVX2", "AVX-512"])
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    found = kernels.find_library()
    if not isinstance(found, Library):
        pytest.skip(f"kernels: {found}")
    if request.param > found.level:
        pytest.skip(f"this machine has {kernels.LEVELS[found.level]}")
    find_faster()  # which remembers what this machine has, and not what is pretended here
    monkeypatch.setattr(found, "level", request.param)
    return int(request.param)


@pytest.fixture
def several() -> Iterator[None]:
    """Two threads, one of which may be told to do all."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    crowd(False)
    torch.set_num_threads(before)
