"""The largest or the mean of each window of an image, and their gradients, which memory bounds."""

from primbench.kernels.pool.problem import Pool as Pool
