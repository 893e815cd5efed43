"""One file for each way of rewarding an answer. The folder is the registry."""
