"""Softmax, its logarithm and cross entropy over the classes of each row, and their gradients, which memory bounds."""

from primbench.kernels.softmax.problem import Softmax as Softmax
