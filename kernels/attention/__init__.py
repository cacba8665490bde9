"""Scaled dot-product attention: forward, backward, in training, and with a cache of keys and values."""

from primbench.kernels.attention.problem import Attention as Attention
