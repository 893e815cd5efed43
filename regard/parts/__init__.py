"""What is not a mixer: embeddings, positions, scores, norms, feed-forwards, experts, cells, heads."""
