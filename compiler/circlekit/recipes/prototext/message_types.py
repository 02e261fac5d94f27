# SPDX-License-Identifier: Apache-2.0
"""The message types of ``test.recipe``, and the names of operators and options in it.

A ``test.recipe`` is a model as protobuf text, in the language of ONE's tests.
A message is a group of fields: ``operand { name: "x" type: FLOAT32 }`` is a field of the message ModelRecipe,
whose value is a message Operand.  The messages of operators' options are the tables of the schema.

A field in ``_MESSAGES`` is written ``name:type``, ``name:type=default``, or ``name*:type`` if it may repeat.
Its type is a scalar or enum of the schema (``int``, ``Padding``), ``string``, another message, or a table of
the schema.  The fields after ``|`` are additions to ONE's language, which some models need.

In a message Operation, the field ``type`` is the operator's code in camel case (``Softmax`` for ``SOFTMAX``),
and the field of its options is the code in lower case with ``_options`` (``softmax_options``).  SPELLINGS and
OPTION_FIELDS hold the exceptions.  ``fmt`` is the format of the model, ``circle`` or ``tflite``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from circlekit.io.operator_fields import FlexValue, flexbuffer_map
from circlekit.io.schema import TFLITE_VERSION, Enumeration, Tree, enumeration
from circlekit.io.tables import ENUMS, TABLES, UNIONS
from circlekit.ir.op import REGISTRY

SPELLINGS: Final = {
    "BATCH_MATMUL": "BatchMatMul", "BCQ_FULLY_CONNECTED": "BCQFullyConnected", "BCQ_GATHER": "BCQGather",
    "BIDIRECTIONAL_SEQUENCE_LSTM": "BidirectionalSequenceLSTM", "CUMSUM": "CumSum", "ELU": "ELU",
    "GRU": "GRU", "L2_NORMALIZATION": "L2Normalize", "PADV2": "PadV2", "PRELU": "PRelu", "RELU": "ReLU",
    "RELU6": "ReLU6", "RELU_0_TO_1": "ReLU0To1", "RELU_N1_TO_1": "ReLUN1To1", "ROPE": "RoPE", "SVDF": "SVDF",
    "TOPK_V2": "TopKV2", "BATCH_TO_SPACE_ND": "BatchToSpaceND", "SPACE_TO_BATCH_ND": "SpaceToBatchND",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "UnidirectionalSequenceLSTM",
}  # fmt: skip
"""{code of an operator: its type in recipes}, where the type is not the code in camel case."""

OPTION_FIELDS: Final = {
    "ARG_MAX": "argmax", "ARG_MIN": "argmin", "AVERAGE_POOL_2D": "averagepool2d", "CONV_2D": "conv2d",
    "BATCH_TO_SPACE_ND": "batch_to_space", "DEPTHWISE_CONV_2D": "depthwiseconv2d", "FAKE_QUANT": "fakequant",
    "FLOOR_DIV": "floordiv", "FLOOR_MOD": "floormod", "FULLY_CONNECTED": "fullyconnected",
    "GREATER_EQUAL": "greaterequal", "L2_NORMALIZATION": "l2norm", "L2_POOL_2D": "l2pool2d",
    "LESS_EQUAL": "lessequal", "MAX_POOL_2D": "maxpool2d", "MIRROR_PAD": "mirrorpad", "NOT_EQUAL": "notequal",
    "ONE_HOT": "onehot", "REVERSE_V2": "reversev2",
}  # fmt: skip
"""{code: field of the options, without ``_options``}, where the field is not the code in lower case."""

RENAMED: Final = {
    ("", "fused_activation_function"): "activation",
    ("SqueezeOptions", "squeeze_dims"): "squeeze_dim",
}
"""{(table of options, or "" for all tables; field of the schema): its name in recipes}."""

ALIASES: Final = {"adj_x": "adjoint_lhs", "adj_y": "adjoint_rhs"}
"""{field of the schema: a second name in recipes}; recipes for circle are written with the second name."""

DEFAULTS: Final[Mapping[tuple[str, str], Any]] = {
    ("", "padding"): "VALID",
    ("", "stride_w"): 1, ("", "stride_h"): 1, ("", "filter_width"): 1, ("", "filter_height"): 1,
    ("DepthwiseConv2DOptions", "depth_multiplier"): 1,
    ("ArgMaxOptions", "output_type"): "INT64", ("ArgMinOptions", "output_type"): "INT64",
    ("ShapeOptions", "out_type"): "INT32",
    ("OneHotOptions", "axis"): -1, ("SparseToDenseOptions", "validate_indices"): True,
    ("LocalResponseNormalizationOptions", "radius"): 5, ("LocalResponseNormalizationOptions", "bias"): 1.0,
    ("LocalResponseNormalizationOptions", "alpha"): 1.0, ("LocalResponseNormalizationOptions", "beta"): 0.5,
    ("LeakyReluOptions", "alpha"): 0.2, ("InstanceNormOptions", "epsilon"): 1e-5,
    ("RmsNormOptions", "epsilon"): 1e-6,
}  # fmt: skip
"""{(table of options, or "" for all tables; field of the schema): default in recipes}.

