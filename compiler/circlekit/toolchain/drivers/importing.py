# SPDX-License-Identifier: Apache-2.0
"""one-import, one-import-tf, -bcq, -tflite, -onnx, -pytorch: convert models of other kinds to circle.

BCQ (binary-coded quantization) is ONE's format of weights as sums of scaled binary codes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from circlekit.toolchain.driver import Driver, Invocation, guarded, print_text, version_text
from circlekit.toolchain.importers import ONNX, PYTORCH, TENSORFLOW
from circlekit.toolchain.option import (
    INPUT_PATH,
    OUTPUT_PATH,
    SAVE_INTERMEDIATE,
    Kind,
    Option,
    StepFailed,
    Values,
)
from circlekit.toolchain.session import Session
from circlekit.toolchain.user_paths import expanded

KEEP_BATCHMATMUL = Option(
    "experimental_disable_batchmatmul_unfold", "keep BATCH_MATMUL, do not split it into FULLY_CONNECTED",
    kind=Kind.SWITCH,
)  # fmt: skip

_TENSORFLOW_OPTIONS = (
    Option(  # the flags --v1 and --v2
        "converter_version", exclusive="converter",
        constants={"v1": "has no effect (deprecated)", "v2": "has no effect (deprecated)"},
    ),
    INPUT_PATH, OUTPUT_PATH,
    Option("input_arrays", "names of the input arrays, comma-separated", "-I"),
    Option("input_shapes", 'shapes of --input_arrays, colon-separated (ex:"1,4,4,3:1,20,20,3")', "-s"),
    Option("output_arrays", "names of the output arrays, comma-separated", "-O"),
)  # fmt: skip

MODEL_FORMAT = Option(
    "model_format", exclusive="format", default="graph_def",
    choices=("graph_def", "saved_model", "keras_model"),
    constants={
        "graph_def": "use graph def file(default)", "saved_model": "use saved model",
        "keras_model": "use keras model",
    },
)  # fmt: skip


# -- TensorFlow ----------------------------------------------------------------------------------


def _run_tf(invocation: Invocation, session: Session) -> None:
    """Run one-import-tf."""
    _import_tensorflow(invocation, session, is_bcq=False)


def _run_bcq(invocation: Invocation, session: Session) -> None:
    """Run one-import-bcq."""
    _import_tensorflow(invocation, session, is_bcq=True)


def _import_tensorflow(invocation: Invocation, session: Session, *, is_bcq: bool) -> None:
    """Convert a TensorFlow model to TFLite, and the TFLite model to circle.

    ``is_bcq``: add ONE's metadata of binary-coded weights.
    """
    values = invocation.values
    source, target = expanded(values["input_path"]), str(values["output_path"])
    kind = str(values["model_format"])
    arrays = invocation.flags("input_arrays", "input_shapes", "output_arrays")
    more = [*(["--bcq"] if is_bcq else []), *_script_flags(values)]
    with session.intermediate(values) as folder:
        stem = f"{Path(source).stem}_withmeta" if is_bcq else Path(target).stem
        path = str(folder / f"{stem}.tflite")
        # the log shows ONE's script tf2tfliteV2.py with its arguments
        shown = [f"--{kind}", "--input_path", source, "--output_path", path, *arrays]
        TENSORFLOW.run(session, [kind, source, path, *arrays, *more], "tf2tfliteV2.py", shown)
        _write_circle(session, path, target)


SCRIPT_FLAGS = {
    "dynamic_batch_to_single_batch": "--single_batch",
    "unroll_rnn": "--unroll",
    "unroll_lstm": "--unroll",
    KEEP_BATCHMATMUL.key: "--keep_batchmatmul",
}
"""{option of a driver: flag of the script that calls the converter}."""


def _script_flags(values: Values) -> list[str]:
    """Return the flags in SCRIPT_FLAGS for the options that are set."""
    return [flag for key, flag in SCRIPT_FLAGS.items() if values.get(key)]


def _write_circle(session: Session, source: str, target: str) -> None:
    """Write the TFLite model in the file ``source`` to ``target`` as circle."""
    with session.program("tflite2circle", [source, target], unread=255):  # exit code for an unreadable model
        session.save(session.load(source), target, "Failed to write circle")


one_import_tf = Driver(
    "one-import-tf", "command line tool to convert TensorFlow to circle",
    lambda: [MODEL_FORMAT, *_TENSORFLOW_OPTIONS, SAVE_INTERMEDIATE, KEEP_BATCHMATMUL], _run_tf,
)  # fmt: skip

one_import_bcq = Driver(
    "one-import-bcq", "command line tool to convert TensorFlow with BCQ to circle",
    # ``model_format`` is accepted, but not shown on the help page; flags such as --saved_model do not exist
    lambda: [*_TENSORFLOW_OPTIONS, replace(MODEL_FORMAT, constants={}, is_shown=False)], _run_bcq,
)  # fmt: skip


# -- TFLite, PyTorch -----------------------------------------------------------------------------


_OF_TENSORFLOW = [Option(name, is_shown=False) for name in ("input_arrays", "input_shapes", "output_arrays")]
"""Options of one-import-tf; as in ONE, one-import-tflite accepts them too, but they have no effect there."""


def _run_tflite(invocation: Invocation, session: Session) -> None:
    """Run one-import-tflite."""
    _write_circle(session, str(invocation.values["input_path"]), str(invocation.values["output_path"]))


one_import_tflite = Driver(
    "one-import-tflite", "command line tool to convert TensorFlow lite to circle",
    lambda: [INPUT_PATH, OUTPUT_PATH, *_OF_TENSORFLOW], _run_tflite,
)  # fmt: skip


def _run_pytorch(invocation: Invocation, session: Session) -> None:
    """Run one-import-pytorch: convert with the package tico, in a process of its own."""
    source, target = (str(invocation.values[key]) for key in ("input_path", "output_path"))
    with session.intermediate({}) as folder:  # a temporary folder
        path = str(folder / "model.circle")
        PYTORCH.run(session, [source, path], "tico", [source, target])
        with session.program("tico", [source, target]):
            session.save(session.load(path), target, "Failed to write circle")


one_import_pytorch = Driver(
    "one-import-pytorch", "command line tool to convert a ExportedProgram (.pt2) into a circle",
    lambda: [INPUT_PATH, OUTPUT_PATH], _run_pytorch,
)  # fmt: skip


# -- ONNX ----------------------------------------------------------------------------------------

EXTENSION = "one-import-onnx-ext"
"""A program that users may put into the folder of the commands.  When it runs: see ``_run_onnx``."""

_ONNX_SWITCHES = {
    "unroll_rnn": "unroll RNN operators",
    "unroll_lstm": "unroll LSTM operators",
    "keep_io_order": f"only for {EXTENSION}; otherwise, the order of inputs and outputs is always kept",
    "dynamic_batch_to_single_batch": "make unknown first dimensions of inputs and outputs 1",
}


def _onnx_options() -> list[Option]:
    """Return the options of one-import-onnx."""
    switches = [Option(name, text, kind=Kind.SWITCH) for name, text in _ONNX_SWITCHES.items()]
    force, disable = f"use {EXTENSION} if it is installed", f"if a conversion fails, do not use {EXTENSION}"
    return [
        INPUT_PATH, OUTPUT_PATH, *switches,
        Option("force_ext", force, kind=Kind.SWITCH, exclusive="ext"),
        Option("disable_ext", disable, kind=Kind.SWITCH, exclusive="ext"),
        SAVE_INTERMEDIATE, KEEP_BATCHMATMUL,
    ]  # fmt: skip


def _run_onnx(invocation: Invocation, session: Session) -> None:
    """Convert with the package onnx2tf or with the program EXTENSION.

    - If EXTENSION is installed, and the option ``force_ext`` or the variable ``ONE_IMPORT_ONNX_EXT_FORCE`` is
      set, only EXTENSION runs.
    - Otherwise onnx2tf runs.
    - If this conversion fails and EXTENSION is installed, EXTENSION runs then.  The option ``disable_ext``
      and the variable ``ONE_IMPORT_ONNX_EXT_DISABLE`` prevent this.

    EXTENSION gets the flags that ONE hands over to it, so not ``dynamic_batch_to_single_batch``.
    """
    values = invocation.values
    extension = session.installation.bin / EXTENSION
    has_extension = extension.is_file()
    is_forced = values.get("force_ext") or _is_set(session, "FORCE")
    if not (has_extension and is_forced):
        if is_forced:
            session.say(f"one-import-onnx: 'force_ext' is True, but {EXTENSION} is not installed.")
        try:
            _convert_onnx(invocation, session)
            return
        except StepFailed:
            if not has_extension or values.get("disable_ext") or _is_set(session, "DISABLE"):
                raise
            session.say(f"one-import-onnx: Conversion failed. Fallback to use {EXTENSION}")
    if values.get("dynamic_batch_to_single_batch"):
        session.say(f"one-import-onnx: 'dynamic_batch_to_single_batch' has no effect on {EXTENSION}.")
    names = ("unroll_rnn", "unroll_lstm", KEEP_BATCHMATMUL.key, "save_intermediate", "keep_io_order")
    flags = invocation.flags(*names)
    session.require([str(extension), *flags, str(values["input_path"]), str(values["output_path"])])


def _is_set(session: Session, name: str) -> bool:
    """Return whether the environment variable ``ONE_IMPORT_ONNX_EXT_`` + ``name`` is 1 or Y."""
    return session.environment.get(f"ONE_IMPORT_ONNX_EXT_{name}") in ("1", "Y")


def _convert_onnx(invocation: Invocation, session: Session) -> None:
    """Convert with onnx2tf; check that the result has the values of the ONNX model; write it as circle.

    The result gets the names, order and layout of the ONNX model's inputs and outputs.
    """
    values = invocation.values
    source, target = expanded(values["input_path"]), str(values["output_path"])
    flags = [*_script_flags(values), *(["--verbose"] if session.verbose else [])]
    with session.intermediate(values) as folder:
        path, arrays_path = (str(folder / f"{Path(target).stem}.{suffix}") for suffix in ("tflite", "npz"))
        ONNX.run(session, [source, path, arrays_path, *flags], "onnx2circle", [source, target])
        with session.program("onnx2circle", [path, target]):
            import numpy as np  # slow to import

            from circlekit.toolchain.importers.onnx_interface import restore_interface  # slow to import

            model = session.load(path)
            with np.load(arrays_path) as arrays:
                restore_interface(model, dict(arrays))
            session.save(model, target, "Failed to write circle")


one_import_onnx = Driver(
    "one-import-onnx", "command line tool to convert ONNX to circle", _onnx_options, _run_onnx
)


def onnx2circle(argv: Sequence[str] | None = None) -> int:
    """Run ONE's program onnx2circle; ``argv``: its arguments, None for those of the process.

    It takes the switches of one-import-onnx, and two paths.  Return the exit code: 255 for another number of
    paths, 2 for a wrong switch.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    flags, paths = [w for w in words if w.startswith("-")], [w for w in words if not w.startswith("-")]
    usage = "usage: onnx2circle [SWITCH ...] ONNX CIRCLE\nSWITCH: as of one-import-onnx, such as --unroll_rnn"
    if {"-h", "--help"} & {*words}:
        return print_text("onnx2circle", usage)
    if len(paths) != 2:
        print(usage, file=sys.stderr)
        return 255
    session = Session()
    options = ["-i", paths[0], "-o", paths[1], *flags]
    return guarded(
        "onnx2circle",
        lambda: None,
        lambda: _convert_onnx(one_import_onnx.resolve(options, session), session),
    )


