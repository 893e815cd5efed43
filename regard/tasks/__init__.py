"""What is learned. A task makes batches, computes the loss and evaluates; a model does none of these."""

from regard.core.registry import import_all

import_all(__name__, __path__)
