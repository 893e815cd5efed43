"""One file for each way of mixing positions. The folder is the registry: a new file is a new kind."""
