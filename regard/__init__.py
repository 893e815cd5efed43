"""regard: sequence models to train, compare, look inside and ship, from the first RNN to today's Transformers.

Importing this imports nothing heavy; each name is loaded when it is first asked for.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.core.model import Model as Model
    from regard.core.model import ModelSpec as ModelSpec
    from regard.core.probe import Edit as Edit
    from regard.core.probe import Record as Record
    from regard.core.spec import Spec as Spec
    from regard.decode.ensemble import Ensemble as Ensemble
    from regard.decode.search import Search as Search
    from regard.decode.search import search as search
    from regard.models import preset as preset
    from regard.noun import load as load
    from regard.outline import outline as outline
    from regard.training import fit as fit

__version__ = "0.1.0"

SURFACE = {
    "Edit": "regard.core.probe",
    "Ensemble": "regard.decode.ensemble",
    "Model": "regard.core.model",
    "ModelSpec": "regard.core.model",
    "Record": "regard.core.probe",
    "Search": "regard.decode.search",
    "Spec": "regard.core.spec",
    "fit": "regard.training",
    "load": "regard.noun",
    "outline": "regard.outline",
    "preset": "regard.models",
    "search": "regard.decode.search",
}
__all__ = sorted(SURFACE)  # noqa: PLE0605


class Surface(ModuleType):
    """This package. Importing a submodule binds its name here; a public name of the same spelling keeps its place."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in SURFACE or value is not sys.modules.get(f"{__name__}.{name}"):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = Surface


def __getattr__(name: str) -> Any:
    if name not in SURFACE:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    return getattr(importlib.import_module(SURFACE[name]), name)
