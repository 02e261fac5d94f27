# SPDX-License-Identifier: Apache-2.0
"""The work of one-optimize: run the passes that flags, a configuration file or optimization groups switch on.

An optimization group is a file with options of one-optimize, such as O1.cfg.  Each of these options is
a pipeline (a list of passes, such as O1), a single pass, or a setting of a pass.
"""

from __future__ import annotations

from circlekit.api.options import Options
from circlekit.api.rewriting import convert_model
from circlekit.passes.engine.registry import all_passes, pass_names
from circlekit.passes.pipelines import PIPELINES, in_order
from circlekit.toolchain.driver import Invocation
from circlekit.toolchain.pass_log import log_lines
from circlekit.toolchain.session import Session


def optimize(invocation: Invocation, session: Session) -> None:
    """Run one-optimize.

    Pipelines run first, then single passes: those of the pipeline O1 in its order, then the others by name.
    A pass that is switched off does not run, even if a pipeline has it.  As in ONE, settings of passes that
    do not run have no effect.  If the session is verbose, or the environment variable LUCI_LOG is neither
    empty nor 0, print the log of the passes.  If the model cannot be read, optimized or written, print the
    error and raise StepFailed.
    """
    values = invocation.values
    passes = all_passes()
    owners = {setting.name: name for name, item in passes.items() for setting in item.options}
    # the name of a pass may also be that of its setting: then the value of the setting switches the pass on
    asked = [key for key, value in values.items() if value and key in passes]
    pipelines = [name for name in PIPELINES if values.get(name)]
    running = {*asked, *pass_names(pipelines)}
    parsers = {option.key: option.parse for option in invocation.driver.options}  # values are still texts
    settings = {
        key: parsers[key](value) if isinstance(value, str) else value
        for key, value in values.items()
        if owners.get(key) in running
    }
    options = Options(
        passes=[*pipelines, *in_order(asked)],
        disable=[key for key in passes if values.get(key) is False],
        settings=settings,
        profile=bool(values.get("generate_profile_data")),
    )
    source, target = str(values["input_path"]), str(values["output_path"])
    verbose = ["--verbose"] if session.verbose else []
    with session.program("circle2circle", [source, target, *_flags(invocation), *verbose]):
        model, report = convert_model(session.load(source), options, "circle")
        if session.verbose or session.environment.get("LUCI_LOG", "0") not in ("", "0"):
            for line in log_lines(report):
                session.say(line)
        session.save(model, target)


def _flags(invocation: Invocation) -> list[str]:
    """Return the flags of circle2circle for this call, for the log: no paths, no names of groups."""
    names = {option.key for option in invocation.driver.options} - {"input_path", "output_path", "O"}
    return invocation.flags(*sorted(names))
