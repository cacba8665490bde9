"""All calls of a captured step, one after the other, with and without a delay before each."""

from primbench.kernels.replay.problem import Replay as Replay
