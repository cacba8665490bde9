"""Collectives beside the all-reduce: all-gather, reduce-scatter, broadcast, all-to-all, send to the next rank."""

from primbench.kernels.collective.problem import Collective as Collective
