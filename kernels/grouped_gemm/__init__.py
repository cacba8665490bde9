"""C[t] = A[t] B_g(t): tokens sorted by group, each group with a matrix of its own, as in a mixture of experts."""

from primbench.kernels.grouped_gemm.problem import GroupedGemm as GroupedGemm
