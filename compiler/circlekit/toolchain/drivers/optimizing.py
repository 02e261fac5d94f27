# SPDX-License-Identifier: Apache-2.0
"""one-optimize: run passes on a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from circlekit.toolchain.driver import Driver, Invocation
from circlekit.toolchain.option import (
    INPUT_PATH,
    OUTPUT_PATH,
    DriverError,
    Kind,
    Option,
    Values,
)
from circlekit.toolchain.session import Session

PROFILE = Option("generate_profile_data", "generate profiling data", "-p", Kind.SWITCH)
GROUP = Option("O", short="-O", is_shown=False)
"""The option with which onecc names optimization groups.  The help of one-optimize does not show it.

A group is a file of options, such as O1.cfg.  The value has the names of groups without their O, such as 1,
separated by spaces.
"""


def _declare() -> Sequence[Option]:
    """Return the options: one for each pass, each pipeline and each setting of a pass, and a few more."""
    from circlekit.passes.engine.describe import summary  # slow, because it imports all passes
    from circlekit.passes.engine.registry import all_passes  # slow, too
    from circlekit.passes.pipelines import PIPELINES, in_order  # slow, too

    passes = all_passes()
    settings = {setting.name: setting for item in passes.values() for setting in item.options}
    # a setting with the name of a pass shares its flag with the pass
    return [
        PROFILE, INPUT_PATH, OUTPUT_PATH, GROUP,
        *(Option(name, f"run the pipeline {name}", kind=Kind.SWITCH) for name in PIPELINES),
        *(
            Option(name, summary(passes[name]), kind=Kind.SWITCH)
            for name in in_order(passes) if name not in settings
        ),
        *(
            Option(s.name, s.help, parse=s.parse) if s.metavar else Option(s.name, s.help, kind=Kind.SWITCH)
            for s in settings.values()
        ),
    ]  # fmt: skip


def _group(values: Values, session: Session) -> Mapping[str, Any]:
    """Return {key of an option: its value} from the optimization groups in the option GROUP.

    If two groups have the same key, the later group counts.  Raise DriverError for an unknown group or key,
    and for a wrong value.
    """
    group = values.get("O")
    if not group:
        return {}
    known = {option.key: option for option in one_optimize.options}
    given: dict[str, Any] = {}
    for name in str(group).split():
        keys = session.installation.group(f"O{name}")
        for key, text in keys.items():
            if key not in known:
                raise DriverError("ValueError", f"optimization/O{name}.cfg: unknown key {key}")
            try:
                given[key] = known[key].read(text)
            except ValueError as error:
                raise DriverError("ValueError", f"optimization/O{name}.cfg: {key}: {error}") from None
    return given


def _run(invocation: Invocation, session: Session) -> None:
    """Run one-optimize."""
    from circlekit.toolchain.optimization import optimize  # imports the passes, which --version does not need

    optimize(invocation, session)


one_optimize = Driver(
    "one-optimize",
    "command line tool to optimize circle model",
    _declare,
    _run,
    group=_group,
    usage="one-optimize [-h] [-v] [-V] [-C CONFIG] [-p] [-i INPUT_PATH] [-o OUTPUT_PATH] [--PASS ...]",
)
