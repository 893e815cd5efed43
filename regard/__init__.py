"""regard: sequence models to train, compare, look inside and ship, from the first RNN to today's Transformers.

Importing this imports nothing heavy; each name is loaded when it is first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.core.model import Model as Model
    from regard.core.model import ModelSpec as ModelSpec
    from regard.core.outline import outline as outline
    from regard.core.plugins import use as use
    from regard.core.probe import Edit as Edit
    from regard.core.probe import Record as Record
    from regard.core.spec import Spec as Spec
    from regard.decode.ensemble import Ensemble as Ensemble
    from regard.decode.search import Search as Search
    from regard.decode.search import beam_search as beam_search
    from regard.models import preset as preset
    from regard.runs.load import load as load
    from regard.runs.train import fit as fit

__version__ = "0.1.0"

SURFACE = {
    "Edit": "regard.core.probe",
    "Ensemble": "regard.decode.ensemble",
    "Model": "regard.core.model",
    "ModelSpec": "regard.core.model",
    "Record": "regard.core.probe",
    "Search": "regard.decode.search",
    "Spec": "regard.core.spec",
    "fit": "regard.runs.train",
    "load": "regard.runs.load",
    "outline": "regard.core.outline",
    "preset": "regard.models",
    "use": "regard.core.plugins",
    "beam_search": "regard.decode.search",
}
__all__ = sorted(SURFACE)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in SURFACE:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    return getattr(importlib.import_module(SURFACE[name]), name)
