"""Copy bytes: host to device and back, within a GPU, to another GPU, within the host."""

from primbench.kernels.memcpy.problem import Memcpy as Memcpy
