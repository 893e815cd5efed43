"""One file for each way of mixing positions. The folder is the registry: a new file is a new kind."""

from regard.folder import load

load(__name__, __path__)
