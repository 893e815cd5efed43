"""Text in: readers of parallel corpora, what to do with bad lines, and corpora that ship as generators."""
