"""C = (s_A A) (s_B B)^T: product of matrices of few bits with scales: one in all, one a row, or one a block."""

from primbench.kernels.scaled_gemm.problem import ScaledGemm as ScaledGemm
