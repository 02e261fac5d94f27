# SPDX-License-Identifier: Apache-2.0
"""The memory planners of runtimes, as data: which values share a buffer, and where a buffer is placed.

A planner places buffers in the arena, the memory for all activations of a run.
Sources: LiteRT ``arena_planner.cc``, ``simple_memory_arena.cc`` and ``inplace_operator`` of its kernels;
TFLM ``greedy_memory_planner.cc`` and ``micro_allocation_info.cc``; ONE ``ExecutionPlanner.cpp`` of
circle-execution-plan; onert ``MemoryPlanner.cc`` (WIC, its default) and ``SharedMemoryOperands.cc``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from circlekit.errors import UnsupportedError, did_you_mean, shown
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.targets.scratch_memory import litert_scratch, no_scratch, one_scratch
from circlekit.targets.target import DEFAULT_TARGETS

VIEWS = frozenset({"RESHAPE", "EXPAND_DIMS", "SQUEEZE"})
"""The operators whose result has the bytes of their first operand."""


@dataclass(frozen=True)
class Planner:
    """The memory planner of a runtime.  Operators are given by their names in the schema.

    ``name``: the name of a target that has this planner; other targets may have it too.
    ``title``: the name that users read.
    ``alignment``: every offset is a multiple of this many bytes.
    ``pads_sizes``: the sizes of buffers are rounded up to a multiple of the alignment.
    ``keeps_inputs``: graph inputs stay in memory until the end of a run.
    ``keeps_unused``: results that no operator reads stay in memory until the end of a run.
    ``holds_interface``: graph inputs and outputs are in the arena; if false, the caller provides their
    memory.
    ``views``: the operators whose result shares the memory of the first operand.
    ``in_place``: {operator: n}.  The result may overwrite one of the first n operands; that operand must have
    the same size and no other reader.
    ``best_fit``: a buffer is placed in the smallest gap that is large enough, as LiteRT measures gaps; if
    false, in the first such gap.
    ``whole_run_first``: buffers that are needed during the whole run are placed before larger buffers.
    ``latest_first``: of buffers with equal size, the buffer of the later operator is placed first.
    ``early``: the operators whose result is computed before the first run if all operands are constant or
    such results themselves.  Those that read only the shape of their operand (SHAPE, RANK) are always
    computed before the first run.
    ``computed_once``: the operators whose result is computed in the first run and kept outside of the arena,
    if all operands are constants of the file.
    ``scratch``: a function that returns the sizes of the scratch buffers of an operator's kernel.
    """

    name: str
    title: str
    alignment: int = 1
    pads_sizes: bool = False
    keeps_inputs: bool = False
    keeps_unused: bool = False
    holds_interface: bool = True
    views: frozenset[str] = frozenset()
    in_place: Mapping[str, int] = field(default_factory=dict)
    best_fit: bool = False
    whole_run_first: bool = False
    latest_first: bool = False
    early: frozenset[str] = frozenset()
    computed_once: frozenset[str] = frozenset()
    scratch: Callable[[Op], list[int]] = no_scratch

    def values_outside(self, ops: Iterable[Op]) -> set[Value]:
        """Return the results of ``early`` and ``computed_once`` operators that are not in the arena.

        ``ops``: the operators of a graph, in a valid order.
        """
        early: set[Value] = set()
        once: set[Value] = set()
        for op in ops:
            operands = [value for value in op.inputs if value is not None and not value.is_const]
            if op.code in self.early and (not op.reads_data or early.issuperset(operands)):
                early.update(op.results)
            elif op.code in self.computed_once and not operands:
                once.update(op.results)
        return early | once


LITERT = Planner(
    "litert",
    "LiteRT, built-in kernels, one thread",
    alignment=64,
    keeps_inputs=True,
    keeps_unused=True,
    views=VIEWS | {"BITCAST"},
    in_place={"ADD": 2, "SUB": 2, "MUL": 2, "DIV": 2, "SOFTMAX": 1, "DYNAMIC_UPDATE_SLICE": 1},
    best_fit=True,
    whole_run_first=True,
    early=frozenset(
        {"SHAPE", "RANK", "CONCATENATION", "GATHER", "MUL", "RANGE", "STRIDED_SLICE", "TILE", "RESHAPE"}
        | {"REDUCE_PROD", "BROADCAST_ARGS"}  # REDUCE_PROD: if the result has at most 8 elements; ignored here
    ),
    computed_once=frozenset({"DEQUANTIZE", "DENSIFY"}),
    scratch=litert_scratch,
)

PLANNERS = {
    "litert": LITERT,
    "litert-xnnpack": LITERT,
    "tflm": Planner(
        "tflm", "TFLM, greedy planner", alignment=16, pads_sizes=True, latest_first=True
    ),
    "onert": Planner("onert", "onert, WIC planner", holds_interface=False, views=VIEWS),
    "luci": Planner(
        "luci",
        "ONE's execution plan",
        keeps_inputs=True,
        keeps_unused=True,
        best_fit=True,
        whole_run_first=True,
        scratch=one_scratch,
    ),
}  # fmt: skip
"""The planner of each target."""


def find_planner(target: str) -> Planner:
    """Return the planner of the target with this name.

    Raise UnsupportedError if there is no such target (the message names similar ones).
    """
    if target not in PLANNERS:
        raise UnsupportedError(
            f"no target is named {shown(target)}{did_you_mean(target, PLANNERS)}; "
            f"there are {', '.join(PLANNERS)}"
        )
    return PLANNERS[target]


def default_planner(format: str, targets: Iterable[str] = ()) -> Planner:
    """Return the planner of the first of ``targets`` that has a planner, else that of the default target.

    ``targets``: names of targets.  ``format``: circle or tflite, which determines the default target.
    """
    return next((PLANNERS[name] for name in targets if name in PLANNERS), PLANNERS[DEFAULT_TARGETS[format]])
