"""What is not to be written down or shown: values that names say are secret, and passwords in addresses."""

from __future__ import annotations

import re

_SECRET = re.compile(
    r"TOKEN(?!IZ)|KEY|SECRET|PASS|PWD|CREDENTIAL|AUTH(?!ORS?(?![A-Z]))"
    r"|(?<![A-Z])(BEARER|COOKIES?|JWT|PAT|SAS|SIG|SIGNATURE)(?![A-Z])",
    re.IGNORECASE,
)
_OF_ADDRESS = re.compile(r"(?<=://)[^/\s?#]*(?=@)")
_NAMED = re.compile(r"(?<![\w.-])([\w.-]+)=(.+?)(?=,[A-Za-z][\w.-]*=|[&#]|$)", re.DOTALL)
HIDDEN = "***"


def is_secret(name: str) -> bool:
    """Whether a variable, or what else has a name and a value, is named as secrets are."""
    return _SECRET.search(name) is not None


def hidden(text: str) -> str:
    """The text with passwords in addresses, and values of NAME=VALUE with a secret's name, replaced."""
    return _NAMED.sub(_kept, _OF_ADDRESS.sub(HIDDEN, text))


def _kept(named: re.Match[str]) -> str:
    return f"{named[1]}={HIDDEN}" if is_secret(named[1]) else named[0]
