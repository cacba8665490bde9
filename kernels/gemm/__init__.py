"""C = alpha op(A) op(B) + beta D: general matrix product, C[m,n] summed over k."""

from primbench.kernels.gemm.problem import Gemm as Gemm
