"""The CUDA driver and NVIDIA's libraries by ctypes, for whichever backend, and our own kernels compiled for them."""
