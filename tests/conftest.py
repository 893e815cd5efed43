"""Tests run side by side, one a core, so torch gets one thread in each."""

import torch

torch.set_num_threads(1)
