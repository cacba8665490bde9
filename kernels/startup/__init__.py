"""Start an interpreter, what is imported, a CUDA context or a library, each in a process of its own; or a thread."""

from primbench.kernels.startup.problem import Startup as Startup
