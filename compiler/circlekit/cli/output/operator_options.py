# SPDX-License-Identifier: Apache-2.0
"""The lines that ONE's dump commands print for the options of an operator.

A ``Tree`` is a decoded table of the file, as in ``cli.dump``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from circlekit.cli.output.terminal import number_text
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
"""The label that ONE prints for a field, by the name of the field in the schema."""

TABLE_LABELS = {
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
"""Labels in place of those in LABELS, for one table each: {(name of the table, name of the field): label}."""

FIELD_ORDER = (
    "padding", "stride_w", "stride_h", "filter_width", "filter_height", "depth_multiplier",
    "dilation_w_factor", "dilation_h_factor", "rank", "epsilon", "weights_format",
    "fused_activation_function", "keep_num_dims", "axis",
)  # fmt: skip
"""The fields that are printed first, in this order; the others follow in the order of the schema."""

BOOLEANS_AS_WORDS = frozenset(
    {
        "BatchMatMulOptions", "FakeQuantOptions", "GeluOptions", "ResizeBilinearOptions",
        "ResizeNearestNeighborOptions",
    }
)  # fmt: skip
"""The tables whose booleans are printed as true and false; those of other tables are printed as 1 and 0."""


def option_lines(op: Tree, fmt: str) -> Iterator[str]:
    """Yield a line for each table of options of ``op`` that has fields, and a line for its custom options.

    ``op``: the tree of the operator.  ``fmt``: the format of the file, circle or tflite.
    """
    for union in ("builtin_options", "builtin_options_2"):
        if union in op:
            items = [f"{label}({value})" for label, value in _fields(op[union], fmt)]
            if items:
                yield f"    {' '.join(items)} "
    if len(op.get("custom_options", ())):
        yield f"    {' '.join(_custom_fields(bytes(op['custom_options'])))} "


def _fields(options: Tree, fmt: str) -> Iterator[tuple[str, str]]:
    """Yield (label, value as text) for each field of the schema's table; an omitted field has its default."""
    table_name = options[""]
    defaults = {f.name: f.default for f in table(table_name, fmt).fields}
    # a field that is not in FIELD_ORDER gets the index after its end; equal keys keep the schema's order
    for field in sorted(defaults, key=lambda f: (*FIELD_ORDER, f).index(f)):
        label = TABLE_LABELS.get((table_name, field)) or LABELS.get(field, field)
        yield label, field_text(options.get(field, defaults[field]), table_name in BOOLEANS_AS_WORDS)


def field_text(value: Any, as_words: bool) -> str:
    """Return the value of a field as text; ``as_words``: write booleans as true and false, not as 1 and 0."""
    if value is None:
        return ""
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower() if as_words else str(int(value))
    if isinstance(value, list | np.ndarray):
        return ", ".join(field_text(x, as_words) for x in value)
    return number_text(float(value) if isinstance(value, np.floating) else value)


def _custom_fields(data: bytes) -> Iterator[str]:
    """Yield the fields of custom options, such as "axis(1)"; if there is no FlexBuffer map, yield a note."""
    try:
        tree = read_flexbuffer(data)
    except ModelError:
        tree = None
    if isinstance(tree, dict):
        yield from (f"{key}({field_text(value, True)})" for key, value in tree.items())
    else:
        yield "Unknown custom option format"
