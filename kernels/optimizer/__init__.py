"""An optimizer's update of all of a model's parameters: SGD with momentum, Adam and AdamW, which memory bounds."""

from primbench.kernels.optimizer.problem import Optimizer as Optimizer
