"""Any function of a file of Python, FILE.py::FUNCTION, as it stands there."""

from primbench.kernels.time.problem import Function as Function
