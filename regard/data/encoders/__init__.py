"""One file for each network from elsewhere that makes maps of pictures. The folder is the registry."""

from regard.core.registry import import_all

import_all(__name__, __path__)
