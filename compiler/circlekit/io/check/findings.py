# SPDX-License-Identifier: Apache-2.0
"""What can be wrong with a model file: the rules, how bad it is to break one, and a place for findings.

A rule that is ``refused`` is one without which there is no model: loading stops there.  An ``error`` can be
loaded, shown and written again, but nothing can run it, or two readers would read it differently.  A
``warning`` is odd, and runtimes live with it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

REFUSED, ERROR, WARNING = "refused", "error", "warning"

RULES: Final[dict[str, tuple[str, str]]] = {
    "flatbuffer": (
        REFUSED,
        "the bytes are a flatbuffer of the schema; what is behind damage is not looked at",
    ),
    "format": (REFUSED, "the file has the identifier of the format that is asked for"),
    "subgraphs": (REFUSED, "the model has a graph"),
    "dtype": (REFUSED, "the schema has the type of every tensor"),
    "shape": (REFUSED, "dimensions are -1 (unknown) or from 0 on, at most 32 of them"),
    "data-size": (REFUSED, "a constant has as many bytes as its shape takes"),
    "buffer-index": (REFUSED, "tensors and metadata name buffers that there are"),
    "buffer-region": (
        REFUSED,
        "data outside of the flatbuffer is inside of the file, and in no other's place",
    ),
    "tensor-index": (REFUSED, "operators, graphs and signatures name tensors that there are"),
    "operator-code": (REFUSED, "operators name operator codes that there are"),
    "graph-index": (REFUSED, "operators and signatures name graphs that there are"),
    "one-producer": (REFUSED, "a tensor is the result of one operator"),
    "load": (REFUSED, "the model can be loaded"),
    "tables": (ERROR, "there are at most 1000000 tables, where the C++ verifier stops"),
    "shape-size": (ERROR, "a tensor has fewer than 2^63 bytes"),
    "packed-size": (ERROR, "a constant of a packed type has the bytes that its shape takes"),
    "strings": (ERROR, "the bytes of a constant of strings are as many strings as its shape has"),
    "quantization": (
        ERROR,
        "scales and zero points are one, or as many as the quantized dimension has elements",
    ),
    "sparsity": (ERROR, "a sparse constant decodes within its shape"),
    "external-buffer": (ERROR, "data in other files has an id that is listed, in a group that is listed"),
    "operands": (ERROR, "an operator has the operands that its kind needs, and no more than it can have"),
    "results": (ERROR, "an operator has as many results as its kind"),
    "custom-code": (ERROR, "a custom operator has a name"),
    "order": (ERROR, "what an operator reads is made before it runs"),
    "overwrite": (ERROR, "no operator computes an input of its graph, or a constant"),
    "kept-graph-index": (ERROR, "operators that are kept as they are name graphs that there are"),
    "recursion": (ERROR, "no graph runs itself"),
    "no-producer": (WARNING, "something makes what is read"),
    "interface": (
        WARNING,
        "inputs and outputs have names of their own; no input is a constant or listed twice",
    ),
    "signature": (WARNING, "signatures name inputs and outputs of their graph, each name once"),
    "operator-type": (WARNING, "operands and attributes of an operator have types that its kind takes"),
    "operator-shape": (WARNING, "the results of an operator have the shapes that follow from its operands"),
    "options": (WARNING, "the options of an operator are those of its kind"),
    "code-fields": (WARNING, "the two fields that say which operator it is agree"),
    "enum": (WARNING, "the schema has the numbers of all enum values"),
    "lost": (WARNING, "the schema has all that the file has"),
    "text": (WARNING, "names are UTF-8"),
    "shape-signature": (WARNING, "shape and shape signature agree where both know a dimension"),
    "quantization-values": (WARNING, "scales are finite and above 0, zero points are numbers of the type"),
    "min-max": (WARNING, "minima and maxima are as many as the scales, or one"),
    "variable": (WARNING, "a variable has no data"),
    "buffer-zero": (WARNING, "buffer 0 has no data"),
    "version": (WARNING, "a TFLite model has schema version 3, the only one that LiteRT takes"),
}
"""By name: severity, and what holds where the rule is kept."""


class Finding(NamedTuple):
    """A rule that a file breaks.  ``path``: of the field, as ``subgraphs[0].operators[12].inputs[1]``."""

    rule: str
    path: str
    message: str

    @property
    def severity(self) -> str:
        """``error`` or ``warning``."""
        return WARNING if RULES[self.rule][0] == WARNING else ERROR

    @property
    def is_refused(self) -> bool:
        """Whether a model that breaks this cannot be loaded."""
        return RULES[self.rule][0] == REFUSED

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class Findings:
    """Collects findings in the order in which they are made."""

    def __init__(self) -> None:
        self.list: list[Finding] = []

    def add(self, rule: str, path: str, message: str) -> None:
        assert rule in RULES, rule
        self.list.append(Finding(rule, path, message))

    @property
    def is_refused(self) -> bool:
        return any(f.is_refused for f in self.list)
