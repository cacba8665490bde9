"""y[i] = x_0[i] + x_1[i] + ... on every rank: the sum over ranks, one process each."""

from primbench.kernels.allreduce.problem import Allreduce as Allreduce
