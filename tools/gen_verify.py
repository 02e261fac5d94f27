# SPDX-License-Identifier: Apache-2.0
"""Write the table of rules in docs/verify.md from the rules themselves."""

from __future__ import annotations

from pathlib import Path

from circlekit.io.check.findings import RULES

PAGE = Path(__file__).resolve().parent.parent / "docs" / "verify.md"
TITLE = "| rule | if broken | what holds |\n| --- | --- | --- |\n"


def table() -> str:
    """The rules by severity, in the order of their declaration."""
    return TITLE + "".join(f"| `{name}` | {kind} | {what} |\n" for name, (kind, what) in RULES.items())


def main() -> None:
    text = PAGE.read_text()
    PAGE.write_text(text[: text.index(TITLE)] + table())


if __name__ == "__main__":
    main()
