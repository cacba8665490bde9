"""Follow a chain through host memory, one load a place of 128 bytes, by one thread of a CPU or a GPU."""

from primbench.kernels.chase.problem import Chase as Chase
