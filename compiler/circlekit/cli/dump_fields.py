# SPDX-License-Identifier: Apache-2.0
"""Lines of circledump for the options of an operator, and for the metadata tables of ONE."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from circlekit.errors import ModelError
from circlekit.io.schema import Tree, table
from circlekit.ops.program.flexbuffer import read_flexbuffer

LABELS = {
    "fused_activation_function": "Activation",
    "padding": "Padding",
    "stride_w": "Stride.W",
    "stride_h": "Stride.H",
    "filter_width": "Filter.W",
    "filter_height": "Filter.H",
    "dilation_w_factor": "Dilation.W",
    "dilation_h_factor": "Dilation.H",
    "depth_multiplier": "DepthMultiplier",
    "block_size": "BlockSize",
    "new_shape": "NewShape",
    "squeeze_dims": "SqueezeDims",
    "values_count": "ValuesCount",
    "weights_format": "WeightFormat",
    "validate_indices": "ValidateIndices",
    "num_bits": "NumBits",
    "narrow_range": "NarrowRange",
    "output_type": "OutputType",
}
"""ONE's labels of fields, the same for all operators."""

OWN_LABELS = {
    ("SVDFOptions", "fused_activation_function"): "activation",
    ("BCQGatherOptions", "input_hidden_size"): "weights_hidden_size",
    ("ConcatenationOptions", "axis"): "Axis",
    ("GatherOptions", "axis"): "Axis",
    ("OneHotOptions", "axis"): "Axis",
    ("PackOptions", "axis"): "Axis",
    ("SoftmaxOptions", "beta"): "Beta",
    ("FakeQuantOptions", "min"): "Min",
    ("FakeQuantOptions", "max"): "Max",
}
"""ONE's labels of fields in one table only."""

ORDER = (
    "padding", "stride_w", "stride_h", "filter_width", "filter_height", "depth_multiplier",
    "dilation_w_factor", "dilation_h_factor", "rank", "epsilon", "weights_format",
    "fused_activation_function", "keep_num_dims", "axis",
)  # fmt: skip
"""Fields that come first, in this order; the others follow in the order of the schema."""

AS_WORDS = frozenset(
    {
        "BatchMatMulOptions", "FakeQuantOptions", "GeluOptions", "ResizeBilinearOptions",
        "ResizeNearestNeighborOptions",
    }
)  # fmt: skip
"""Tables whose booleans are printed as true and false; in all others as 1 and 0."""


def option_line(op: Tree, fmt: str) -> Iterator[str]:
    """Yield the line for the decoded operator ``op``, or none if it has no options."""
    for union in ("builtin_options", "builtin_options_2"):
        if union in op:
            items = [f"{label}({value})" for label, value in _fields(op[union], fmt)]
            if items:
                yield f"    {' '.join(items)} "
    if len(op.get("custom_options", ())):
        yield f"    {' '.join(_custom(bytes(op['custom_options'])))} "


def _fields(options: Tree, fmt: str) -> Iterator[tuple[str, str]]:
    name = options[""]
    fields = [f.name for f in table(name, fmt).fields]
    defaults = {f.name: f.default for f in table(name, fmt).fields}
    for field in sorted(fields, key=lambda f: ORDER.index(f) if f in ORDER else len(ORDER)):
        value = options.get(field, defaults[field])
        label = OWN_LABELS.get((name, field)) or LABELS.get(field, field)
        yield label, _shown(value, name in AS_WORDS)


def _shown(value: Any, words: bool) -> str:
    if value is None:
        return ""
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower() if words else str(int(value))
    if isinstance(value, float | np.floating):
        return f"{float(value):.6g}"
    if isinstance(value, list | np.ndarray):
        return ", ".join(_shown(x, words) for x in value)
    return str(value)


def _custom(data: bytes) -> Iterator[str]:
    try:
        tree = read_flexbuffer(data)
    except ModelError:
        tree = None
    if isinstance(tree, dict):
        yield from (f"{key}({_shown(value, True)})" for key, value in tree.items())
    else:
        yield "Unknown custom option format"


def metadata_lines(name: str, data: bytes) -> Iterator[str]:
    """Yield a line for each entry of a table of ONE; nothing for other metadata.

    A table is the number of its entries, and of each a number, a length, and a text with a zero at its end
    (source table) or numbers (op table).
    """
    heads = {"source_table": "node_id : node_name", "op_table": "node_id : origin_ids"}
    kind = name.removeprefix("ONE_")
    if kind not in heads or not data:
        return
    yield f"    [{heads[kind]}]"
    try:
        (count,) = struct.unpack_from("<I", data)
        at = 4
        for _ in range(count):
            number, length = struct.unpack_from("<II", data, at)
            is_text = kind == "source_table"
            layout = f"<{length}{'s' if is_text else 'I'}"
            content = struct.unpack_from(layout, data, at + 8)
            at += 8 + struct.calcsize(layout)
            shown = content[0][:-1].decode("utf-8", "replace") if is_text else ", ".join(map(str, content))
            yield f"    [{number} : {shown}]"
    except struct.error:
        yield f"    (the table is truncated after {len(data)} bytes)"
