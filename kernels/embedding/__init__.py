"""Rows of a table, one for each token, and the gradient of the table, which memory bounds."""

from primbench.kernels.embedding.problem import Embedding as Embedding
