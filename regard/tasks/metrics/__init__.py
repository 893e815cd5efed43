"""One file for each further measure of texts. The folder is the registry."""
