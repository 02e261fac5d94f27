# SPDX-License-Identifier: Apache-2.0
"""Options of custom operators: a FlexBuffers map, as TensorFlow's converter writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flatbuffers import flexbuffers

FlexValue = bool | int | str | Sequence[int]


def flexbuffer_map(values: Mapping[str, FlexValue]) -> bytes:
    """Encode a map with these entries; a sequence of integers becomes a typed vector."""
    builder = flexbuffers.Builder()
    with builder.Map():
        for name, value in values.items():
            if isinstance(value, bool):
                builder.Bool(name, value)
            elif isinstance(value, int):
                builder.Int(name, value)
            elif isinstance(value, str):
                builder.String(name, value)
            else:
                builder.TypedVectorFromElements(name, list(value))
    return bytes(builder.Finish())
