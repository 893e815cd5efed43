"""One file for each corpus: its spec, and what makes its samples. The folder is the registry."""

from regard.core.registry import import_all

import_all(__name__, __path__)
