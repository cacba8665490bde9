"""C_i = op(A_i) op(B_i): a batch of matrix products of one size, one behind the other in memory."""

from primbench.kernels.batched_gemm.problem import BatchedGemm as BatchedGemm
