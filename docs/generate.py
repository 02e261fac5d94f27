# SPDX-License-Identifier: Apache-2.0
"""Generate the reference tables while the documentation is built; none is kept in the repository."""

from __future__ import annotations

import mkdocs_gen_files

from circlekit.io.findings import RULES
from circlekit.passes.engine.describe import page
from circlekit.passes.engine.registry import all_passes
from circlekit.toolchain.drivers import all_drivers
from circlekit.toolchain.option import Kind


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


def drivers() -> str:
    """The options of each driver as a table; a flag for each pass is on the page of the passes."""
    lines = ["# Options of the drivers", "", "Keys of configurations; as flags with `--` in front."]
    for driver in all_drivers().values():
        lines += [
            "",
            f"## {driver.name}",
            "",
            "| key | short | default | meaning |",
            "| --- | --- | --- | --- |",
        ]
        for option in driver.options:
            if option.is_shown and option.key not in all_passes():
                default = "False" if option.kind is Kind.SWITCH else option.default or ""
                meaning = option.help or ", ".join(option.constants)
                lines.append(
                    f"| `{option.name}` | {option.short} | {default} | {meaning.replace('|', '/')} |"
                )
    return "\n".join([*lines, ""])


def write(path: str, text: str) -> None:
    """Add a page to the site."""
    with mkdocs_gen_files.open(path, "w") as file:
        file.write(text)


write("reference/passes.md", page(all_passes()))
write("reference/verify-rules.md", verify_rules())
write("reference/drivers.md", drivers())
