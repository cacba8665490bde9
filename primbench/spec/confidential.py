"""What is not to be written down or shown: values that names say are secret, and passwords in addresses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

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


def hidden_arguments(words: Iterable[str]) -> list[str]:
    """The arguments of a program, likewise, and what follows an option with a secret's name, as in --token VALUE."""
    found, follows = [], False
    for word in words:
        is_option = word.startswith("-")
        found.append(HIDDEN if follows and not is_option else hidden(word))
        follows = is_option and "=" not in word and is_secret(word)
    return found


def _kept(named: re.Match[str]) -> str:
    return f"{named[1]}={HIDDEN}" if is_secret(named[1]) else named[0]
