"""NVIDIA's GPUs: the driver by ctypes, NVML and its counters, and what is found of a GPU by them."""
