"""What is not a mixer: embeddings, positions, scores, norms, feed-forwards, experts, cells, heads."""

from regard.core.registry import import_all

import_all(__name__, __path__)
