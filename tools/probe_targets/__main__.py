# SPDX-License-Identifier: Apache-2.0
"""Measure what LiteRT, its XNNPACK delegate and onert run, and write it to the tables of targets.

python -m tools.probe_targets litert [--seed 0] [--op CONV_2D ...]   (measure; rewrite the table)
python -m tools.probe_targets onert --check 1000 --seed 7            (do new models and the table agree?)
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from circlekit.io.tables import ENUMS
from circlekit.targets.target import TABLES
from tools.probe_targets.check import check
from tools.probe_targets.probe import Measured, input_dtypes, measure, registered
from tools.probe_targets.recurrent import RECURRENT
from tools.probe_targets.runtimes import RUNTIMES
from tools.samples.drawing import sampled_codes
from tools.sweep import sweep, tool_parser

NOT_ASKED = frozenset({"CUSTOM", "DELEGATE", "PLACEHOLDER_FOR_GREATER_OP_CODES"})
"""Codes that are not tried with ``registered``: they name no single operator."""

XNNPACK_RUN_BYTES = 64
"""The cost of a run of contiguous elements, in bytes that TRANSPOSE moves in the same time.

CONCATENATION along 3 to 32 channels takes 5 ns for each run; TRANSPOSE moves about 64 bytes in 5 ns.
"""

UNPROBED = "registered; no model that runs was drawn, so all forms count"


def main() -> int:
    parser = tool_parser("probe_targets", __doc__)
    parser.add_argument("target", choices=RUNTIMES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--op", action="append", help="measure these operators only, and keep the others")
    parser.add_argument(
        "--check", type=int, metavar="N", help="compare the table with the runtime on N models"
    )
    arguments = parser.parse_args()
    runtime = RUNTIMES[arguments.target]
    if arguments.check is not None:
        agreement = check(arguments.target, arguments.check, arguments.seed)
        print("\n".join(agreement.differences))
        print(f"{arguments.target}: {agreement}")
        return bool(agreement.differences)
    path = TABLES / f"{arguments.target.replace('-', '_')}.json"
    chosen = arguments.op or sampled_codes(runtime.format)
    chosen += [code for code in RECURRENT if arguments.target == "litert" and not arguments.op]
    old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    table = {**old, **new_table(arguments.target)}
    if arguments.op:
        table |= {key: old[key] for key in ("operators", "delegated") if key in old}
    unjudged: list[str] = []
    started = time.monotonic()
    with sweep(len(chosen), "operators") as line:
        for code in line.each(chosen):
            found = measure(code, arguments.target, arguments.seed)
            report(code, found)
            enter(table, old, code, found)
            if found is None:
                unjudged.append(code)
            path.write_text(text_of(table), encoding="utf-8")
    if "delegated" not in table and not line.is_interrupted:
        if not arguments.op:
            unjudged += (
                {name for name, _, _ in ENUMS["BuiltinOperator"][1]}
                - NOT_ASKED
                - {*sampled_codes(runtime.format), *chosen}
            )
        for code in registered(sorted(unjudged), runtime):
            kept = old.get("operators", {}).get(code, {})
            table["operators"][code] = {**kept, "version": None, "forms": "any", "source": UNPROBED}
        path.write_text(text_of(table), encoding="utf-8")
    print(f"{time.monotonic() - started:.0f} s")
    return line.exit_code(False)


def new_table(name: str) -> dict[str, Any]:
    """Return the table of the runtime ``name``, without operators."""
    runtime = RUNTIMES[name]
    table: dict[str, Any] = {
        "name": name,
        "title": runtime.title,
        "version": runtime.version,
        "source": f"measured by tools/probe_targets with {runtime.package} {runtime.version}",
        "formats": [runtime.format],
        "extends": None,
        "complete": True,
        "input_dtypes": input_dtypes(runtime),
        "operators": {},
    }
    delegate = {"extends": "litert", "delegated": {}, "run_bytes": XNNPACK_RUN_BYTES}
    return {**table, **delegate} if name == "litert-xnnpack" else table


def enter(table: dict[str, Any], old: dict[str, Any], code: str, found: Measured | None) -> None:
    """Replace the entry of an operator in ``table``, in the part of the delegate if there is one.

    ``found``: what was measured; None: remove the entry.  What no model reveals is kept from the ``old``
    table: forms with a source of their own, and further keys of the entry, such as ``ignores``.
    """
    part = "delegated" if "delegated" in table else "operators"
    entry = old.get(part, {}).get(code, {"forms": {}})
    entry = {key: content for key, content in entry.items() if content != UNPROBED}
    forms = entry["forms"]
    kept = {} if forms == "any" else {form: c for form, c in forms.items() if "source" in c}
    table[part].pop(code, None)
    if found is not None and (found.forms or kept):
        table[part][code] = {**entry, "version": found.version, "forms": {**found.forms, **kept}}


def text_of(table: dict[str, Any]) -> str:
    """Return the table as JSON, sorted, with a line for each form."""
    operators = ("operators", "delegated")
    parts = [
        f"{json.dumps(key)}: {_listed(table[key]) if key in operators else json.dumps(table[key])}"
        for key in sorted(table)
    ]
    return "{" + ",\n".join(parts) + "}\n"


def _listed(entries: dict[str, Any]) -> str:
    """Return entries of operators as JSON, with a line for each operator and each form."""
    rows = []
    for code, entry in sorted(entries.items()):
        forms, forms_text = entry["forms"], '"any"'
        if forms != "any":
            lines = (
                f"  {json.dumps(form)}: {json.dumps(forms[form], sort_keys=True)}" for form in sorted(forms)
            )
            forms_text = "{\n" + ",\n".join(lines) + "}"
        others = {key: value for key, value in entry.items() if key != "forms"}
        rows.append(
            f' {json.dumps(code)}: {json.dumps(others, sort_keys=True)[:-1]}, "forms": {forms_text}}}'
        )
    return "{\n" + ",\n".join(rows) + "}"


def report(code: str, found: Measured | None) -> None:
    """Print what the table cannot express: failures without a constraint, and why there are no forms."""
    if found is None:
        print(f"{code}: no model that our interpreter runs was drawn")
        return
    if not found.forms:
        print(f"{code}: no form runs")
    for form, count in sorted(found.unexplained.items()):
        state = "" if form in found.forms else ", left out"
        print(f"{code} {form}: {count} failures unexplained{state}: {found.reasons.get(form, '')[:100]}")


if __name__ == "__main__":
    sys.exit(main())
