# SPDX-License-Identifier: Apache-2.0
"""Convert the protobuf text of a recipe to a tree and back, with the ``protobuf`` library.

A message is a group of named fields; the value of a field may be a message, too.  The tree of a message is a
dict {name of a field: value}.  The name is that in ``RecipeField.stored``, and the key "" holds the name of
the message.
Strings and enums are str, repeated fields are lists, and values of the type [ubyte] are arrays of uint8.
Messages are trees, except that those in VECTOR_MESSAGES are lists of integers.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any, NoReturn

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from circlekit.errors import ParseError, UnsupportedError, did_you_mean
from circlekit.io.schema import Tree
from circlekit.ir.text.lexer import error_at
from circlekit.recipes.prototext.message_types import (
    EMPTY,
    VECTOR_MESSAGES,
    RecipeField,
    enum_of,
    recipe_messages,
)

Path = tuple[tuple[str, int], ...]
"""The fields that lead to a value, the outermost first: (name, index among the fields with this name)."""

Places = dict[Path, text_format.ParseError]
"""The place of each value in the text.  A ParseError serves only as line and column; it is not raised."""

_UNKNOWN_NAME = re.compile(r'(?:Message|Enum) type "(\w+)[.\w]*" has no (field|value) named "?(\w+)"?\.')
"""Matches the library's message for an unknown name.  Groups: message or enum; field or value; the name."""

_MAX_ERROR_CHARACTERS = 300
"""Longer messages of the library are cut to this length, because they may quote a token of any length."""

_Type = descriptor_pb2.FieldDescriptorProto
_TYPES = {
    "bool": _Type.TYPE_BOOL, "int": _Type.TYPE_INT32, "uint": _Type.TYPE_UINT32, "long": _Type.TYPE_INT64,
    "ulong": _Type.TYPE_UINT64, "float": _Type.TYPE_FLOAT, "string": _Type.TYPE_BYTES,
    "[ubyte]": _Type.TYPE_BYTES,
}  # fmt: skip
"""The library's types for scalars.  Strings are bytes, because strings in models need not be UTF-8."""


