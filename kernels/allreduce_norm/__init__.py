"""h = x_0 + x_1 + ... + residual on every rank, and its RMS normalisation, as between layers that ranks share out."""

from primbench.kernels.allreduce_norm.problem import AllreduceNorm as AllreduceNorm
