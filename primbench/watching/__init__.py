"""A job that runs, followed from outside: what its threads, memory, files and GPUs did, and what held it back.

Nothing of it is touched: its folders in /proc, its control groups and NVML are read once a second, and between that the
states of a few threads, which say how often one was blocked, as on a disk. Only where it has loaded the CUDA driver,
and root watches, the kernel counts calls of the driver for 1 % of the time, which costs the job no more than that.
"""
