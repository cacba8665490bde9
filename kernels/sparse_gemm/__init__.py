"""C = A B with A sparse: A[m,k] in CSR with 32-bit indices, B[k,n] and C[m,n] dense and row-major."""

from primbench.kernels.sparse_gemm.problem import SparseGemm as SparseGemm
