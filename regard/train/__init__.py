"""Training: checkpoints that survive anything, and what the trainer is made of."""
