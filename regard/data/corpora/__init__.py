"""One file for each corpus: its spec, and what makes its samples. The folder is the registry."""
