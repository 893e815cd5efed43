"""One file for each way of rewarding an answer. The folder is the registry."""

from regard.core.registry import import_all

import_all(__name__, __path__)
