"""What is not a mixer: embeddings, positions, scores, norms, feed-forwards, experts, cells, heads."""

from regard.folder import load

load(__name__, __path__)