A field is listed only if the schema has another default.
"""

Options = Mapping[str, Any]
"""All options of a custom operator, {field: value}; those that the recipe lacks have their defaults."""

_TYPES = enumeration("TensorType", "tflite").numbers
FLOAT32, INT32, INT64 = _TYPES["FLOAT32"], _TYPES["INT32"], _TYPES["INT64"]
"""The numbers of element types in the options of custom operators."""


def _max_pool_with_argmax(options: Options) -> dict[str, FlexValue]:
    """Return the FlexBuffers map of the options of MaxPoolWithArgmax."""
    return {
        "ksize": [1, options["filter_width"], options["filter_height"], 1],  # the width first, as ONE does
        "strides": [1, options["stride_w"], options["stride_h"], 1],
        "Targmax": _TYPES[options["output_type"]],
        "padding": options["padding"],
        "include_batch_in_index": options["include_batch_in_index"],
        "T": FLOAT32,
    }


CUSTOM: Final[Mapping[str, tuple[str, Callable[[Options], dict[str, FlexValue]]]]] = {
    "AddV2": ("", lambda _: {"T": FLOAT32}),
    "All": ("all_options", lambda o: {"Tidx": INT32, "keep_dims": o["keep_dims"]}),
    "BatchMatMulV2": (
        "batch_matmul_options",
        lambda o: {"adj_x": o["adj_x"], "adj_y": o["adj_y"], "T": FLOAT32},
    ),
    "BroadcastTo": ("", lambda _: {"T": FLOAT32, "Tidx": INT32}),
    "Erf": ("", lambda _: {"T": FLOAT32}),
    "MatMul": (
        "matmul_options",
        lambda o: {"transpose_a": o["transpose_a"], "transpose_b": o["transpose_b"], "T": FLOAT32},
    ),
    "MatrixBandPart": ("", lambda _: {"T": FLOAT32, "Tindex": INT64}),
    "MaxPoolWithArgmax": ("max_pool_with_argmax_options", _max_pool_with_argmax),
}
"""{custom operator: (field of its options in recipes, or ""; function from Options to a map)}.

The model file stores this map, encoded as FlexBuffers.
"""


@cache
def operator_types(fmt: str) -> Mapping[str, str]:
    """Return {type of an operator in recipes for the format ``fmt``: its code in the schema}."""
    return {type_of(code): code for code in enumeration("BuiltinOperator", fmt).numbers}


def type_of(code: str) -> str:
    """Return the type in recipes of the operators with ``code``."""
    words = code.split("_")
    return SPELLINGS.get(code) or "".join(w[0] + w[1:].lower() if w[0].isalpha() else w for w in words)


def option_field(code: str) -> str:
    """Return the name of the field with the options of the operators with ``code``."""
    return OPTION_FIELDS.get(code, code.lower()) + "_options"


def option_table(code: str) -> str | None:
    """Return the schema's table for the options of the operators with ``code``; None if they have none."""
    declared = REGISTRY.get(code)
    return (declared and declared.options) or _tables().get(code.replace("_", "").lower())


@cache
def _tables() -> Mapping[str, str]:
    """Return {code in lower case without "_": table of options}, for operators without a declared class."""
    return {name.removesuffix("Options").lower(): name for name in TABLES if name.endswith("Options")}


