"""The primitives, one file each; installed as ``primbench.kernels``.

A file defines a :class:`primbench.problem.Problem` and one setup function a backend. Files whose name
starts with an underscore belong to a primitive and are not searched for primitives themselves.
"""

if __name__ != "primbench.kernels":
    raise ImportError(
        f"this folder is primbench.kernels, imported here as {__name__!r}: "
        "leave the checkout or start Python with -P, and import primbench.kernels"
    )
