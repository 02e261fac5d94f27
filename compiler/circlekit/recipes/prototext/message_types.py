# SPDX-License-Identifier: Apache-2.0
"""The message types of ``test.recipe``: tables of the schema, and messages of their own.

A field of ``_MESSAGES`` is ``name:type``, ``name:type=default``, or ``name*:type`` if it may repeat.  A type
is a scalar or enum of the schema (``int``, ``Padding``), ``string``, another message, or a table of the
schema.  The fields behind the bar are not in ONE: with them every model can be expressed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from circlekit.io.schema import SCALARS, Enumeration, Field, Kind, enumeration, table
from circlekit.io.tables import ENUMS, TABLES
from circlekit.recipes.prototext import operator_names as operators
from circlekit.recipes.prototext.prototext_parser import FieldType, MessageType

_GRAPH = "operand*:Operand operation*:Operation input*:string output*:string name:string"
_GRAPH_MORE = "data_format:DataFormat debug_metadata_index:int=-1"
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
    " | named:string has_rank:bool=false variant_tensors*:VariantSubType compression_type:CompressionType",
    "Shape": "dim*:uint",
    "Signature": "dim*:int",
    "Filler": "tag:string arg*:string",
    "Quantization": "min*:float max*:float scale*:float zero_point*:long quantized_dimension:int=0"
    " | custom:CustomQuantization blockwise:BlockwiseQuantization multi_axis:MultiAxisQuantization",
    "Sparsity": "traversal_order:Signature block_map:Signature dim_metadata*:DimMetaData",
    "DimMetaData": "format:DimensionType dense_size:int array_segments:IndexVec array_indices:IndexVec",
    "IndexVec": "dim*:int type:SparseIndexVecType",
    "VariantSubType": "type:TensorType shape:Shape has_rank:bool=false",
    "Operation": "type:string input*:string output*:string version:int=1 custom_code:string extype:string"
    " | custom_options:string intermediate*:string mutating_variable_inputs*:bool no_options:bool=false"
    " debug_metadata_index:int=-1",
}

INDEX_VECTORS: Final = {"INT32VEC": "Int32Vector", "UINT16VEC": "Uint16Vector", "UINT8VEC": "Uint8Vector"}
"""Recipes' names of the members of the union SparseIndexVector."""

_INDEX_TYPES = ("SparseIdxVecType_NONE", *INDEX_VECTORS)
_INDEX_ENUM = Enumeration(
    "SparseIndexVecType", dict(enumerate(_INDEX_TYPES)), {n: i for i, n in enumerate(_INDEX_TYPES)}
)

CIRCLE_ONLY: Final = frozenset({"UINT4", "MXINT8", "MXFP4", "mx_quant", "adjoint_lhs", "adjoint_rhs"}).union(
    {f"GGML_Q{q}" for q in ("4_0", "4_1", "8_0", "8_1")},
    *(
        {operators.type_of(code), operators.option_field(code)}
        for code, tflite, _ in ENUMS["BuiltinOperator"][1]
        if tflite is None
    ),
)
"""Words that only recipes of circle have."""


@cache
def message_type(name: str, fmt: str) -> MessageType:
    """Return the message type ``name`` of recipes for format ``fmt``."""
    if name not in _MESSAGES:
        return _table_type(name, fmt)
    fields: dict[str, FieldType] = {}
    for word in _MESSAGES[name].replace("|", " ").split():
        head, _, type_ = word.partition(":")
        type_, _, default = type_.partition("=")
        fields[head.rstrip("*")] = _field_type(type_, head.endswith("*"), _default(default), fmt)
    if name == "Operation":
        fields |= _option_fields(fmt)
    return MessageType(name, fields)


def _default(text: str) -> Any:
    return {"": None, "false": False}.get(text) if not text.lstrip("-").isdigit() else int(text)


def _field_type(type_: str, repeated: bool, default: Any, fmt: str, stored: str = "") -> FieldType:
    if type_ == "string":
        return FieldType("string", repeated, default)
    if type_ in SCALARS:
        kind = "bool" if type_ == "bool" else SCALARS[type_]
        return FieldType(kind, repeated, default, stored=stored)
    if type_ in ENUMS or type_ == "SparseIndexVecType":
        enum = _INDEX_ENUM if type_ == "SparseIndexVecType" else enumeration(type_, fmt)
        return FieldType("enum", repeated, default, enum, stored=stored)
    return FieldType("message", repeated, message=lambda: message_type(type_, fmt), stored=stored)


def _table_type(name: str, fmt: str) -> MessageType:
    """Return the message type of a table of the schema, or of the options of a custom operator."""
    fields: dict[str, FieldType] = {}
    for own, type_, default in operators.CUSTOM_FIELDS.get(name, ()):
        fields[own] = _field_type(type_, False, default, fmt)
    for item in table(name, fmt).fields if name in TABLES else ():
        made = _schema_field(name, item, fmt)
        fields[operators.option_name(name, item.name)] = made
        if item.name in operators.ALIASES:
            fields[operators.ALIASES[item.name]] = made
    return MessageType(name, fields)


def _schema_field(owner: str, item: Field, fmt: str) -> FieldType:
    repeated = item.kind in (Kind.VECTOR, Kind.TABLES)
    if item.kind is Kind.STRING:
        return FieldType("string", stored=item.name)
    if item.kind in (Kind.TABLE, Kind.TABLES):
        return FieldType("message", repeated, message=lambda: message_type(item.table, fmt), stored=item.name)
    default = None if repeated else operators.option_default(owner, item.name, item.default)
    if item.enum is not None:
        return FieldType("enum", repeated, default, item.enum, stored=item.name)
    return FieldType("bool" if item.code == "?" else item.code, repeated, default, stored=item.name)


def _option_fields(fmt: str) -> dict[str, FieldType]:
    """Return the fields for the options of all operators."""
    fields: dict[str, FieldType] = {}
    for code in enumeration("BuiltinOperator", fmt).numbers:
        name = operators.option_table(code)
        if name is not None:
            fields[operators.option_field(code)] = _field_type(name, False, None, fmt)
    for name in operators.CUSTOM_FIELDS:
        fields[name] = _field_type(name, False, None, fmt)
    return fields


@cache
def schema_defaults(name: str, fmt: str) -> Mapping[str, Any]:
    """Return the defaults of the scalar fields of a table, by name."""
    return {item.name: item.default for item in table(name, fmt).fields if item.kind is Kind.SCALAR}
