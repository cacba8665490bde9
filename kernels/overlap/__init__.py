"""C[m,n] = A[m,k] B[k,n] on every rank, while y[i] = x_0[i] + x_1[i] + ... is under way between them."""

from primbench.kernels.overlap.problem import Overlap as Overlap
