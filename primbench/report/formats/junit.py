"""JUnit's XML, as servers that build and test software show it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from primbench.report.plain import printable  # XML has no way to write a control character

if TYPE_CHECKING:
    from primbench.report.document import Check, Document

RANK = 40
WRITES = "JUnit XML, a test a case"
IS_RARE = True

TAGS = {"failed": "failure", "open": "skipped"}


def write(document: Document) -> str:
    """A suite a group. A case that was left out or could not be told is a skipped test."""
    groups: dict[str, list[Check]] = {}
    for check in document.checks():
        groups.setdefault(check.group, []).append(check)
    root = Element("testsuites", name="primbench")
    root.extend(_suite(group, checks) for group, checks in groups.items())
    indent(root)
    written: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return f"{written.decode()}\n"


def _suite(group: str, checks: list[Check]) -> Element:
    states = [check.state for check in checks]
    counts = {"tests": len(states), "failures": states.count("failed"), "errors": 0, "skipped": states.count("open")}
    suite = Element("testsuite", {"name": printable(group)} | {name: str(count) for name, count in counts.items()})
    for check in checks:
        case = SubElement(suite, "testcase", classname=printable(group), name=printable(check.name))
        if check.state in TAGS:
            SubElement(case, TAGS[check.state], message=printable(check.words))
    return suite
