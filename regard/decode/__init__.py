"""From scores to sentences: one search for every model, the filters that shape it, and words that must appear."""
