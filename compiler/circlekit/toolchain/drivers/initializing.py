# SPDX-License-Identifier: Apache-2.0
"""one-init writes an initial configuration file for onecc; one-version prints versions.

A backend is a compiler for devices, which has programs of its own, such as BACKEND-init.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from circlekit.api.models import refuse_overwriting
from circlekit.io.write.file_writer import write_file
from circlekit.toolchain.driver import Driver, Invocation, print_text, version_text
from circlekit.toolchain.drivers.backends import run_program
from circlekit.toolchain.option import INPUT_PATH, Kind, Option, UsageFault, Values
from circlekit.toolchain.session import Session

TYPES = ("onnx", "tflite")
"""The kinds of models, which are also the extensions of their files."""

LAYOUT = "convert_nchw_to_nhwc"
LAYOUT_SWITCHES = (LAYOUT, "nchw_to_nhwc_input_shape", "nchw_to_nhwc_output_shape")
"""The options that one-init copies into the section of one-optimize; the last two need the first, LAYOUT."""


def _check(values: Values) -> None:
    """Raise UsageFault for wrong options, in ONE's words where ONE has this error."""
    if "model_type" in values and values["model_type"] not in TYPES:
        raise UsageFault('Allowed value for --model_type: "onnx" or "tflite"')
    if any(values.get(name) for name in LAYOUT_SWITCHES[1:]) and not values.get(LAYOUT):
        raise UsageFault(f"the following arguments are required: --{LAYOUT}")
    if _model_type(values) not in TYPES:
        raise UsageFault('following file extensions are supported: ".onnx" ".tflite"')
    if "backend" in values and len(str(values["input_path"]).split()) != 1:
        path = values["input_path"]
        raise UsageFault(f"expected a path without spaces (one-codegen splits words at them), got {path!r}")
    source, *written = _paths(values)
    if source in written:
        raise UsageFault(f"{source} is an input, but a step would write it; rename the model")


def _model_type(values: Values) -> str:
    """Return the kind of the model: the option, or else the extension of its file."""
    return str(values.get("model_type") or Path(str(values["input_path"])).suffix[1:])


def _paths(values: Values) -> list[Path]:
    """Return the path of the model, then those of the files that the steps write, in order."""
    source = Path(str(values["input_path"]))
    ends = (*ENDS, COMPILED_END) if "backend" in values else ENDS
    return [source, *(source.with_name(source.name.split(".")[0] + end) for end in ends)]


def configuration_text(values: Values) -> str:
    """Return the text of a configuration file with steps that import, optimize and quantize the model.

    If the option ``backend`` is given, a last step compiles the model for it.  Each step reads the file that
    the previous step writes.  All files are in the folder of the model.
    """
    importer = f"one-import-{_model_type(values)}"
    paths = _paths(values)
    steps: dict[str, dict[str, object]] = {
        name: {"input_path": before, "output_path": after}
        for name, before, after in zip(
            (importer, "one-optimize", "one-quantize"), paths, paths[1:], strict=False
        )
    }
    steps["one-optimize"].update({name: True for name in LAYOUT_SWITCHES if values.get(name)})
    if "backend" in values:
        *_, quantized, compiled = paths
        steps["one-codegen"] = {"backend": values["backend"], "command": f"-o {compiled} {quantized}"}
    sections = {"onecc": {**dict.fromkeys(steps, True), "include": "O1"}, **steps}
    return "\n".join(
        "\n".join([f"[{name}]", *(f"{key}={_escaped(value)}" for key, value in keys.items()), ""])
        for name, keys in sections.items()
    )


def _escaped(value: object) -> str:
    """Return the text of ``value`` in an INI file, where ``%%`` stands for ``%``."""
    return str(value).replace("%", "%%")


ENDS = (".circle", ".opt.circle", ".q.circle")
"""The ends of the names of the files that import, optimization and quantization write."""

COMPILED_END = ".q.tvn"
"""The end of the name of the compiled model; ``.tvn`` is ONE's extension for it."""


def _run(invocation: Invocation, session: Session) -> None:
    """Write the configuration file; if the option ``backend`` is given, also run the program BACKEND-init.

    The program gets the words after ``--``.  Raise UsageFault if there are such words without a backend.
    """
    values = invocation.values
    if invocation.backend_words and "backend" not in values:
        raise UsageFault(
            f"the words after -- are for a backend: expected --backend, got {invocation.backend_words}"
        )
    if "backend" in values:
        session.installation.find_program(f"{values['backend']}-init")
    path = Path(str(values["output_path"]))
    refuse_overwriting(str(values["input_path"]), path)
    write_file(path, [configuration_text(values).encode()])
    if "backend" in values:
        run_program(session, f"{values['backend']}-init", invocation.backend_words)


one_init = Driver(
    "one-init",
    "Command line tool to generate initial cfg file. Currently tflite and onnx models are supported",
    lambda: [
        INPUT_PATH,
        Option("output_path", "full filepath of the output cfg file", "-o", required=True),
        Option("model_type", 'type of input model: "onnx", "tflite" (default: by the extension)', "-m"),
        Option(LAYOUT, "convert NCHW operators to NHWC, for a model in NCHW", kind=Kind.SWITCH),
        *(
            Option(f"nchw_to_nhwc_{side}_shape", f"convert {side}s, too (needs --{LAYOUT})", kind=Kind.SWITCH)
            for side in ("input", "output")
        ),
        Option("backend", "backend to compile for; its program BACKEND-init is called", "-b"),
    ],
    _run,
    check=_check,
    foreign_words="after_dashes",
    log="",
    standard=("version", "verbose"),
)


def one_version(argv: Sequence[str] | None = None) -> int:
    """Print the version of circlekit; if a name is given, print what ``--version`` of that driver prints.

    The name is not checked.  ``argv``: the arguments, None for those of the process.  Return the
    exit code: 0, or 255 if standard output cannot be written.
    """
    names = list(sys.argv[1:] if argv is None else argv)
    text = version_text(" ".join(names) or "circlekit")  # begins with "NAME version NUMBER"
    if names:
        return print_text("one-version", text)
    return print_text("one-version", text.splitlines()[0].split()[-1], end="")
