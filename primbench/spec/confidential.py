"""What is not to be written down or shown: values that names say are secret, and passwords in addresses.

All that records words of a user asks here: ``hidden`` for a text, ``hidden_labels`` for labels, ``hidden_command`` for
the words of this program, and ``hidden_arguments`` for those of a user's own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

HIDDEN = "***"
_SECRET = re.compile(
    r"TOKEN(?!IZ)|KEY|SECRET|PASS|PWD|CREDENTIAL|AUTH(?!ORS?(?![A-Z]))"
    r"|(?<![A-Z])(BEARER|COOKIES?|JWT|PAT|SAS|SIG|SIGNATURE)(?![A-Z])",
    re.IGNORECASE,
)
_OF_ADDRESS = re.compile(r"(?<=://)[^/\s?#]*(?=@)")
_BEARER = re.compile(r"(?<=\bBearer )\s*\S+", re.IGNORECASE)
# NAME=, as of variables and addresses; "NAME": as in JSON; NAME: and space, as of HTTP's headers.
_NAME = re.compile(r"(?<![\w.-])([\w.-]++)(?:\\*[\"']?\s*+=\s*+|\\*[\"']\s*+:\s*+|:\s++)")
_QUOTED = re.compile(r"([\"'])(?:\\.|(?!\1)[^\\])*+\1?", re.DOTALL)
_UP_TO_THE_NEXT = re.compile(r".+?(?=[,;&#][A-Za-z][\w.-]*=|$)", re.DOTALL)

_SHORT = ("-H", "-p", "-u")
"""Options of one letter that take a header, a password, and a user with one: of curl, MySQL and others."""
_OPTION = re.compile(r"--[A-Za-z][\w.-]{0,60}|-[A-Za-z][a-z_-]*[0-9]{0,4}")
_LONG_OPTION = re.compile(r"--[a-z][a-z-]*")
_NAMED = re.compile(r"((?:--?|[+~]{1,2})?[A-Za-z][\w./-]*)=(.*)", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?[A-Za-z%]{0,3}", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z]{1,20}[0-9]{0,4}(?:[._-](?:[A-Za-z]{1,20}[0-9]{0,4}|[0-9]{1,4})){0,4}")


def is_secret(name: str) -> bool:
    """Whether a variable, or what else has a name and a value, is named as secrets are."""
    return _SECRET.search(name) is not None


def hidden(text: str) -> str:
    """The text with passwords in addresses, and values that have a secret's name before them, replaced."""
    text = _BEARER.sub(HIDDEN, _OF_ADDRESS.sub(HIDDEN, text))
    found, at = [], 0
    for name in _NAME.finditer(text):
        start = name.end()
        if name.start() < at or not is_secret(name[1]) or text.startswith(HIDDEN, start):
            continue
        quoted = _QUOTED.match(text, start)
        value = quoted or _UP_TO_THE_NEXT.match(text, start)
        if value is not None:
            quote = quoted[1] if quoted else ""
            found += [text[at:start], quote, HIDDEN, quote]
            at = value.end()
    return "".join([*found, text[at:]])


def hidden_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels, none of which has a secret for its value."""
    return {name: HIDDEN if is_secret(name) else hidden(value) for name, value in labels.items()}


def hidden_command(words: Iterable[str]) -> list[str]:
    """The words of a command line of this program, each as ``hidden`` has it, without what a secret's option takes."""
    found, follows = [], False
    for word in words:
        found.append(HIDDEN if follows and not _is_long_option(word) else _attached(word) or hidden(word))
        follows = _takes_secret(word)
    return found


def hidden_arguments(words: Iterable[str]) -> list[str]:
    """The arguments of a program that is not known: names stay, of values only numbers and plain words do.

    A plain word is of letters, with a few digits after them, as adam, resnet50 and train.yaml are. What follows an
    option of a secret, as in --token VALUE, does not stay, whatever it is.
    """
    found, follows = [], False
    for word in words:
        found.append(HIDDEN if follows and not _is_long_option(word) else _argument(word))
        follows = _takes_secret(word)
    return found


def _argument(word: str) -> str:
    if attached := _attached(word):
        return attached
    if named := _NAMED.fullmatch(word):
        return f"{named[1]}={HIDDEN if is_secret(named[1]) else _plain(named[2])}"
    return word if word == "--" or _OPTION.fullmatch(word) else _plain(word)


def _plain(value: str) -> str:
    return value if not value or _NUMBER.fullmatch(value) or _WORD.fullmatch(value) else HIDDEN


def _attached(word: str) -> str:
    """An option of one letter with the value in the same word, as -pVALUE; "" of any other word."""
    is_one = word[:2] in _SHORT and len(word) > len(_SHORT[0])
    return f"{word[:2]}{HIDDEN}" if is_one else ""


def _takes_secret(word: str) -> bool:
    return word in _SHORT or (word.startswith("-") and "=" not in word and is_secret(word))


def _is_long_option(word: str) -> bool:
    """Another option, which no program takes for the value of the one before it."""
    return _LONG_OPTION.fullmatch(word) is not None
