"""Train a whole model, or have it predict: a step as torch computes it, on data that are there, copied or loaded."""

from primbench.kernels.model.problem import Model as Model
