# SPDX-License-Identifier: Apache-2.0
"""If LiteRT runs a model, check that it also runs the results of O1 and of every pass, with equal values.

Models are random graphs, as they are and with other dtypes; the target of the passes is litert.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from circlekit.equivalence.workers import Tell
from circlekit.errors import CirclekitError
from circlekit.io.write.save import to_bytes
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.value import Array
from circlekit.passes.engine.legalize import legalize
from circlekit.passes.engine.pass_manager import run_passes
from circlekit.passes.engine.registry import find_pass, select_passes
from circlekit.passes.engine.written_form import rules_of_targets
from circlekit.rewrite.base import Context
from circlekit.targets.target import find_target
from circlekit.targets.target_choice import TargetSet
from circlekit.testing.model_builder import Rejected
from tools.random_graphs.checks import Original, count_ops
from tools.random_graphs.examine import PASSES, Finding, Result
from tools.random_graphs.graphs import ALL_PARTS, make, random_steps, unknown_custom
from tools.random_graphs.litert_check import TARGET, PassFile, litert_faults
from tools.random_graphs.retype import RETYPES, retype

NO_PASS, PIPELINE = "no pass", "O1"


def model_of(seed: int) -> tuple[Model, list[Array]] | None:
    """Return the random graph of ``seed``, with other dtypes if ``seed`` is odd, and inputs for it.

    It has no unknown custom operators.  Return None if it cannot have the other dtypes.
    """
    with np.errstate(all="ignore"):
        steps = [step for step in random_steps(seed) if ALL_PARTS[step.part] is not unknown_custom]
        model, inputs = make(seed, steps)
        if seed % 2 == 0:
            return model, inputs
        try:
            return retype(model, inputs, RETYPES[seed // 2 % len(RETYPES)], seed)
        except (CirclekitError, Rejected, KeyError):  # KeyError: variables are not retyped
            return None


def examine_in_litert(seed: int, tell: Tell = lambda _: None, passes: Sequence[str] = PASSES) -> Result:
    """Examine the model of ``seed``; ``tell`` is called with the name of each step before it starts."""
    tell("making")
    made = model_of(seed)
    return Result(seed) if made is None else check_target(seed, *made, passes, tell)


def check_target(
    seed: int, model: Model, inputs: Sequence[Array], passes: Sequence[str], tell: Tell = lambda _: None
) -> Result:
    """Check O1 and ``passes``; find nothing if our interpreter or LiteRT does not run ``model`` itself."""
    found = Result(seed, count_ops(model))
    try:
        original = Original(model, inputs)
    except CirclekitError:
        return found
    raised: list[tuple[str, str]] = []
    files = list(_files(model, passes, raised, tell))
    tell("LiteRT")
    faults = litert_faults(original, files)
    if faults is not None:
        found.litert = True
        found.fired.update(file.name for file in files)
        found.findings += [
            Finding(seed, "LiteRT", (n,), "tflite", " ".join(s.split())) for n, s in (*raised, *faults)
        ]
    return found


def _files(
    model: Model, passes: Sequence[str], raised: list[tuple[str, str]], tell: Tell
) -> Iterator[PassFile]:
    """Yield the file after no pass, and the file after O1 and each of ``passes`` that changes something.

    Passes that change the interface are left out.  If a pass raises, add (its name, the error) to ``raised``.
    """
    targets = TargetSet((find_target(TARGET),))
    kept = [name for name in passes if not find_pass(name).changes_interface]
    copy: Model | None = None
    for name in (NO_PASS, PIPELINE, *kept):
        tell(name)
        copy = copy or clone(model)
        rules = rules_of_targets(targets, "tflite")
        context = Context("tflite", exact=True, target=rules)  # approximate rewrites change values on purpose
        try:
            selected = select_passes([] if name == NO_PASS else [name], format="tflite")
            records = run_passes(copy, selected, context)
            if name == NO_PASS or any(record.changes for record in records):
                result, copy = copy, None
                content = to_bytes(legalize(result, "tflite", targets=targets.targets), "tflite")
                yield PassFile(name, content, name not in kept or not find_pass(name).changes_values)
        except Exception as error:  # a pass may raise anything
            raised.append((name, f"{type(error).__name__}: {error}"))
            copy = None
