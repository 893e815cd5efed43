"""Checkpoints in Hugging Face layout, in and out: names by a table that reads both ways, and nothing that runs."""
