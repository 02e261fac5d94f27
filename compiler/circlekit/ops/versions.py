# SPDX-License-Identifier: Apache-2.0
"""Operator versions that follow from a dtype.  Source: TFLite tools/versioning/op_version.cc."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from circlekit.ir.dtypes import DType
from circlekit.ir.op import Op
from circlekit.ir.value import Value


def version_by_dtype(value: Value, versions: Mapping[DType, int]) -> int:
    """Return the operator version for the dtype of ``value``; 1 for dtypes not in ``versions``."""
    return versions.get(value.dtype, 1)


class VersionedByDtype(Op):
    """An operator whose version follows from the dtype of one operand.

    ``versions``: dtype to version, 1 for all other dtypes; ``typed_by``: index of the operand.
    """

    versions: ClassVar[Mapping[DType, int]] = {}
    typed_by: ClassVar[int] = 0

    def required_version(self) -> int:
        value = self.inputs[self.typed_by] if self.typed_by < len(self.inputs) else None
        return 1 if value is None else self.versions.get(value.dtype, 1)
