"""All calls of operators of a captured step, one after the other, on tensors of the same shapes."""

from primbench.kernels.replay.problem import Replay as Replay
