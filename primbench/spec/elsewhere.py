"""On which machine the workers of an arm run, and how that is reached."""

from __future__ import annotations

import re

import msgspec

from primbench.errors import InvalidRequest
from primbench.spec.settings import FIELDS, FIRST_KEYS

RUNTIME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_HOST = re.compile(r"[\w.:@%\[\]/][\w.:@%\[\]/-]*")  # a name, an address or a URI; no option
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*")  # one, and no list of them
_WORD = re.compile(r"[^\s,-][^\s,]*")
_SHAPES = {
    "host": (_HOST, "NAME or USER@NAME, as ssh knows the machine"),
    "node": (_NODE, "the name of one, such as n17"),
    "python": (re.compile(r"[^\s~,-][^\s,]*"), "a path, in full or from the home there"),
    "runtime": (RUNTIME, "the name of one, such as podman"),
    "context": (_WORD, "the name of one, as `kubectl config get-contexts` shows them"),
    "namespace": (_NODE, "the name of one, as `kubectl get namespaces` shows them"),
}


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The part of an arm that says where. What is None is left as the program has it that reaches the machine.

    name: of the arm. runtime: "host", one that starts containers, or one that reaches another machine, such as "ssh".
    host: that machine, by the name that ssh knows it by. node: by that which Slurm or Kubernetes has. python: there, as
    python3 is found unless told. ssh_config: a file for ssh, in place of those that it reads by itself. runtime_there:
    that on the other machine, whose images and files are meant then; None is the host there. context, namespace: of
    kubectl. selector: labels, as "pool=h100", that a node of the cluster must have. gpus: how many a pod has.
    """

    name: str
    runtime: str = "host"
    host: str | None = None
    node: str | None = None
    python: str | None = None
    ssh_config: str | None = None
    runtime_there: str | None = None
    context: str | None = None
    namespace: str | None = None
    selector: tuple[str, ...] = ()
    gpus: int | None = None

    @property
    def is_far(self) -> bool:
        """Whether the worker runs on another machine, of which nothing can be looked up here."""
        return self.runtime in FIRST_KEYS

    @property
    def machine(self) -> str | None:
        """By what it is reached; None is this one."""
        return getattr(self, FIRST_KEYS[self.runtime]) if self.is_far else None

    def check_machine(self) -> None:
        """Raises InvalidRequest where the words name no machine, or what cannot be one's."""
        if self.is_far and self.machine is None:
            first = FIRST_KEYS[self.runtime]
            what, words = "image" if first == "image" else "machine", f"{self.runtime}:{first.upper()}"
            raise InvalidRequest(f"arm {self.name}: of which {what}? The words begin with it: {words}")
        for key, (shape, wanted) in _SHAPES.items():
            value = getattr(self, FIELDS[key].field)
            if value is not None and not shape.fullmatch(value):
                raise InvalidRequest(f"arm {self.name}: {key} {value!r}: {wanted}")
