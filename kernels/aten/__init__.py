"""Any one operator of torch, called again as a step called it: what no primitive of its own stands for."""

from primbench.kernels.aten.problem import Aten as Aten
