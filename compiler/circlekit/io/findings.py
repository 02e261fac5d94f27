# SPDX-License-Identifier: Apache-2.0
"""The rules for model files, each with a severity; the error for files that cannot be loaded.

The severity says what a violation means.  ``refused``: the file cannot be loaded.  ``error``: the file can be
loaded, shown and written, but it may not run, or two programs may read it differently.  ``warning``: the file
is unusual, but at least some runtimes accept it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from circlekit.errors import FormatError, UnsupportedError

REFUSED, ERROR, WARNING = "refused", "error", "warning"

RULES: Final[dict[str, tuple[str, str]]] = {
    "flatbuffer": (REFUSED, "the bytes are a flatbuffer with the tables of the schema"),
    "format": (REFUSED, "the file has the identifier of a format, TFL3 or CIR0"),
    "subgraphs": (REFUSED, "the model has a graph"),
    "dtype": (REFUSED, "the type of every tensor is in the schema"),
    "shape": (REFUSED, "a shape has at most 32 dimensions, each -1 (unknown), 0 or a positive number"),
    "data-size": (
        REFUSED,
        "a constant, if not packed, sparse or compressed, has a static shape and all bytes of its elements",
    ),
    "buffer-index": (REFUSED, "tensors and metadata refer to existing buffers"),
    "buffer-region": (
        REFUSED,
        "data that are stored after the flatbuffer end within the file; "
        "all buffers together have no more bytes than the file",
    ),
    "tensor-index": (REFUSED, "operators, graphs and signatures refer to existing tensors"),
    "operator-code": (REFUSED, "operators refer to existing operator codes"),
    "graph-index": (REFUSED, "operators and signatures refer to existing graphs"),
    "one-producer": (REFUSED, "a tensor is the result of at most one operator"),
    "load": (REFUSED, "the model can be loaded (any failure that has no rule of its own)"),
    "tables": (ERROR, "there are at most 1000000 tables, the limit of the C++ verifier"),
    "shape-size": (ERROR, "a tensor has fewer than 2^63 bytes"),
    "packed-size": (
        ERROR,
        "a packed constant of a type of fixed size (such as i4, bf16) has as many bytes as its shape takes",
    ),
    "strings": (ERROR, "the data of a constant of strings are valid, with one string for each element"),
    "quantization": (
        ERROR,
        "scales: none, one, or one for each index of the quantized dimension; "
        "zero points: none, one, or as many as scales",
    ),
    "sparsity": (ERROR, "a sparse constant decodes within its shape"),
    "external-buffer": (
        ERROR,
        "external buffers have unique ids; the model lists all buffers and groups that are referred to",
    ),
    "operands": (ERROR, "an operator has all operands that its kind requires, and not too many"),
    "results": (ERROR, "an operator has as many results as its kind declares"),
    "custom-code": (ERROR, "a custom operator has a name"),
    "order": (ERROR, "operands are computed before the operator runs"),
    "overwrite": (ERROR, "no operator computes an input of its graph, or a constant"),
    "kept-graph-index": (ERROR, "operators without a declaration refer to existing graphs"),
    "recursion": (ERROR, "no graph calls itself, directly or through other graphs"),
    "no-producer": (WARNING, "every operand and output is an input, a variable, a constant or a result"),
    "interface": (WARNING, "inputs and outputs have unique names; no input is a constant or listed twice"),
    "signature": (
        WARNING,
        "signatures have unique keys and name inputs and outputs of their graph; "
        "no two inputs, and no two outputs, have the same name",
    ),
    "operator-type": (WARNING, "operands and attributes of an operator have types that its kind accepts"),
    "operator-shape": (WARNING, "the results of an operator have the shapes that follow from its operands"),
    "options": (WARNING, "the options of an operator are in the options table of its kind"),
    "code-fields": (
        WARNING,
        "deprecated_builtin_code equals builtin_code, or is 127 if builtin_code is above 127; "
        "old files have only deprecated_builtin_code, below 127",
    ),
    "enum": (WARNING, "every enum value in the file has a name in the schema"),
    "lost": (
        WARNING,
        "loading loses nothing: the schema has all fields and types; "
        "no signature has the field deprecated_tag",
    ),
    "text": (WARNING, "strings are UTF-8"),
    "shape-signature": (WARNING, "shape and shape signature agree in dimensions that both know"),
    "quantization-values": (
        WARNING,
        "scales are finite and above 0; zero points of integers are numbers of the type",
    ),
    "min-max": (
        WARNING,
        "minima: none, one, or as many as scales (without scales: any number); as many maxima as minima",
    ),
    "surplus-data": (WARNING, "a constant has no more bytes than its shape takes"),
    "variable": (WARNING, "a variable has no data"),
    "buffer-zero": (WARNING, "buffer 0 has no data"),
    "version": (WARNING, "a TFLite model has schema version 3, the only one that LiteRT accepts"),
}
"""{name of the rule: (severity, what the rule requires)}."""


class Finding(NamedTuple):
    """A violation of a rule.

    ``rule``: its name in RULES.  ``path``: the field, such as ``subgraphs[0].operators[12].inputs[1]``.
    """

    rule: str
    path: str
    message: str

    @property
    def severity(self) -> str:
        """The severity to show: ``warning`` or ``error``.  A violation of a ``refused`` rule is an error."""
        return WARNING if RULES[self.rule][0] == WARNING else ERROR

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class InvalidFile(FormatError):
    """The error for a file that violates a rule of severity ``refused``.  ``finding``: the violation.

    Violations of ``format`` and ``load`` raise other errors.
    """

    finding: Finding

    @classmethod
    def of(cls, name: str, rule: str, path: str, message: str) -> InvalidFile:
        """Return the error for the file ``name``; the other arguments are the fields of the finding."""
        error = cls(f"{name}: {path}: {message}")
        error.finding = Finding(rule, path, message)
        return error


class UnknownType(InvalidFile, UnsupportedError):
    """The error for a tensor whose type is not in the schema."""
