# SPDX-License-Identifier: Apache-2.0
"""Generate the reference tables while the documentation is built; none is kept in the repository."""

from __future__ import annotations

import mkdocs_gen_files

from circlekit.io.findings import RULES
from circlekit.passes.engine.describe import page
from circlekit.passes.engine.registry import all_passes


def verify_rules() -> str:
    """Every rule of ``circle-verify`` as a table."""
    rows = [f"| `{name}` | {severity} | {meaning} |" for name, (severity, meaning) in RULES.items()]
    head = [
        "# Rules of circle-verify",
        "",
        "| rule | if violated | what the rule demands |",
        "| --- | --- | --- |",
    ]
    return "\n".join([*head, *rows, ""])


def write(path: str, text: str) -> None:
    """Add a page to the site."""
    with mkdocs_gen_files.open(path, "w") as file:
        file.write(text)


write("reference/passes.md", page(all_passes()))
write("reference/verify-rules.md", verify_rules())
