"""One file for each further measure of texts. The folder is the registry."""

from regard.core.registry import import_all

import_all(__name__, __path__)
