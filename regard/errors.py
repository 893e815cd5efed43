"""What can go wrong, as a user sees it: a message, a way out, and an exit status of its own.

A `RegardError` is printed without a traceback. Anything else that escapes is our own bug. What doesn't stop the
work is a `RegardWarning`: the command line prints it, and Python's own filters hold for whoever calls from Python.
"""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class RegardError(Exception):
    """A mistake that the user can mend, or a limit that they should know.

    >>> import regard
    >>> try:
    ...     model = regard.preset("gpt2", width=100, heads=7).build()
    ... except regard.RegardError as error:
    ...     print(error.code, error.status)
    spec 2
    """

    code = "error"
    status = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  try: {self.hint}" if self.hint else self.message


class SpecError(RegardError):
    """A description that can't be built: an unknown setting, a wrong type, sizes that don't fit."""

    code = "spec"
    status = 2


class PluginError(RegardError):
    """Code of the user's own that can't be loaded."""

    code = "plugin"


class InputError(RegardError):
    """Data that doesn't fit the model: too long, of the wrong shape, or missing."""

    code = "input"
    status = 3


class DataError(InputError):
    """Files that can't be read, or that don't fit together."""

    code = "data"


class Doubt(DataError):
    """Something in a file that looks like a mistake, or can be understood in two ways, so a user is asked.

    `ways`: settings of the file's reader that settle it, each way by what it means, the likeliest first.
    """

    code = "doubt"
    key = ""  # where the settings of that reader stand in a run file: corpus.train

    def __init__(self, message: str, hint: str, ways: Mapping[str, Mapping[str, Any]]) -> None:
        super().__init__(message, hint)
        self.ways = ways


class CheckpointError(RegardError):
    """A checkpoint that is damaged, incomplete, or not for this model."""

    code = "checkpoint"
    status = 4


class Damage(CheckpointError):
    """A checkpoint's file that is missing, or isn't what was saved; `folder` is the checkpoint's."""

    def __init__(self, message: str, folder: Path) -> None:
        super().__init__(message)
        self.folder = folder


class Mismatch(CheckpointError):
    """Another library makes something else of the same checkpoint."""

    code = "mismatch"


class Divergence(RegardError):
    """A loss or a gradient that isn't finite any more."""

    code = "divergence"
    status = 5


class DiskError(RegardError):
    """A disk that won't take what must be written."""

    code = "disk"
    status = 6


class Busy(RegardError):
    """A run folder that another process is training in."""

    code = "busy"
    status = 7


class BrokenLaw(RegardError):
    """A mixer that doesn't keep what every mixer promises."""

    code = "law"
    status = 8


class Stopped(RegardError):
    """A signal ended the work; what was done is saved."""

    code = "stopped"

    def __init__(self, message: str, hint: str, signal: int) -> None:
        super().__init__(message, hint)
        self.status = 128 + signal


class NotRewindable(RegardError):
    """A state that can't forget its last tokens, because it doesn't hold what came before them."""

    code = "rewind"


class NotJoinable(RegardError):
    """States of different makes, whose rows can't stand side by side in one."""

    code = "join"


class MissingPackage(RegardError):
    """An optional package that isn't installed, with the line that installs it."""

    code = "package"

    def __init__(self, purpose: str, package: str, extra: str) -> None:
        # the quotes are for shells that take brackets for a pattern
        super().__init__(
            f"{purpose} needs the package {package}, which isn't installed", f"pip install 'regard[{extra}]'"
        )


class RegardWarning(UserWarning):
    """Something that a user should know, though an answer comes all the same."""


def warn(message: str) -> None:
    """Tell the user something that doesn't stop the work."""
    warnings.warn(message, RegardWarning, stacklevel=3)
