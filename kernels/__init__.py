"""The primitives, a folder or a file each; installed as ``primbench.kernels``.

``gemm/problem.py`` defines a :class:`primbench.problem.Problem`; ``gemm/torch.py`` and the like a setup function for a
backend each. Files whose name starts with an underscore belong to a kernel, and are not searched for others.
"""

if __name__ != "primbench.kernels":
    raise ImportError(
        f"this folder is primbench.kernels, imported here as {__name__!r}: "
        "leave the checkout or start Python with -P, and import primbench.kernels"
    )
