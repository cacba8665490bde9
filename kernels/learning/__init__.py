"""Train a whole model from fresh weights, on examples made by a rule: its time, its losses, how often it is right."""

from primbench.kernels.learning.problem import Learning as Learning
