"""One file for each format of a corpus's files. The folder is the registry: a new file is a new kind."""
