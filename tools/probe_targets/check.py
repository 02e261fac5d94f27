# SPDX-License-Identifier: Apache-2.0
"""Compare a table with the runtime, on models that the table was not made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from circlekit.equivalence.litert_undefined import undefined
from circlekit.ir.graph import Model
from circlekit.ir.op import REGISTRY, Op
from circlekit.targets.operator_form import form_of
from circlekit.targets.target import Target, find_target
from tools.probe_targets.probe import content_of, judged
from tools.probe_targets.runtimes import RUNTIMES, Job, run_jobs
from tools.samples.drawing import sampled_codes
from tools.samples.typed_operator import Sample, draw_sample
from tools.samples.types import Types, all_types

CHECK_SEED = 1 << 20
"""Makes the models differ from those that tables are made from."""

LUCK_SAMPLES, LEAST_FAILURES = 24, 1 / 12
"""If the table refuses a model that runs, LUCK_SAMPLES more models are run which the table refuses for the
same reason.  If at least the part LEAST_FAILURES of them fails, the first model ran by luck, for example
because it has zeros, or dimensions of 1."""


class Drawn(NamedTuple):
    """A model, and the operator and the types from which it was drawn."""

    code: str
    types: Types
    sample: Sample


@dataclass
class Agreement:
    """How often the table and the runtime agree.

    ``counts``: the number of models by (whether the table takes them, whether the runtime runs them).
    ``lucky``: the number of models that the table refuses, but that run by luck.
    ``differences``: a line for each other model on which they disagree.
    """

    counts: Counter[tuple[bool, bool]] = field(default_factory=Counter)
    lucky: int = 0
    differences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        total = self.counts.total()
        return (
            f"{total - len(self.differences)} of {total} models agree; both run {self.counts[True, True]}, "
            f"both refuse {self.counts[False, False]}; table alone {self.counts[True, False]}, runtime alone "
            f"{self.counts[False, True]}, of which {self.lucky} by luck"
        )


def check(name: str, count: int, seed: int) -> Agreement:
    """Return how the runtime ``name`` and its table agree on ``count`` models.

    At least every other drawn model satisfies the table; drawn models that are not valid do not count.
    """
    target = find_target(name)
    found = Agreement()
    random = np.random.default_rng([seed, CHECK_SEED])
    while (missing := count - found.counts.total()) > 0:
        for drawn, reason in _judged(name, draw_samples(name, missing, random)):
            refusal = refusal_of(target, drawn.sample.op)
            if (refusal is None) != (not reason):  # an earlier model may have damaged the process
                reason = next((again for _, again in _judged(name, [drawn])), reason)
            found.counts[refusal is None, not reason] += 1
            if refusal is not None and not reason and _is_luck(name, drawn, refusal, random):
                found.lucky += 1
            elif (refusal is None) != (not reason):
                op = drawn.sample.op
                operands = ", ".join(str(v) if v is None else f"{v!r}" for v in op.inputs)
                verdict = refusal or f"the table has {op.code} {form_of(op)}"
                found.differences.append(f"{verdict}; runtime: {reason or 'runs'}: {op} on {operands}")
    return found


def _judged(name: str, drawn: list[Drawn]) -> Iterator[tuple[Drawn, str]]:
    """Yield (model, reason) for each valid model: why the runtime does not run it, "" if it does."""
    runtime = RUNTIMES[name]
    jobs = [Job(content_of(item.sample.graph, runtime.format), item.sample.inputs) for item in drawn]
    for item, ran in zip(drawn, run_jobs(runtime, jobs), strict=True):
        if (reason := judged(runtime, item.sample, ran)) is not None:
            yield item, reason


def _is_luck(name: str, drawn: Drawn, refusal: str, random: np.random.Generator) -> bool:
    """Return whether a model that the table refuses with ``refusal`` runs by luck (see LUCK_SAMPLES)."""
    others = []
    for number in random.integers(1 << 30, size=10 * LUCK_SAMPLES):
        sample = draw_sample(drawn.code, drawn.types, int(number), CHECK_SEED)
        if sample is not None and _cause(refusal_of(find_target(name), sample.op)) == _cause(refusal):
            others.append(drawn._replace(sample=sample))
        if len(others) == LUCK_SAMPLES:
            break
    failed = [bool(reason) for _, reason in _judged(name, others)]
    return sum(failed) >= LEAST_FAILURES * max(len(failed), 1)


def _cause(refusal: str | None) -> str:
    """Return a refusal without its end ``, got ...``, so that equal causes have equal texts; "" for None."""
    return (refusal or "").partition(", got")[0]


def refusal_of(target: Target, op: Op) -> str | None:
    """Return why the target, or its delegate if it has one, does not run ``op``; None if it does."""
    return target.delegate_refusal(op) if target.delegated else target.refusal(op)


def draw_samples(name: str, count: int, random: np.random.Generator) -> list[Drawn]:
    """Return ``count`` models of measured operators; every other one satisfies the table."""
    target, runtime = find_target(name), RUNTIMES[name]
    known = sampled_codes(runtime.format)
    known = [code for code in known if target.operators.get(code, {}).get("forms") != "any"]
    types = {code: list(all_types(REGISTRY[code])) for code in known}
    found: list[Drawn] = []
    while len(found) < count:
        code = known[int(random.integers(len(known)))]
        chosen = types[code][int(random.integers(len(types[code])))]
        sample = draw_sample(code, chosen, int(random.integers(1 << 30)), CHECK_SEED)
        if sample is None or undefined(Model([sample.graph])) is not None:
            continue
        if len(found) % 2 == 0 and refusal_of(target, sample.op) is not None:
            continue
        found.append(Drawn(code, chosen, sample))
    return found
