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
    from regard.core.weights import redraw as redraw
    from regard.decode.captioner import Captioner as Captioner
    from regard.decode.continuation import generate as generate
    from regard.decode.ensemble import Ensemble as Ensemble
    from regard.decode.filler import Filler as Filler
    from regard.decode.painter import Painter as Painter
    from regard.decode.search import Search as Search
    from regard.decode.search import beam_search as beam_search
    from regard.decode.translator import Translator as Translator
    from regard.decode.writer import Writer as Writer
    from regard.errors import RegardError as RegardError
    from regard.lens.look import Look as Look
    from regard.lens.look import look as look
    from regard.models import preset as preset
    from regard.runs.compare import compare as compare
    from regard.runs.convert import export as export
    from regard.runs.convert import save as save
    from regard.runs.load import load as load
    from regard.runs.train import fit as fit
    from regard.tasks.classification import Classifier as Classifier
    from regard.tasks.embedding import Embedder as Embedder
    from regard.tasks.images import ImageClassifier as ImageClassifier
    from regard.tasks.programmer import Programmer as Programmer
    from regard.tasks.reward import Judge as Judge
    from regard.tasks.tagging import Tagger as Tagger

__version__ = "0.1.0"

SURFACE = {
    "Captioner": "regard.decode.captioner",
    "Classifier": "regard.tasks.classification",
    "Edit": "regard.core.probe",
    "Embedder": "regard.tasks.embedding",
    "Ensemble": "regard.decode.ensemble",
    "Filler": "regard.decode.filler",
    "ImageClassifier": "regard.tasks.images",
    "Judge": "regard.tasks.reward",
    "Look": "regard.lens.look",
    "Model": "regard.core.model",
    "ModelSpec": "regard.core.model",
    "Painter": "regard.decode.painter",
    "Programmer": "regard.tasks.programmer",
    "Record": "regard.core.probe",
    "RegardError": "regard.errors",
    "Search": "regard.decode.search",
    "Spec": "regard.core.spec",
    "Tagger": "regard.tasks.tagging",
    "Translator": "regard.decode.translator",
    "Writer": "regard.decode.writer",
    "beam_search": "regard.decode.search",
    "compare": "regard.runs.compare",
    "export": "regard.runs.convert",
    "fit": "regard.runs.train",
    "generate": "regard.decode.continuation",
    "load": "regard.runs.load",
    "look": "regard.lens.look",
    "outline": "regard.core.outline",
    "preset": "regard.models",
    "redraw": "regard.core.weights",
    "save": "regard.runs.convert",
    "use": "regard.core.plugins",
}
__all__ = sorted(SURFACE)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in SURFACE:
        # other libraries have such names for what one word does here
        foreign = name in ("pipeline", "from_pretrained") or name.startswith("Auto")
        hint = "; a run, or a model that was brought in, is had by regard.load(FOLDER)" if foreign else ""
        raise AttributeError(f"module 'regard' has no attribute {name!r}{hint}")
    return getattr(importlib.import_module(SURFACE[name]), name)


def __dir__() -> list[str]:
    """What is public, for completion: a name needn't have been loaded to be shown."""
    return [*__all__, "__version__"]
