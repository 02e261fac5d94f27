# SPDX-License-Identifier: Apache-2.0
"""Import models of other frameworks.

For each framework, this folder has a script that calls the framework's converter.  The script runs in a
process of its own, so the converter may be installed in another Python.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from circlekit.toolchain.option import StepFailed
from circlekit.toolchain.session import Session

MISSING = 3
"""The exit code of a script whose converter, or a package that it needs, is not installed."""


@dataclass(frozen=True)
class Importer:
    """A converter for models of another framework.

    ``script``: the file in this folder that calls the converter.  ``package``: the Python package of the
    converter.  ``extra``: the extra of circlekit that installs this package.
    """

    script: str
    package: str
    extra: str

    def run(self, session: Session, words: Sequence[str], program: str, shown: Sequence[str]) -> None:
        """Run the script with the arguments ``words``.

        Raise StepFailed if the script fails, DriverError if its Python cannot be started.
        The script runs in this Python if the package is installed here.  Otherwise it runs in the virtual
        environment of the installation (``Installation.venv_python``) or, without one, in this Python.  If
        the package, or one that it needs, is missing there, print how to install it.
        ``program``, ``shown``: ONE's program for this work and its arguments, for the log and for errors.
        """
        session.write_log(" ".join([program, *shown]) + "\n")
        own = Path(sys.executable)
        python = own if find_spec(self.package) else session.installation.venv_python or own
        code = session.run([str(python), str(Path(__file__).with_name(self.script)), *words], is_listed=False)
        if code == MISSING:
            session.report(
                f"ERROR: {self.package}, or a package that it needs, is not installed in {python}: "
                f"pip install 'circlekit[{self.extra}]'",
                program,
            )
        if code == MISSING or code > 128:  # more than 128: a signal ended the process (``Session.run``)
            code = 255
        if code:
            raise StepFailed(program, code)


TENSORFLOW = Importer("tensorflow_model.py", "tensorflow", "tf")
ONNX = Importer("onnx_model.py", "onnx2tf", "onnx")
PYTORCH = Importer("pytorch_model.py", "tico", "pytorch")
