"""Samples in: readers of files, what to do with bad lines, corpora that ship as generators, what is made of them."""

import regard.data.corpora  # enters every corpus
import regard.data.readers  # noqa: F401  enters every reader
