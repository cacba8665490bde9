"""The output of a step that writes several arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from primbench.dtypes import Array


class Outputs:
    """Arrays of a backend that one call writes, such as several gradients."""

    def __init__(self, backend: Any, arrays: tuple[Any, ...]) -> None:
        self.backend, self.arrays = backend, arrays

    def poison(self) -> None:
        for array in self.arrays:
            self.backend.poison(array)

    def get(self) -> Array:
        """float32: all elements of the first array as they lie in memory, then those of the next."""
        import numpy as np

        return np.concatenate([self.backend.get(array).reshape(-1).astype(np.float32) for array in self.arrays])
