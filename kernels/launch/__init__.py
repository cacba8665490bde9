"""The cost of calling: a kernel or a graph on a GPU; on a CPU what a call, a thread and a process cost."""

from primbench.kernels.launch.problem import Launch as Launch
