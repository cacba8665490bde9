"""Follow a chain through host memory in random order, one load a place of 128 bytes, by one thread."""

from primbench.kernels.chase.problem import Chase as Chase