_GRAPH = "operand*:Operand operation*:Operation input*:string output*:string name:string"
_GRAPH_MORE = "data_format:DataFormat debug_metadata_index:int"
_MESSAGES: Final = {
    "ModelRecipe": f"{_GRAPH} version:uint=1 graph*:Graph signature_def*:SignatureDef ext_offset:bool=false"
    " | description:string model_version:uint metadata*:Metadata keep_versions:bool=false"
    f" {_GRAPH_MORE}",
    "Graph": f"{_GRAPH} | {_GRAPH_MORE}",
    "SignatureDef": "inputs*:TensorMap outputs*:TensorMap signature_key:string subgraph_index:uint=0",
    "TensorMap": "name:string tensor:string tensor_index:uint",
    "Metadata": "name:string data:string base64:string",
    "Operand": "name:string type:TensorType shape:Shape filler:Filler quant:Quantization sparsity:Sparsity"
    " is_variable:bool=false shape_signature:Signature make_sparse:bool=false mx_quant:MXQuantization"
    " | named:string has_rank:bool variant_tensors*:VariantSubType compression_type:CompressionType",
    "Shape": "dim*:uint",
    "Signature": "dim*:int",
    "Filler": "tag:string arg*:string",
    "Quantization": "min*:float max*:float scale*:float zero_point*:long quantized_dimension:int=0"
    " | custom:CustomQuantization blockwise:BlockwiseQuantization multi_axis:MultiAxisQuantization",
    "Sparsity": "traversal_order:Signature block_map:Signature dim_metadata*:DimMetaData",
    "DimMetaData": "format:DimensionType=DENSE dense_size:int=0 array_segments:IndexVec"
    " array_indices:IndexVec",
    "IndexVec": "dim*:int type:SparseIndexVecType",
    "VariantSubType": "type:TensorType shape:Shape has_rank:bool=false",
    "Operation": "type:string input*:string output*:string version:int=1 custom_code:string extype:string"
    " | custom_options:string intermediate*:string mutating_variable_inputs*:bool no_options:bool=false"
    " debug_metadata_index:int",
    "all_options": "keep_dims:bool=false",
    "matmul_options": "transpose_a:bool=false transpose_b:bool=false",
    "max_pool_with_argmax_options": "padding:Padding=VALID stride_w:int=1 stride_h:int=1 filter_width:int=1"
    " filter_height:int=1 output_type:TensorType=INT64 include_batch_in_index:bool=false",
}

VECTOR_MESSAGES: Final = ("Shape", "Signature")
"""Messages whose only field is the list ``dim``; in a tree, this list stands for the whole message."""

INDEX_VECTORS: Final = {
    "INT32VEC": ("Int32Vector", 2**31), "UINT16VEC": ("Uint16Vector", 2**16),
    "UINT8VEC": ("Uint8Vector", 2**8),
}  # fmt: skip
"""{type of an IndexVec in recipes: (table of the schema, the first number too large for an index)}."""

# the recipes' own enum: the field ``type`` of the message IndexVec
_INDEX_TYPES = ("SparseIdxVecType_NONE", *INDEX_VECTORS)
_INDEX_ENUM = Enumeration(
    "SparseIndexVecType", dict(enumerate(_INDEX_TYPES)), {n: i for i, n in enumerate(_INDEX_TYPES)}
)

VERSIONS: Final = {"tflite": TFLITE_VERSION, "circle": 0}
"""{format: the schema version of a model whose recipe does not state ``model_version``}."""

CIRCLE_ONLY: Final = frozenset({"UINT4", "mx_quant", *ALIASES.values()}).union(
    # a row of an enum: (name, number in tflite or None, number in circle or None)
    (name for name, tflite, _ in ENUMS["TensorType"][1] if tflite is None),
    *({type_of(c), option_field(c)} for c, tflite, _ in ENUMS["BuiltinOperator"][1] if tflite is None),
)
"""Words that ONE's recipes for tflite never have.

A recipe with such a word is for circle, unless its first line states a format.
"""


EMPTY: Final = "empty_vectors"
"""A field of every message: it lists the repeated fields that are present but empty.

It is an addition to ONE's language, because protobuf does not distinguish empty fields from absent fields.
"""