@cache
def _recipe_class(fmt: str) -> Any:
    """Return the library's class for the message ModelRecipe of recipes for the format ``fmt``."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{fmt}.proto", syntax="proto2")
    messages = recipe_messages(fmt)
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for number, field in enumerate(fields, 1):
            label = _Type.LABEL_REPEATED if field.repeated else _Type.LABEL_OPTIONAL
            item = message.field.add(name=field.name, number=number, label=label)
            if field.type in _TYPES:
                item.type = _TYPES[field.type]
            elif field.type in messages:
                item.type, item.type_name = _Type.TYPE_MESSAGE, f".{field.type}"
            else:
                item.type, item.type_name = _Type.TYPE_ENUM, f".{field.type}.Value"
    for type_ in sorted({field.type for fields in messages.values() for field in fields}):
        enum = enum_of(type_, fmt)
        if enum is not None:  # each enum in its own message, because two enums may share a value's name
            value_type = file.message_type.add(name=type_).enum_type.add(name="Value")
            for name, value in enum.numbers.items():
                value_type.value.add(name=name, number=value)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("ModelRecipe"))


# -- reading -----------------------------------------------------------------------------------


class RecipeText:
    """A parsed recipe.  ``tree``: the tree of the message ModelRecipe, the whole recipe.

    ``label``: the name of the text, for errors.  ``fmt``: the format of the model, ``circle`` or ``tflite``;
    recipes for the two formats differ in some fields.  The constructor raises ParseError for an invalid text.
    """

    def __init__(self, text: str, label: str, fmt: str) -> None:
        self.text = text
        self.label = label
        self.format = fmt
        message = _recipe_class(fmt)()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # protobuf warns of unknown escapes, which stay as they are
                text_format.Parse(text, message)
        except text_format.ParseError as error:
            raise self._error_at(error, self._sentence(error)) from None
        self.tree = _tree_of(message, fmt)

    def fail(self, message: str, tree: Tree, field: str = "", index: int = 0) -> NoReturn:
        """Raise ParseError with ``message`` at the place of a value in the recipe.

        ``tree``: the message with the value.  ``field``: the name of the value's field in the recipe
        (``RecipeField.name``).  ``index``: which value, if the field repeats.
        If the message does not have this value, the place is that of the message.
        """
        places: Places = {}
        _add_places(text_format.Tokenizer(self.text.split("\n")), (), places)
        path = next(_paths(self.tree, tree, ()), ())
        raise self._error_at(places.get((*path, (field, index))) or places.get(path), message)

    def _error_at(self, place: text_format.ParseError | None, message: str) -> ParseError:
        """Return an error at ``place``; None: at the beginning of the text."""
        line, column = (1, 1) if place is None else (place.GetLine(), place.GetColumn())
        start = sum(len(text) + 1 for text in self.text.split("\n")[: line - 1])
        return error_at(self.label, self.text, start + column - 1, message)

    def _sentence(self, error: text_format.ParseError) -> str:
        """Return the library's message without its place; for an unknown name, one with similar names."""
        line = self.text.split("\n")[error.GetLine() - 1]
        place = f"{error.GetLine()}:{error.GetColumn()} : "
        text = str(error).removeprefix(place).removeprefix(f"'{line}': ")
        match = _UNKNOWN_NAME.search(text)
        if match is None:
            return (text[0].lower() + text[1:_MAX_ERROR_CHARACTERS]).rstrip(".")
        owner, kind, name = match.groups()
        enum = enum_of(owner, self.format)
        names = [f.name for f in recipe_messages(self.format)[owner]] if enum is None else [*enum.numbers]
        near = did_you_mean(name, names) or f"; expected one of {', '.join(names[:12])}"
        return f"{owner} has no {kind} {name[:40]}{near}"


def _tree_of(message: Any, fmt: str) -> Tree:
    """Return the tree of ``message``, an object of the library, with defaults for absent fields.

    A repeated field without values is absent, or [] if the field EMPTY lists its name.
    """
    name: str = message.DESCRIPTOR.name
    tree: Tree = {"": name}
    for field in recipe_messages(fmt)[name]:
        value = getattr(message, field.name)
        if field.repeated:
            if len(value):
                tree[field.stored] = [_value_of(item, field, fmt) for item in value]
        elif message.HasField(field.name):
            tree[field.stored] = _value_of(value, field, fmt)
        elif field.default is not None:
            tree[field.stored] = field.default
    stored = {field.name: field.stored for field in recipe_messages(fmt)[name] if field.repeated}
    return tree | {stored[item]: [] for item in tree.pop(EMPTY, ()) if item in stored}


def _value_of(value: Any, field: RecipeField, fmt: str) -> Any:
    """Convert ``value`` from the form of the library to the form of trees."""
    if isinstance(value, bytes):
        is_text = field.type == "string"
        return value.decode("utf-8", "surrogateescape") if is_text else np.frombuffer(value, np.uint8)
    if field.type in VECTOR_MESSAGES:
        return list(value.dim)
    enum = enum_of(field.type, fmt)
    if enum is not None:
        return enum.names[value]
    return _tree_of(value, fmt) if hasattr(value, "DESCRIPTOR") else value


