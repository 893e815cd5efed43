"""What is learned. A task makes batches, computes the loss and evaluates; a model does none of these."""
