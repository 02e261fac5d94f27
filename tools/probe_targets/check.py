# SPDX-License-Identifier: Apache-2.0
"""Compare a table with the runtime, on models that the table was not made from."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from circlekit.ir.graph import Model
from circlekit.ir.op import REGISTRY, Op
from circlekit.targets.operator_form import form_of
from circlekit.targets.target import Target, find_target
from tools.kit.families import codes
from tools.probe_targets.probe import content_of, wrong_values
from tools.probe_targets.runtimes import RUNTIMES, Job, run_jobs
from tools.probe_targets.samples import Sample, all_types, draw_sample
from tools.random_graphs.litert_undefined import undefined

CHECK_SEED = 1 << 20
"""Added to the seed, so that the models differ from those that tables are made from."""


@dataclass
class Agreement:
    """``counts``: models by what table and runtime say.  ``differences``: a line for each disagreement."""

    counts: Counter[tuple[bool, bool]] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        agree = self.counts[True, True] + self.counts[False, False]
        return (
            f"{agree} of {self.counts.total()} models agree; both run {self.counts[True, True]}, both refuse "
            f"{self.counts[False, False]}; table alone {self.counts[True, False]}, runtime alone "
            f"{self.counts[False, True]}"
        )


def check(name: str, count: int, seed: int) -> Agreement:
    """Return how ``count`` models, half of them of forms in the table, agree with the table ``name``."""
    target, runtime = find_target(name), RUNTIMES[name]
    samples = draw_samples(name, count, seed)
    jobs = [Job(content_of(sample.graph, runtime.format), sample.inputs) for sample in samples]
    found = Agreement()
    for sample, ran in zip(samples, run_jobs(runtime, jobs), strict=True):
        refusal = refusal_of(target, sample.op)
        reason = ran.reason or wrong_values(runtime.format, sample, ran)
        found.counts[refusal is None, not reason] += 1
        if (refusal is None) != (not reason):
            verdict = refusal or f"the table has {form_text(sample.op)}"
            found.differences.append(f"{verdict}; runtime: {reason or 'runs'}")
    return found


def refusal_of(target: Target, op: Op) -> str | None:
    """Return why the target does not run ``op``, or its delegate, if it has one, does not take it."""
    if target.delegated:
        return target.delegate_refusal(op)
    return target.refusal(op)


def form_text(op: Op) -> str:
    return f"{op.code} {form_of(op)}"


def draw_samples(name: str, count: int, seed: int) -> list[Sample]:
    """Return ``count`` models of measured operators; every other one satisfies the table."""
    target, runtime = find_target(name), RUNTIMES[name]
    rng = np.random.default_rng([seed, CHECK_SEED])
    known = [code for code in codes() if runtime.format in REGISTRY[code].formats]
    known = [code for code in known if target.operators.get(code, {}).get("forms") != "any"]
    types = {code: list(all_types(REGISTRY[code])) for code in known}
    found: list[Sample] = []
    while len(found) < count:
        code = known[int(rng.integers(len(known)))]
        chosen = types[code][int(rng.integers(len(types[code])))]
        sample = draw_sample(code, chosen, int(rng.integers(1000)), seed + CHECK_SEED)
        if sample is None or undefined(Model([sample.graph])) is not None:
            continue
        if len(found) % 2 == 0 and refusal_of(target, sample.op) is not None:
            continue
        found.append(sample)
    return found
