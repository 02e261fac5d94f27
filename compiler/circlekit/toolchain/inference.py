# SPDX-License-Identifier: Apache-2.0
"""Run a model file on samples with circlekit's interpreter, LiteRT or ONE's runtime onert."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from circlekit.equivalence.data_files.numpy_files import encode_npz
from circlekit.errors import UnsupportedError
from circlekit.io.write.file_writer import write_file
from circlekit.ir.graph import Model
from circlekit.ir.value import Array

Run = Callable[[Sequence[Array]], list[Array]]
"""A function that runs a model on arrays in the order of its inputs, and returns its outputs."""


def infer(runtime: str, words: Sequence[str], load: Callable[[str], Model]) -> list[str]:
    """Do the work of the program RUNTIME-infer; return the lines to print.

    There is one line for each output of each sample.  Of outputs with the same name, only the last
    counts.

    ``runtime``: a key of RUNTIMES.
    ``words``: the arguments MODEL [--inputs DATA] [--output FILE.npz].  Without DATA there is one seeded
    random sample.  FILE.npz gets each output under the name ``SAMPLE/NAME``: the number of the sample,
    from 0, and the name of the output.
    ``load``: reads a model from the file at a path.
    Raise SystemExit (of argparse) for wrong ``words``, UnsupportedError if the runtime is not installed, and
    the errors of loading, of samples, of the runtime and of writing.
    """
    from circlekit.quant.calibration.sample_files import RandomSamples, open_samples  # imports the passes
    from circlekit.quant.calibration.samples import checked_samples  # imports the passes, too

    parser = argparse.ArgumentParser(f"{runtime}-infer", description="Run a circle or TFLite model.")
    parser.add_argument("model")
    parser.add_argument(
        "--inputs",
        metavar="DATA",
        help="samples: a file (npz, npy, h5, raw), a folder, or a list of raw files (.txt, .lst, .list)",
    )
    parser.add_argument("--output", help="an npz file to write the outputs to")
    arguments = parser.parse_args(list(words))
    model = load(arguments.model)
    run = RUNTIMES[runtime](model)
    data = RandomSamples(model, 1) if arguments.inputs is None else open_samples(arguments.inputs, model)
    names = [value.name for value in model.main.outputs]
    outputs: dict[str, Array] = {}
    for number, sample in enumerate(checked_samples(model, data)):
        outputs.update({f"{number}/{n}": a for n, a in zip(names, run(sample), strict=True)})
    if arguments.output:
        write_file(arguments.output, [encode_npz(outputs)])
    return [_line(name, array) for name, array in outputs.items()]


def _line(name: str, array: Array) -> str:
    """Return a line with type, range and mean of one output.

    For strings, complex numbers and empty arrays, min, max and mean are printed as 0.
    """
    real = array.astype(np.float64) if array.dtype.kind in "fiub" and array.size else np.zeros(())
    with np.errstate(over="ignore", invalid="ignore"):
        mean = real.mean()
    ends = f"min {real.min():g}  max {real.max():g}  mean {mean:g}"
    return f"{name}  {array.dtype}{list(array.shape)}  {ends}"


# -- runtimes ------------------------------------------------------------------------------------


def _circlekit(model: Model) -> Run:
    """Return a function that runs ``model`` with circlekit's interpreter, from the initial state."""
    from circlekit.interp.interpreter import run  # imports the kernels

    return lambda sample: run(model, list(sample))


def _litert(model: Model) -> Run:
    """Return a function that runs ``model`` with LiteRT, from the initial state.

    Inputs are resized to the shapes of each sample.
    LiteRT lists inputs and outputs in the order of the file, which is that of ``model``.
    """
    try:
        from ai_edge_litert.interpreter import Interpreter  # an optional package
    except ModuleNotFoundError:
        raise UnsupportedError("LiteRT is not installed: pip install ai-edge-litert") from None
    from circlekit.api.models import save  # imports the passes
    from circlekit.equivalence.litert import run_interpreter  # imports the passes, too

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.tflite"
        save(model, file)
        content = file.read_bytes()
    # a new interpreter for each sample: LiteRT cannot reset the variables of ASSIGN_VARIABLE
    return lambda sample: run_interpreter(Interpreter(model_content=content), [sample])[0]


def _onert(model: Model) -> Run:
    """Return a function that runs ``model`` with onert on the CPU."""
    try:
        from onert.infer import session as open_session  # an optional package
        from onert.native.libnnfw_api_pybind import prepare_config  # an optional package
    except ModuleNotFoundError:
        raise UnsupportedError("onert is not installed: pip install onert") from None
    from circlekit.api.models import save  # imports the passes

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.circle"
        save(model, file)
        session = open_session(str(file), "cpu")
    # the next two lines and ``run`` do what session.infer does; that function fails on inputs of rank 0
    session.session.set_prepare_config(prepare_config.ENABLE_INTERNAL_OUTPUT_ALLOC)
    session.session.prepare()

    def run(sample: Sequence[Array]) -> list[Array]:
        """Return the outputs for ``sample``."""
        session.set_inputs(len(sample), list(sample))
        session.session.run()
        session._set_outputs(session.session.output_size())  # no public function makes session.outputs
        return [np.array(array) for array in session.outputs]

    return run


RUNTIMES: dict[str, Callable[[Model], Run]] = {
    "circlekit": _circlekit,
    "litert": _litert,
    "onert": _onert,
}
"""{name of a runtime: a function that prepares a model and returns a function that runs it}."""
