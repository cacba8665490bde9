"""A product computed while ranks sum a buffer: how much of the communication that hides."""

from primbench.kernels.overlap.problem import Overlap as Overlap
