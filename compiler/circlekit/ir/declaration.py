# SPDX-License-Identifier: Apache-2.0
"""Declare an operator as one class with its operands, attributes, traits, shape rule and kernel.

    class TransposeConv(Op, code="TRANSPOSE_CONV"):
        output_shape = operand(i32)
        filter = operand(f32, i8)
        input = operand(f32, i8)
        bias = optional_operand(f32, i32)
        padding: Padding = attribute(Padding.SAME)

        def infer(self): ...                                     # type of the result
        def kernel(self, output_shape, filter, input, bias): ... # numpy arrays in, numpy array out

Defining the class also registers it, in DECLARATIONS below.  ``Op``, in ``ir.core``, is a subclass of
Declaration.  ``operand``, ``attribute`` and similar functions, in ``ir.op``, make an Operand or Attribute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from circlekit.errors import CirclekitError, ModelError, ShapeError, UnsupportedError
from circlekit.ir.dtypes import DType
from circlekit.ir.enums import Named
from circlekit.ir.quantization_rule import InnerTensor, QuantizationRule
from circlekit.ir.tensor import LARGEST_DIMENSION, MAX_RANK, Array, TensorType, format_shape

Inferred = TensorType | tuple[TensorType, ...]


class Operand:
    """A declared operand.

    ``dtypes``: the dtypes that the operand may have; () stands for any.  ``optional``: the operand may be
    absent.  ``variadic``: the declaration stands for all remaining operands, however many.  ``index``: the
    position of the operand among the operands of the class, from 0.
    """

    def __init__(self, dtypes: tuple[DType, ...], optional: bool = False, variadic: bool = False) -> None:
        self.dtypes = dtypes
        self.optional = optional
        self.variadic = variadic
        self.name = ""
        self.index = 0

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name


class Attribute:
    """A declared attribute.

    ``field``: the name of the attribute in the schema's options table, by default the same name.
    ``is_graph``: the attribute is a graph (in a file, the index of a subgraph).  ``quantized_only``: the
    attribute has no effect if no operand or result is quantized.  ``name``: the name in the class.
    """

    def __init__(self, default: Any, field: str | None, is_graph: bool, quantized_only: bool = False) -> None:
        self.default = default
        self.quantized_only = quantized_only
        self.field = field or ""
        self.is_graph = is_graph
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        self.field = self.field or name

    def misfit(self, value: Any) -> str | None:
        """Return a sentence if ``value`` does not have the type of the default; else None.

        Only attributes whose default is an enum member, a dtype or of a type in ``_EXPECTED`` are checked.
        """
        types, description = _EXPECTED.get(type(self.default), (object, ""))
        if isinstance(self.default, Named | DType):
            types, description = type(self.default), f"a member of {type(self.default).__name__}"
        if self.is_graph or types is object:
            return None
        # True is an int in Python, but not in a model
        if isinstance(value, types) and isinstance(value, bool) == (types is bool):
            return None
        return f"{self.name} is {value!r}, expected {description}"


def comparable(value: Any) -> Any:
    """Return ``value`` as operators store it: a list or an array becomes a tuple, so that ``==`` works.

    An array without axes becomes a number.
    """
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return tuple(value) if isinstance(value, list) else value


_EXPECTED: dict[type, tuple[Any, str]] = {  # types of an attribute's value, by the type of its default
    bool: (bool, "true or false"),
    int: ((int, np.integer), "an integer"),
    float: ((float, int, np.number), "a number"),
    str: (str, "a string"),
    list: ((list, tuple, np.ndarray), "a list"),
    tuple: ((list, tuple, np.ndarray), "a list"),
}


class Declaration:
    """Base class of Op: everything that is the same for all operators of a class.

    ``code``: the schema's name of the operator.  ``options``: the name of its options table, or None.
    ``operands``, ``attributes``: the declarations in order.  ``result_names``: the names of the results.
    ``variadic_results``: the number of results is not fixed.  ``inputs``, ``version``: see ``Op``.
    """

    inputs: list[Any]
    version: int | None
    code: ClassVar[str] = ""
    options: ClassVar[str | None] = None
    operands: ClassVar[tuple[Operand, ...]] = ()
    attributes: ClassVar[tuple[Attribute, ...]] = ()
    result_names: ClassVar[tuple[str, ...]] = ("output",)
    variadic_results: ClassVar[bool] = False
    commutative: ClassVar[bool] = False
    """The first two operands may be exchanged; for MAXIMUM and MINIMUM, this may change results for NaN."""
    pure: ClassVar[bool] = True
    """Equal operands give equal results; no side effects.  Passes may fold, share or remove the operator.

    False by default for an operator with graph attributes: the graphs may have side effects.
    """
    elementwise: ClassVar[bool] = False
    """Each element of the result depends on one element of each operand; operands may be broadcast."""
    data_movement: ClassVar[bool] = False
    """Every element of a result is a copy of an element of the operand that holds the data.

    A variadic operand (of CONCATENATION, for example) holds the data in several values.  CONCATENATION may
    also rescale the copies, and apply an activation to them.
    """
    stateful: ClassVar[bool] = False
    """The operator keeps state between runs: a variable, a hash table or a random stream."""
    reads_data: ClassVar[bool] = True
    """False if the results depend on the shapes of the operands only (SHAPE, RANK)."""
    formats: ClassVar[frozenset[str]] = frozenset({"circle", "tflite"})
    """The file formats that have this operator."""
    reference_version: ClassVar[int | None] = None
    """The newest operator version that LiteRT's reference kernels implement; None: every version.

    0: there is no reference kernel; or it contradicts the operator's definition, and only the optimized
    kernel follows the definition.
    """
    versions: ClassVar[Mapping[DType, int]] = {}
    """The operator version by the dtype of operand number ``version_operand``; 1 for other dtypes."""
    rank_versions: ClassVar[Mapping[int, int]] = {}
    """The lowest allowed operator versions by the rank of operand ``version_operand``.

    For example, ``{5: 4}`` means version 4 or higher if the rank is 5 or more.
    """
    version_operand: ClassVar[int] = 0
    """The index of the operand on whose dtype and rank the operator version depends."""
    fuses_activation: ClassVar[bool] = False
    """The operator has an attribute ``act``, an activation that runtimes apply to the result."""
    layout_operands: ClassVar[tuple[str, ...]] = ()
    """The operands that have the axes of the result; the others are parameters, such as axes or paddings."""
    per_axis_operands: ClassVar[Mapping[str, int]] = {}
    """The parameter operands that have one element or one row for each axis of the data.

    {name: the element with which the operator leaves a new axis, of dimension 1, as it is}.
    """
    axis_numbers: ClassVar[tuple[str, ...]] = ()
    """The parameter operands and attributes that hold axes of the data; an axis may be negative."""
    quantization_rule: ClassVar[QuantizationRule | None] = None
    """The scales and zero points that quantized kernels require; None: the operator is never quantized."""

    def __init_subclass__(
        cls,
        code: str | None = None,
        options: str | None = "",
        results: Sequence[str] | None = None,
        variadic_results: bool = False,
        **traits: Any,
    ) -> None:
        """Collect operands and attributes, and register the class if it has a ``code``.

        ``options``: the name of the schema's options table, by default the class name followed by
        ``Options``; None if the operator has no options.  ``results``: the names of the results.  ``traits``:
        other class variables, such as ``pure=False``.
        Raise ModelError for a mistake in the declaration, TypeError for an unknown trait.
        """
        super().__init_subclass__()
        members: dict[str, Any] = {}  # an overridden operand keeps the position that the base class gave it
        for base in reversed(cls.__mro__):
            if base is not object:
                members.update(vars(base))
        cls.operands = tuple(f for f in members.values() if isinstance(f, Operand))
        cls.attributes = tuple(f for f in members.values() if isinstance(f, Attribute))
        for index, spec in enumerate(cls.operands):
            spec.index = index
            if spec.variadic and spec is not cls.operands[-1]:
                raise ModelError(f"{cls.__name__}: the variadic operand {spec.name} must be the last")
        if results is not None:
            cls.result_names = tuple(results)
        if variadic_results:
            cls.variadic_results = True
        if any(spec.is_graph for spec in cls.attributes):
            cls.pure = False
        for trait, value in traits.items():
            if not hasattr(cls, trait):
                raise TypeError(f"{cls.__name__}: no trait is named {trait}")
            setattr(cls, trait, value)
        if code is not None:
            cls.code = code
            cls.options = cls.__name__ + "Options" if options == "" else options
            _register(cls)

    @classmethod
    def operand_spec(cls, index: int) -> Operand | None:
        """Return the declaration of operand ``index``; None for an operator without declared operands.

        A variadic operand, which is the last one, stands for all operands from its index on.
        """
        return cls.operands[min(index, len(cls.operands) - 1)] if cls.operands else None

    # -- what each operator defines ------------------------------------------------------------

    def infer(self) -> Inferred:
        """Return the type of the result, or a tuple of types; raise ShapeError if the operands do not fit.

        By default there is no shape rule: raise UnsupportedError, or return () if no results are declared.
        """
        if self.result_names:
            raise UnsupportedError(f"{self.code} has no shape rule")
        return ()

    def inferred(self) -> tuple[TensorType, ...]:
        """Return the types from ``infer`` as a tuple; their number is not compared with that of the results.

        Raise

        - ShapeError if the operands do not fit, or if a result would have more than MAX_RANK dimensions or a
          dimension out of range;
        - UnsupportedError if there is no shape rule;
        - ModelError if a graph attribute is missing, ``infer`` reads a required operand that is missing, an
          attribute has a wrong value, or ``infer`` itself is wrong;
        - any other CirclekitError that ``infer`` raises.
        """
        kind = type(self).__name__
        for spec in self.attributes:
            if spec.is_graph and getattr(self, spec.name) is None:
                raise ModelError(f"{kind} lacks its {spec.name}")
        try:
            types = self.infer()
        except (CirclekitError, MemoryError):
            raise
        except (ValueError, IndexError, ArithmeticError) as error:  # unexpected elements of a constant
            raise ShapeError(f"{self.code} does not fit its operands: {error}") from error
        except Exception as error:  # a mistake of the author, who may be of another package
            raise ModelError(f"{kind}.infer failed: {type(error).__name__}: {error}") from error
        types = types if isinstance(types, tuple) else (types,)
        for result in types:
            if not isinstance(result, TensorType):
                raise ModelError(f"{kind}.infer: expected a TensorType or a tuple of them, got {result!r}")
            shape = result.shape
            if shape is not None and len(shape) > MAX_RANK:
                raise ShapeError(f"{self.code} gives rank {len(shape)}, expected at most {MAX_RANK}")
            if any(d is not None and not 0 <= d <= LARGEST_DIMENSION for d in shape or ()):
                limit = f"expected dimensions from 0 to {LARGEST_DIMENSION}"
                raise ShapeError(f"{self.code} gives {format_shape(shape)}, {limit}")
        return types

    def kernel(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result, or a tuple of results, as arrays.

        The arguments are one array per operand, None for an absent operand.  Raise UnsupportedError if there
        is no kernel for these operands; ModelError, mostly ShapeError, if elements or shapes do not fit.
        """
        raise UnsupportedError(f"{self.code} has no kernel")

    def required_version(self) -> int:
        """Return the lowest TFLite operator version that supports this operator as it is.

        Source: TFLite tools/versioning/op_version.cc.
        """
        value = self.inputs[self.version_operand] if self.version_operand < len(self.inputs) else None
        if value is None:
            return 1
        by_rank = [version for rank, version in self.rank_versions.items() if len(value.shape or ()) >= rank]
        return max([self.versions.get(value.dtype, 1), *by_rank])

    def has_reference_kernel(self) -> bool:
        """Return whether LiteRT has a reference kernel that follows this operator's definition."""
        newest = self.reference_version
        return newest is None or (self.version or self.required_version()) <= newest

    def implied_attributes(self) -> Mapping[str, Any]:
        """Return values for attributes that were not set, by name; they are written instead of the defaults.

        Cast, for example, returns the dtypes of its operand and its result.  An attribute that is not in the
        result has its default.
        """
        return {}

    def macs(self) -> int:
        """Return the multiply-accumulates of one run.

        An unknown dimension counts as 1, a shape of unknown rank as 0.
        """
        return 0

    def for_new_shapes(self, old: Mapping[str, Any], outer: bool) -> dict[str, Any]:
        """Return the attributes, constants and shapes of variables that this operator needs for new shapes.

        The operands already have the new shapes.  ``old``: the earlier shapes of the operands by their names,
        and of the first result by the name "output".  ``outer``: whether a 1 at the beginning of a constant
        shape stands for the batch; then it changes together with axis 0 of an operand.  Example: if the
        operand [8, 3] becomes [16, 3], the constant shape [1, 8, 3] becomes [2, 8, 3] with ``outer``, else
        [1, 16, 3].  The returned dict has, by name, attributes, the elements of constant operands (lists of
        integers), and the shapes of operands that are variables.  Raise ShapeError if nothing fits.
        """
        return {}

    def dynamic_fault(self) -> str | None:
        """Return why dynamic quantization gives wrong results for this operator; None if they are right.

        Dynamic quantization: the weights are integers, and the runtime quantizes the float data during a run.
        """
        return None

    def integer_fault(self) -> str | None:
        """Return why the integer kernels of runtimes do not compute this operator; None if they do.

        The quantizer calls this method in two states of the operator.  Either everything is still float:
        then return only a fault that no choice of scales avoids.  Or operands and results have their integer
        dtypes and scales, and only the data of constants are still floats.
        """
        return None

    def integer_caution(self) -> str | None:
        """Return a warning for the user if results of the integer kernel are far off; else None.

        Unlike ``integer_fault``, this does not keep the quantizer from quantizing the operator.
        """
        return None

    def inner_tensors(self) -> Sequence[InnerTensor]:
        """Return, in order, the tensors inside the operator for which its integer kernel needs scales."""
        return ()

    def inner_values(self, *operands: Array | None) -> Mapping[str, Array]:
        """Return, by name, the numbers that the inner tensors and states of the operator have during a run.

        From these numbers, calibration takes the ranges that integer kernels need.  A state (a variable that
        is an operand) changes during a run: its array has all numbers that the state held during the run.
        ``operands``: as for the kernel.
        """
        return {}

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        """Return the attributes and constants that this operator needs if the axes of its data are permuted.

        Each operand in ``layout_operands``, and each result, is to be replaced by its transpose: axis k of
        the transpose is axis ``perm[k]`` of the original, or a new axis of dimension 1 if ``perm[k]`` is
        NEW_AXIS.  The returned dict has, by name, the parameters that change: attributes, and arrays of
        constant operands.  Return None if the operator cannot be permuted.
        """
        if not self.layout_operands:
            return None
        changes: dict[str, Any] = {}
        rank = kept_rank(perm)
        new_axes = np.array([perm.index(axis) for axis in range(rank)])  # the new position of each axis
        for name in (*self.per_axis_operands, *self.axis_numbers):
            parameter = getattr(self, name)
            is_attribute = isinstance(parameter, int)
            if not is_attribute and not parameter.is_plain:
                return None
            data = np.array(parameter) if is_attribute else parameter.data
            if name in self.per_axis_operands:
                if data.shape[:1] != (rank,):  # not one element or row for each axis
                    return None
                neutral = np.full_like(data[:1], self.per_axis_operands[name])
                changes[name] = np.concatenate((data, neutral))[[rank if a == NEW_AXIS else a for a in perm]]
            elif np.any((data < -rank) | (data >= rank)):
                return None
            else:
                moved = new_axes[data]
                changes[name] = int(moved) if is_attribute else np.asarray(moved, data.dtype)
        return changes


NEW_AXIS = -1
"""In the argument of ``Declaration.permuted``: a new axis, of dimension 1."""


def kept_rank(perm: Sequence[int]) -> int:
    """Return how many axes of ``perm``, an argument of ``Declaration.permuted``, are not new."""
    return len(perm) - perm.count(NEW_AXIS)


DECLARATIONS: dict[str, type[Any]] = {}
"""Every declared operator class (a subclass of Op), by its ``code``, such as ``TRANSPOSE_CONV``."""


def _register(cls: type[Declaration]) -> None:
    """Enter ``cls`` in DECLARATIONS; raise ModelError if another class has its code or its name."""
    for other in [*DECLARATIONS.values()]:
        if cls.code == other.code or cls.__name__ == other.__name__:
            places = [f"{kind.__module__}.{kind.__qualname__}" for kind in (other, cls)]
            if places[0] != places[1]:
                shared = cls.code if cls.code == other.code else cls.__name__
                raise ModelError(f"the operator {shared} is declared twice: by {' and by '.join(places)}")
            del DECLARATIONS[other.code]  # a notebook may define a class again
    DECLARATIONS[cls.code] = cls