# -- one-import ----------------------------------------------------------------------------------

KINDS = {
    driver.name.removeprefix("one-import-"): driver
    for driver in (one_import_bcq, one_import_onnx, one_import_pytorch, one_import_tf, one_import_tflite)
}
"""The import drivers by the end of their names: ``tf`` for one-import-tf."""


def one_import(argv: Sequence[str] | None = None) -> int:
    """Run ``one-import KIND ...``; ``argv``: its arguments, None for those of the process.

    Return the exit code.
    """
    return run_import(list(sys.argv[1:] if argv is None else argv), Session())


def run_import(words: list[str], session: Session) -> int:
    """Run the import driver for the first word that is a key of KINDS, with the other words.

    If ``-v`` is the first word, print the version instead.  Without a key of KINDS, print the usage.
    Return the exit code.
    """
    kinds = ", ".join(KINDS)
    usage = f"usage: one-import [-h] [-v] [-C CONFIG] KIND ...\nKIND: {kinds}"
    kind = next((word for word in words if word in KINDS), None)
    if words[:1] in (["-v"], ["--version"]):
        return print_text("one-import", version_text("one-import"))
    if kind is None and words[:1] in (["-h"], ["--help"]):
        return print_text("one-import", usage)
    if kind is None:
        print(
            f"{usage}\none-import: error: expected one of {kinds}, got {' '.join(words) or 'nothing'}",
            file=sys.stderr,
        )
        return 2
    words.remove(kind)
    return KINDS[kind].call(words, session)