class RecipeField(NamedTuple):
    """A field of a message.

    ``name``: its name in recipes.  ``repeated``: whether it may occur several times.
    ``type``: a scalar, enum or table of the schema, ``string``, or a message of recipes.
    ``default``: the value if a recipe that is read lacks the field; None: there is no value then.
    ``stored``: its name in trees; for a field of a table, the name in the schema.
    ``schema_default``: the value if the tree of a model file lacks the field.  If it differs from
    ``default``, recipes are written with it.
    """

    name: str
    type: str
    repeated: bool
    default: Any
    stored: str
    schema_default: Any = None


@cache
def recipe_messages(fmt: str) -> Mapping[str, tuple[RecipeField, ...]]:
    """Return {message: its fields} for recipes for the format ``fmt``."""
    messages: dict[str, tuple[RecipeField, ...]] = {}
    waiting = [*_MESSAGES]  # messages to add; the tables that they contain follow
    while waiting:
        name = waiting.pop()
        messages[name] = fields = (
            *(_declared(name, fmt) if name in _MESSAGES else _of_table(name, fmt)),
            RecipeField(EMPTY, "string", True, None, EMPTY),
        )
        waiting += [field.type for field in fields if field.type in TABLES and field.type not in messages]
    return messages


def _declared(message: str, fmt: str) -> Iterator[RecipeField]:
    """Yield the fields of ``message``, a key of ``_MESSAGES``."""
    for word in _MESSAGES[message].replace("|", " ").split():
        head, _, type_ = word.partition(":")
        type_, _, text = type_.partition("=")
        name = head.rstrip("*")
        default: Any = int(text) if text.isdigit() else {"": None, "false": False}.get(text, text)
        yield RecipeField(name, type_, head.endswith("*"), default, name)
    if message == "Operation":
        tables = {option_field(c): option_table(c) for c in enumeration("BuiltinOperator", fmt).numbers}
        tables |= {name: name for name in _MESSAGES if name.endswith("_options")}
        yield from (RecipeField(n, table, False, None, n) for n, table in tables.items() if table is not None)


def _of_table(table: str, fmt: str) -> Iterator[RecipeField]:
    """Yield the fields of the message for ``table``, a table of the schema.

    A field of the schema with a second name in ALIASES gives two fields.  Recipes are written with the one
    that comes first: in circle, the second name; in tflite, the schema's.
    """
    for stored, type_, schema_default, only_format in TABLES[table]:
        if only_format not in ("", fmt) or type_ in UNIONS:
            continue
        name = RENAMED.get((table, stored), RENAMED.get(("", stored), stored))
        names = [name, *([ALIASES[stored]] if stored in ALIASES else ())]
        first, *others = names[::-1] if fmt == "circle" else names
        repeated = type_.startswith("[") and type_ != "[ubyte]"  # bytes are written as one string
        plain = type_.strip("[]") if repeated else type_
        default = DEFAULTS.get((table, stored), DEFAULTS.get(("", stored), schema_default))
        default = None if repeated else default  # padding is an enum in most tables, a list in StableHLO's
        yield RecipeField(first, plain, repeated, default, stored, schema_default)
        yield from (RecipeField(other, plain, repeated, None, stored) for other in others)


def message_defaults(name: str, fmt: str) -> Tree:
    """Return the tree of a message that states no fields: {"": ``name``, field: its default}."""
    fields = recipe_messages(fmt)[name]
    return {"": name, **{f.stored: f.default for f in fields if f.default is not None}}


def enum_of(type_: str, fmt: str) -> Enumeration | None:
    """Return the enum with the name ``type_``; None if there is none."""
    if type_ == "SparseIndexVecType":
        return _INDEX_ENUM
    return enumeration(type_, fmt) if type_ in ENUMS else None


def custom_options(custom_code: str, fmt: str, options: Tree | None = None) -> bytes:
    """Return the options of a custom operator as FlexBuffers bytes, as the model file stores them.

    ``custom_code``: a key of CUSTOM.  ``options``: the tree of the message; None: the defaults.
    """
    field, entries = CUSTOM[custom_code]
    operation = {item.name: item.type for item in recipe_messages(fmt)["Operation"]}
    tree = options or (message_defaults(operation[field], fmt) if field else {})
    return flexbuffer_map(entries(tree))
