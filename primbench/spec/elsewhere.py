"""On which machine the workers of an arm run, and how that is reached."""

from __future__ import annotations

import re

import msgspec

from primbench.errors import InvalidRequest
from primbench.spec.settings import FIRST_KEYS

RUNTIME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_HOST = re.compile(r"[\w.:@%\[\]/][\w.:@%\[\]/-]*")  # a name, an address or a URI; no option


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The part of an arm that says where. What is None is left as the program has it that reaches the machine.

    name: of the arm. runtime: "host", one that starts containers, or one that reaches another machine, such as "ssh".
    host: that machine, by the name that ssh knows it by; None is this one. python: there, as python3 is found unless
    told. ssh_config: a file for ssh, in place of those that it reads by itself. runtime_there: that on the other
    machine, whose images and files are meant then; None is the host there.
    """

    name: str
    runtime: str = "host"
    host: str | None = None
    python: str | None = None
    ssh_config: str | None = None
    runtime_there: str | None = None

    @property
    def is_far(self) -> bool:
        """Whether the worker runs on another machine, of which nothing can be looked up here."""
        return self.runtime in FIRST_KEYS

    def check_machine(self) -> None:
        """Raises InvalidRequest where the words name no machine, or what cannot be one's."""
        first = FIRST_KEYS.get(self.runtime)
        if first is not None and getattr(self, first) is None:
            raise InvalidRequest(f"arm {self.name}: of which machine? The words begin with it: {self.runtime}:HOST")
        if self.host is not None and not _HOST.fullmatch(self.host):
            raise InvalidRequest(f"arm {self.name}: host {self.host!r}: NAME or USER@NAME, as ssh knows the machine")
        if self.python is not None and not re.fullmatch(r"[^\s~,-][^\s,]*", self.python):
            raise InvalidRequest(f"arm {self.name}: python {self.python!r}: a path, in full or from the home there")
        if self.runtime_there is not None and not RUNTIME.fullmatch(self.runtime_there):
            raise InvalidRequest(f"arm {self.name}: runtime {self.runtime_there!r}: the name of one, such as podman")
