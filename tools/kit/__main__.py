# SPDX-License-Identifier: Apache-2.0
"""Compare the interpreter with LiteRT on random models, each of one operator.

python -m tools.kit --cases 20000 --seed 7 [--op CONV_2D ...] [--table docs/measured/operators.md]
python -m tools.kit --seed 7 --op CONV_2D --case 31      (one case, in this process, with its model as text)
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from pathlib import Path

from circlekit.ir.graph import Model
from circlekit.ir.text import print_model
from circlekit.testing.model_builder import Rejected
from tools.kit.case import Done, Job, Verdict, codes, draw_case, run_all, run_here
from tools.kit.table import document, rows_of
from tools.sweep import sweep, tool_parser


def main() -> int:
    parser = tool_parser("kit", __doc__)
    parser.add_argument("--cases", type=int, default=2000, help="number of models, over all operators")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--op", action="append", choices=codes(), metavar="CODE", help="default: all")
    parser.add_argument("--case", type=int, help="run one case of an operator and print its model")
    parser.add_argument("--table", type=Path, help="write the support table to this file")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    chosen = arguments.op or codes()
    if arguments.case is not None:
        return show(Job(chosen[0], arguments.seed, arguments.case))
    started = time.monotonic()
    done: list[Done] = []
    with sweep(arguments.cases, "cases") as line:
        numbers = range(arguments.cases)
        jobs = [Job(chosen[n % len(chosen)], arguments.seed, n // len(chosen)) for n in numbers]
        done.extend(line.each(run_all(jobs, arguments.processes)))
    rows = rows_of(done)
    page = document(rows, arguments.cases, arguments.seed)
    passed, compared = sum(r.counts[Verdict.PASSED] for r in rows), sum(r.compared for r in rows)
    print(f"{page}\n{passed} of {compared} cases that LiteRT runs have equal results")
    print(f"{time.monotonic() - started:.0f} s")
    if arguments.table is not None and not line.is_interrupted:
        arguments.table.write_text(page)
    return line.exit_code(False)


def show(job: Job) -> int:
    """Print the model and the inputs of a case, if there is one, and the outcome; return exit code 0."""
    with suppress(Rejected):  # then the outcome says that there is no case
        sample = draw_case(job)
        print(print_model(Model([sample.graph], format="tflite")))
        for array in sample.inputs:
            print(repr(array))
    done = run_here(job)
    print(done.verdict.value, done.reason)
    return 0


if __name__ == "__main__":
    sys.exit(main())
