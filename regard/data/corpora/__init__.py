"""Corpora that come with the library."""
