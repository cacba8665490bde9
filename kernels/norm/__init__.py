"""Batch, layer and RMS normalisation, and their gradients, which memory bounds."""

from primbench.kernels.norm.problem import Norm as Norm
