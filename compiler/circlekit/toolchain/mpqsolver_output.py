# SPDX-License-Identifier: Apache-2.0
"""Make the lines that ONE's circle-mpqsolver prints before its search; write its files about the search.

That program quantizes a model to uint8.  It searches for the operators that must be int16 instead, to reach
an allowed error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from circlekit.api.models import save
from circlekit.io.file_map import translated
from circlekit.io.write.file_writer import write_file
from circlekit.ir.graph import Model
from circlekit.quant.mixed.mpqsolver import Configuration

TITLES = {
    "model": "input_model", "dataset": "data", "quantized dtype": "quantized_dtype",
    "granularity": "granularity", "input dtype": "input_dtype", "output dtype": "output_dtype",
    "TF_style_maxpool": "TF_style_maxpool", "save_min_max": "save_min_max",
}  # fmt: skip
"""{title of a line: the option of circle-mpqsolver that it shows}."""

SWITCHES = ("TF_style_maxpool", "save_min_max")
"""The options in TITLES that are switches."""

ALGORITHMS = {True: "Q16AtFront", False: "Q8AtFront", None: "auto"}
"""{argument ``is_int16_front`` of ``Solver.bisect``: name of the bisection}.

True: the operators near the inputs become int16; False: those near the outputs; None: the solver finds out
which is better.
"""


def heading(options: Mapping[str, object], is_bisection: bool) -> list[str]:
    """Return the lines about ``options`` {name: value}; ``is_bisection``: whether the search is a bisection.

    A missing option is shown as an empty text, a missing switch as False.
    """
    texts = {name: options.get(name) or "" for name in TITLES.values()}
    texts.update({name: bool(options.get(name)) for name in SWITCHES})
    lines = [f"{title}: {texts[name]}" for title, name in TITLES.items()]
    method = "bisection" if is_bisection else "patterns"
    return [
        ">> Searching mixed precision configuration",
        *lines,
        f"Automatic mixed quantization using {method}",
    ]


def bisection_heading(is_int16_front: bool | None, ratio: float) -> list[str]:
    """Return the lines about a bisection.

    ``is_int16_front``: see ALGORITHMS.  ``ratio``: the allowed error; 0 stands for the error of the int16
    model, 1 for that of the uint8 model.
    """
    return [
        f"algorithm: bisection ({ALGORITHMS[is_int16_front]})",
        "qerror metric: MAE",
        f"target qerror ratio: {ratio:g}",
    ]


@dataclass
class SearchFiles:
    """The SearchObserver (see ``mpqsolver``) that writes ONE's files about a search into ``folder``.

    ``model_path``: the path of the float model.  ``errors``: the lines of the file with the errors so far.
    """

    folder: Path
    model_path: str
    errors: list[str] = field(default_factory=list)

    def begin(self, uint8: float, int16: float) -> None:
        """Write the error of the model with all operators in uint8, and with all in int16."""
        self._add_error("Q8", uint8)
        self._add_error("Q16", int16)

    def iteration(self, number: int, tried: Configuration, quantized: Model, error: float) -> None:
        """Write the configuration, the model and the error of one step of the bisection."""
        self._write(f"Configuration_{number}", tried)
        save(quantized, str(self.folder / f"quantized_{number}.mpq.circle"))
        self._add_error(str(number), error)

    def end(self, found: Configuration, error: float | None = None) -> None:
        """Write the chosen configuration and its error; None: the error was not measured."""
        self._write("FinalConfiguration", found)
        if error is not None:
            self._add_error("FINAL", error)

    def _write(self, stem: str, configuration: Configuration) -> None:
        """Write ``configuration`` to the file STEM.mpq.json."""
        self._write_text(f"{stem}.mpq.json", json.dumps(configuration.document(self.model_path), indent=2))

    def _add_error(self, tag: str, error: float) -> None:
        """Add a line for ``error`` to the file with the errors."""
        self.errors.append(f"{tag} {error:g}\n")
        self._write_text("errors.mpq.txt", "".join(self.errors))

    def _write_text(self, name: str, text: str) -> None:
        """Write the file ``name``; make the folder if there is none.  Raise FileError if that fails."""
        with translated(self.folder, "made"):
            self.folder.mkdir(exist_ok=True)
        write_file(str(self.folder / name), [text.encode()])
