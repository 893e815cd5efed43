"""Samples in: readers of files, what to do with bad lines, corpora that ship as generators, what is made of them."""
