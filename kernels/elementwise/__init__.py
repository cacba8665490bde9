"""y = f(x), element by element: copies, sums, activations, SwiGLU and rotary embeddings, which memory bounds."""

from primbench.kernels.elementwise.problem import Elementwise as Elementwise
