"""Read files in the ways that data and models are read, many small ones among them, or write and sync them."""

from primbench.kernels.files.problem import Files as Files
