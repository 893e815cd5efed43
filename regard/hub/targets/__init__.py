"""One file for each format that models go out in. The folder is the registry."""

from regard.core.registry import import_all

import_all(__name__, __path__)
