"""The laboratory: every claim of the lectures as an experiment. The folder is the registry; a file is an experiment."""

from regard.core.registry import import_all

import_all(__name__, __path__)
