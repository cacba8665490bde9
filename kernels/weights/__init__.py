"""Load a model's weights from a file of safetensors to where they are used: mapped, read, or staged."""

from primbench.kernels.weights.problem import Weights as Weights
