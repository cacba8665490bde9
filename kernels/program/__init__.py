"""Run a whole program: start Python, import torch, set a model up, make a first step and more, and end."""

from primbench.kernels.program.problem import Program as Program
