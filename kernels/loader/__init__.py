"""Take batches from torch's DataLoader, whose items are in memory and may have to be decoded."""

from primbench.kernels.loader.problem import Loader as Loader
