# SPDX-License-Identifier: Apache-2.0
"""circle-execution-plan: write the execution order and memory offsets of the main graph into the metadata.

In ONE, these are nodes: graph inputs, variables, constants, operators, absent operands, graph outputs, and
each result of an operator with several results.  The plan is a table.  A row has the position of a node in
the order, and the offsets in memory of its data and of its scratch buffer.
"""

from __future__ import annotations

import argparse

from circlekit.api.models import check_output_paths, load, refuse_overwriting, save
from circlekit.api.structure_checks import check_structure
from circlekit.cli.arguments import MODEL_HELP, Parser, output_path
from circlekit.cli.command import Command, OneCodes
from circlekit.cli.output.json_text import json_text
from circlekit.errors import UnsupportedError, counted
from circlekit.io.write.file_writer import write_file
from circlekit.passes.engine.legalize import legalize
from circlekit.targets.one_plan_table import (
    METADATA,
    allocations,
    execution_plan,
    micro_positions,
    plan_table,
)

DESCRIPTION = (
    "Write an execution plan of the main graph, in ONE's format, into a circle model: the order of its nodes "
    "(operators, inputs, constants), and where in memory each stores its data."
)

RUNTIMES = ("luci-interpreter", "onert-micro", "onert_micro")
"""The values of ``--runtime``.

ONE's own default is ``onert_micro`` with an underscore, a value that ONE's program then refuses.  Here it
means ``onert-micro``.
"""

TRUE, FALSE = "true", "false"
"""The two values of ``--allocate_const``, ``--allocate_input`` and ``--use_dsp``."""


def _declare(parser: Parser) -> None:
    parser.add_argument("input", help=MODEL_HELP)
    parser.add_argument("output", type=output_path, help="the circle file to write")
    parser.add_argument(
        "--platform", choices=("linux", "mcu", "cmsisnn"), default="linux",
        help="linux: plan scratch memory of convolutions; mcu: plan no scratch memory; cmsisnn is not"
        " supported (default: linux)",
    )  # fmt: skip
    parser.add_argument(
        "--allocating_mode", choices=("common", "split"), default="common",
        help="common: one memory region for everything (default); split is not supported",
    )  # fmt: skip
    parser.add_argument(
        "--runtime", choices=RUNTIMES, default=RUNTIMES[0],
        help="onert-micro: inputs and the nodes that compute outputs have the first positions; constants that"
        f" are no outputs have no row in the table (default: {RUNTIMES[0]})",
    )  # fmt: skip
    for flag, what, default in (("const", "constants", FALSE), ("input", "inputs", TRUE)):
        parser.add_argument(
            f"--allocate_{flag}",
            choices=(TRUE, FALSE),
            default=default,
            help=f"whether to plan memory for {what} (default: {default})",
        )
    parser.add_argument(
        "--use_dsp", choices=(TRUE, FALSE), default=FALSE, help="true is not supported: it needs cmsisnn"
    )
    parser.add_argument("--save_allocations", type=output_path, metavar="FILE", help="write the plan as JSON")


def _run(arguments: argparse.Namespace) -> int:
    if arguments.use_dsp == TRUE and arguments.platform != "cmsisnn":
        arguments.refuse("--use_dsp needs --platform cmsisnn")
    if arguments.platform == "cmsisnn":
        raise UnsupportedError(
            "expected the platform linux or mcu, got cmsisnn: the scratch memory of CMSIS-NN is not known"
        )
    if arguments.allocating_mode == "split":
        raise UnsupportedError("expected the allocating mode common, got split, which is not supported")
    check_output_paths(filter(None, (arguments.output, arguments.save_allocations)))
    if arguments.save_allocations is not None:
        refuse_overwriting(arguments.input, arguments.save_allocations)
    model = legalize(load(arguments.input), "circle")
    check_structure(model, arguments.input)
    nodes, plan = execution_plan(
        model.main,
        with_constants=arguments.allocate_const == TRUE,
        with_inputs=arguments.allocate_input == TRUE,
        with_scratch=arguments.platform == "linux",
    )
    others = [(name, data) for name, data in model.metadata if name != METADATA]  # without an older plan
    is_micro = arguments.runtime != RUNTIMES[0]
    positions = micro_positions(model.main, nodes) if is_micro else list(range(len(nodes)))  # by node
    model.metadata = [*others, (METADATA, plan_table(nodes, plan, positions))]
    if arguments.save_allocations is not None:
        text = json_text(allocations(plan)) + "\n"
        write_file(arguments.save_allocations, [text.encode()])
    save(model, arguments.output, "circle")
    print(f"{counted(len(nodes), 'node')}, {plan.size:,} bytes: {arguments.output}")
    return 0


main = Command("circle-execution-plan", DESCRIPTION, "input output", _declare, _run, one=OneCodes(failed=1))
