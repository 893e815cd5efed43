"""What can be seen of a model, by name, and who looks at it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

from torch import nn

from regard.core.mixer import Part
from regard.core.probe import Probe, Sight, join_probes


class Visible(nn.Module):
    """A module made of parts, each of which says what a probe can see there."""

    head: Part | None
    watcher: Probe | None = None  # there only within `watch`

    @contextmanager
    def watch(self, probe: Probe) -> Iterator[None]:
        """Let a probe see every call of the model within, beside a call's own and those that watch already.

        For whoever hands the model to others and must not depend on what they pass on: a task can't forget it.
        """
        probe.begin(Sight(self._sights))
        before, self.watcher = self.watcher, join_probes(self.watcher, probe)
        try:
            yield
        finally:
            self.watcher = before

    def names(self) -> tuple[str, ...]:
        """All that a probe can see in it, in the order of its parts: `decoder.blocks.0.mix.weights`, …"""
        found = [f"{part.path}.{name}" for part in list_open(self) for name in part.names]
        return tuple(dict.fromkeys([*found, *(["head.logits"] if self.head is not None else [])]))

    @cached_property
    def _sights(self) -> frozenset[str]:
        return frozenset(self.names())

    @cached_property
    def _early(self) -> frozenset[str]:
        """Those that are computed when a state is started, and not in its steps."""
        return frozenset(f"{part.path}.{name}" for part in list_open(self) for name in part.early)


def list_open(module: nn.Module) -> Iterator[Part]:
    """The parts of a module that report under names of their own, in order: none that another encloses."""
    for child in module.children():
        if isinstance(child, Part):
            yield child
        if not (isinstance(child, Part) and child.encloses):
            yield from list_open(child)
