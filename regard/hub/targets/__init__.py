"""One file for each format that models go out in. The folder is the registry."""