def _add_places(tokens: text_format.Tokenizer, prefix: Path, places: Places) -> None:
    """Add to ``places`` the places of all values in the message with the path ``prefix``, nested ones too.

    ``tokens``: a tokenizer of a valid text, at the first field of the message.  On return, it is behind the
    message's closing bracket, or at the end of the text.
    """
    counts: Counter[str] = Counter()
    while not (tokens.AtEnd() or tokens.TryConsume("}") or tokens.TryConsume(">")):
        place = tokens.ParseError("")
        name = tokens.ConsumeIdentifier()
        tokens.TryConsume(":")
        is_list = tokens.TryConsume("[")
        while not (is_list and tokens.TryConsume("]")):
            path = (*prefix, (name, counts[name]))
            counts[name] += 1
            if tokens.TryConsume("{") or tokens.TryConsume("<"):
                places[path] = place
                _add_places(tokens, path, places)
            else:
                places[path] = tokens.ParseError("")
                tokens.NextToken()
                while tokens.token.startswith(('"', "'")):  # a string may consist of several parts
                    tokens.NextToken()
            if not is_list:
                break
            tokens.TryConsume(",")
        _ = tokens.TryConsume(",") or tokens.TryConsume(";")


def _paths(tree: Tree, target: Tree, path: Path) -> Iterator[Path]:
    """Yield the path of the message ``target``, found by identity; ``path``: the path of ``tree`` itself."""
    if tree is target:
        yield path
    for name, value in tree.items():
        for index, item in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(item, dict):
                yield from _paths(item, target, (*path, (name, index)))


# -- writing -----------------------------------------------------------------------------------


def format_recipe(tree: Tree, fmt: str) -> str:
    """Return the text of ``tree``, a message ModelRecipe, without fields that have the recipes' defaults.

    Raise UnsupportedError if an enum has a number for which the schema has no name, or if a number is out of
    the range of its field in recipes, which may be unsigned.
    """
    message = _recipe_class(fmt)()
    try:
        _fill(message, tree, fmt)
    except ValueError as error:
        raise UnsupportedError(f"a recipe cannot express a number of the model: {error}") from None
    text: str = text_format.MessageToString(message, as_utf8=True, use_short_repeated_primitives=True)
    return text


def _fill(message: Any, tree: Tree, fmt: str) -> None:
    """Set the fields of ``message``, an object of the library, to those of ``tree``."""
    done = set()
    for field in recipe_messages(fmt)[message.DESCRIPTOR.name]:
        value = tree.get(field.stored, field.schema_default)
        if value is None or field.stored in done:  # done: a field with two names is written under the first
            continue
        done.add(field.stored)
        if field.repeated:
            items = getattr(message, field.name)
            if field.type in recipe_messages(fmt):
                for item in value:
                    _fill(items.add(), item, fmt)
            elif len(value):
                items.extend(_stored(item, field, fmt) for item in value)
            else:  # protobuf does not distinguish an empty list from an absent field
                getattr(message, EMPTY).append(field.name.encode())
        elif field.type in VECTOR_MESSAGES:
            getattr(message, field.name).SetInParent()  # makes the field present, even if it stays empty
            getattr(message, field.name).dim.extend(value)
        elif isinstance(value, dict):
            getattr(message, field.name).SetInParent()
            _fill(getattr(message, field.name), value, fmt)
        elif not _same(value, field.default):
            setattr(message, field.name, _stored(value, field, fmt))


def _stored(value: Any, field: RecipeField, fmt: str) -> Any:
    """Convert ``value`` from the form of trees to the form of the library.

    Raise UnsupportedError for a number of an enum for which the schema has no name.
    """
    if field.type == "string":
        return value.encode("utf-8", "surrogateescape")
    if field.type == "[ubyte]":
        return bytes(value)
    enum = enum_of(field.type, fmt)
    if enum is not None:
        if value not in enum.numbers:  # a number for which the schema has no name
            raise UnsupportedError(f"a recipe cannot express {field.name} {value}, which {enum.name} lacks")
        return enum.numbers[value]
    return value.item() if isinstance(value, np.generic) else value


def _same(value: Any, default: Any) -> bool:
    """Return whether ``value`` is the default of its field; floats are compared as float32, bit for bit."""
    if isinstance(value, float) and isinstance(default, int | float):
        return bool(np.float32(value).tobytes() == np.float32(default).tobytes())
    return bool(value == default) if default is not None else False
