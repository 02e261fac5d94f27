# SPDX-License-Identifier: Apache-2.0
"""Operators: how one is declared, and what every one of them can do.

A declaration is a class whose fields are operands, attributes and results (design, section 4):

    class TransposeConv(Op, code="TRANSPOSE_CONV"):
        output_shape = operand(i32)
        filter = operand()
        input = operand()
        bias = optional_operand()
        padding: Padding = attribute(Padding.SAME)

It enters REGISTRY by being defined; nothing else needs to mention it.

What it computes is said once, in one of two forms:

    def kernel(self, input, alpha): ...        arrays to arrays, called in every run
    def bind(self, tape, input, alpha): ...    called once for the shapes of a run

``bind`` writes calls with fixed arrays on the tape and returns the arrays (or views) that hold the results
after the calls.  It may look at shapes, dtypes and attributes, and at the elements of the operands that
``tape.fixed``; all else it says with ``tape.do``.  Best are numpy's own functions, the result as the last
argument: ``tape.do(np.add, lhs, rhs, out)`` costs a quarter of a microsecond.  Memory comes from
``tape.empty``, for results and scratch alike; operands are read only.  A result may be a view of an operand:
it then costs no time at all.  Where a form cannot be bound, ``bind`` returns None and ``kernel`` is called in
every run.  An operator with both forms calls the same functions in both: ``bind(NOW, ...)`` computes at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from circlekit.errors import ModelError, ShapeError, UnsupportedError
from circlekit.ir.fields import (
    Attribute,
    Operand,
    OptionalOperand,
    VariadicOperand,
    attribute,
    graph_attribute,
    operand,
    optional_operand,
    variadic_operand,
)
from circlekit.ir.tape import NOW, Tape
from circlekit.ir.value import LARGEST_DIMENSION, MAX_RANK, Array, TensorType, Value, format_shape

if TYPE_CHECKING:
    from circlekit.ir.graph import Graph

__all__ = [
    "REGISTRY",
    "Attribute",
    "Inferred",
    "Op",
    "OpaqueOp",
    "Operand",
    "OptionalOperand",
    "Run",
    "VariadicOperand",
    "attribute",
    "graph_attribute",
    "operand",
    "optional_operand",
    "variadic_operand",
]

Inferred = TensorType | tuple[TensorType, ...]
Run = Callable[["Graph", Sequence[Array]], list[Array]]

_FIELDS = (Operand, Attribute)

REGISTRY: dict[str, type[Op]] = {}
"""Every declared operator by the schema's name of it (``TRANSPOSE_CONV``)."""


class Op:
    """One operator in a graph.

    ``inputs``: operands in the schema's order, None where absent.  Change them by ``set_input``.
    ``version``: what the file said, or None: then ``required_version`` decides when it is written.
    ``extra``: fields of the schema's Operator that the IR does not interpret.
    """

    code: ClassVar[str] = ""
    options: ClassVar[str | None] = None
    operands: ClassVar[tuple[Operand, ...]] = ()
    attributes: ClassVar[tuple[Attribute, ...]] = ()
    result_names: ClassVar[tuple[str, ...]] = ("output",)
    variadic_results: ClassVar[bool] = False
    commutative: ClassVar[bool] = False
    """The first two operands may change places."""
    pure: ClassVar[bool] = True
    """Same inputs, same outputs, no effect: may be folded, shared and removed."""
    reads_data: ClassVar[bool] = True
    """False where the results depend on the operands' shapes alone (SHAPE, RANK)."""
    formats: ClassVar[frozenset[str]] = frozenset({"circle", "tflite"})
    """The file formats that have this operator."""
    reference_version: ClassVar[int | None] = None
    """The last version of it that LiteRT's reference kernels have; None where that is the last of all."""

    def __init_subclass__(
        cls,
        code: str | None = None,
        options: str | None = "",
        results: Sequence[str] | None = None,
        variadic_results: bool = False,
        **flags: Any,
    ) -> None:
        """Note the fields.  ``flags``: commutative, pure, reads_data, formats, reference_version.

        ``options``: the schema's options table; by default the class name + ``Options``; None for none.
        """
        super().__init_subclass__()
        own: dict[str, Any] = {}  # a subclass's field takes the place of its base's, at the base's position
        for base in reversed(cls.__mro__):
            if base is not Op and base is not object:
                own.update(vars(base))
        fields = [f for f in own.values() if isinstance(f, _FIELDS)]
        cls.operands = tuple(f for f in fields if isinstance(f, Operand))
        cls.attributes = tuple(f for f in fields if isinstance(f, Attribute))
        for index, spec in enumerate(cls.operands):
            spec.index = index
        if results is not None:
            cls.result_names = tuple(results)
        if variadic_results:
            cls.variadic_results = True
        for flag, value in flags.items():
            setattr(cls, flag, value)
        if code is not None:
            cls.code = code
            cls.options = cls.__name__ + "Options" if options == "" else options
            REGISTRY[code] = cls

    def __init__(
        self, *operands: Value | None, results: Sequence[Value] | None = None, **attributes: Any
    ) -> None:
        """``results``: the values to produce; by default new nameless ones of the inferred types."""
        self.graph: Graph | None = None
        self.previous: Op | None = None
        self.next: Op | None = None
        self.version: int | None = None
        self.extra: dict[str, Any] = {}
        self.attribute_values: dict[str, Any] = attributes
        if attributes:
            self._check_attributes(attributes)
        self.inputs: list[Value | None] = list(operands)
        self.results: list[Value] = []
        if results is None:  # an operator that does not fit its operands never reads them
            results = [Value("", t.dtype, t.shape, None, t.quantization) for t in self.inferred()]
        for index, value in enumerate(operands):
            if value is not None:
                value._uses[self, index] = None
        for value in results:
            self.add_result(value)

    def _check_attributes(self, attributes: dict[str, Any]) -> None:
        known = {a.name for a in self.attributes}
        for name in attributes:
            if name not in known:
                raise ModelError(
                    f"{type(self).__name__} has no attribute {name}; it has {', '.join(sorted(known))}"
                )

    # -- edges ---------------------------------------------------------------------------------

    def set_input(self, index: int, value: Value | None) -> None:
        """Read ``value`` in place of what operand ``index`` was; absent operands before it become None."""
        while index >= len(self.inputs):
            self.inputs.append(None)
        old = self.inputs[index]
        if old is value:
            return
        if old is not None:
            del old._uses[self, index]
        self.inputs[index] = value
        if value is not None:
            value._uses[self, index] = None
        self.touch()

    def add_result(self, value: Value) -> None:
        """Produce ``value``, which has no producer, as the next result."""
        value.producer = self
        value.result_index = len(self.results)
        self.results.append(value)

    def take_result(self, index: int, value: Value) -> Value:
        """Produce ``value`` (name, uses and all) as result ``index``; its old producer gets a nameless one.

        Returns the value that was result ``index`` before, now without producer.
        """
        old = self.results[index]
        if value is old:
            return old
        if value.producer is not None:
            other, at = value.producer, value.result_index
            stub = Value("", value.dtype, value.shape, None, value.quantization)
            stub.producer, stub.result_index = other, at
            other.results[at] = stub
        self.results[index] = value
        value.producer, value.result_index = self, index
        old.producer = None
        self.touch()
        return old

    def drop_inputs(self) -> None:
        """Stop reading all operands; for an operator that leaves its graph."""
        for index, value in enumerate(self.inputs):
            if value is not None:
                value._uses.pop((self, index), None)
        self.inputs = []

    def touch(self) -> None:
        """Note a change: the file's version no longer binds, and the graph counts it."""
        self.version = None
        if self.graph is not None:
            self.graph.epoch += 1

    # -- what it is ----------------------------------------------------------------------------

    @property
    def output(self) -> Value:
        """The first result; ModelError where there is none."""
        try:
            return self.results[0]
        except IndexError:
            raise ModelError(f"{self.code} has no result") from None

    def operand_items(self) -> Iterator[tuple[str, Value]]:
        """(operand name, value) of every operand that is there."""
        last = len(self.operands) - 1
        for index, value in enumerate(self.inputs):
            if value is not None:
                yield (self.operands[min(index, last)].name if last >= 0 else str(index)), value

    def attribute_items(self) -> dict[str, Any]:
        """Every declared attribute by name, defaults included."""
        return {a.name: self.attribute_values.get(a.name, a.default) for a in self.attributes}

    def called_graphs(self) -> list[Graph]:
        """The graphs that this operator runs."""
        return [g for a in self.attributes if a.is_graph and (g := getattr(self, a.name)) is not None]

    def required_version(self) -> int:
        """The lowest operator version of TFLite that has everything this operator uses."""
        return 1

    # -- what it means -------------------------------------------------------------------------

    def infer(self) -> Inferred:
        """Types of the results, from the operands; ShapeError where they do not fit."""
        raise UnsupportedError(f"{self.code} has no shape rule")

    def inferred(self) -> tuple[TensorType, ...]:
        """What ``infer`` gives, one type for each result; ModelError where the operator lacks a graph."""
        for spec in self.attributes:
            if spec.is_graph and getattr(self, spec.name) is None:
                raise ModelError(f"{type(self).__name__} lacks its {spec.name}")
        try:
            types = self.infer()
        except (ValueError, IndexError, ArithmeticError) as error:  # of constants that no rule expects
            raise ShapeError(f"{self.code} cannot be of these operands: {error}") from error
        types = types if isinstance(types, tuple) else (types,)
        for kind in types:
            if kind.shape is not None and len(kind.shape) > MAX_RANK:
                raise ShapeError(f"{self.code} gives {len(kind.shape)} dimensions, at most {MAX_RANK} can be")
            if any(d is not None and not 0 <= d <= LARGEST_DIMENSION for d in kind.shape or ()):
                raise ShapeError(f"{self.code} gives {format_shape(kind.shape)}, which no tensor can have")
        return types

    def kernel(self, *args: Any, **kwargs: Any) -> Any:
        """The results (an array, or a tuple of them) of arrays, one for each operand, None where absent."""
        results = self.bind(NOW, *args)
        if results is None:
            raise UnsupportedError(f"{self.code} has no kernel")
        return results

    def bind(self, tape: Tape, *operands: Any) -> Any:
        """The arrays that hold the results after what it writes on ``tape``; None: call ``kernel`` instead.

        ``operands``: arrays, one for each, None where absent.
        """
        return None

    def call(self, run: Run, *args: Any) -> Sequence[Array]:
        """Like ``kernel``, for an operator that runs other graphs by ``run``."""
        out = self.kernel(*args)
        return out if isinstance(out, tuple | list) else (out,)

    def macs(self) -> int:
        """Multiply-accumulates of one run, unknown dimensions taken as 1; 0 for what does none."""
        return 0

    fuses_activation: ClassVar[bool] = False
    """It has an attribute ``act`` that runtimes apply to its result."""

    layout_operands: ClassVar[tuple[str, ...]] = ()
    """The operands that hold data in the layout of the result; the others are parameters (axes, paddings)."""

    def permuted(self, perm: tuple[int, ...]) -> dict[str, Any] | None:
        """How to do the same to data with permuted axes; None where it cannot be done.

        With every operand x of ``layout_operands`` replaced by transpose(x, perm), and each result by
        transpose(result, perm): the attributes (by name) and the constants of parameter operands (by
        name, as arrays) to change for that.  An empty dict: nothing else changes.
        """
        return None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join('%' + v.name for v in self.results)}>"


class Body:
    """What an operator can run: a Graph, which is declared above the operators, knows itself by this."""

    name: str


class OpaqueOp(Op):
    """An operator without a declaration, kept as the file had it: a wall for rewrites, never an error.

    ``code``: the schema's name, or ``UNKNOWN_310`` for a number that the schema does not have.
    ``option_tree``: the decoded options table: ``{"": table name, field: value}``, with graphs for
    their indices; None where there is none.
    """

    pure = False

    def __init__(
        self,
        *operands: Value | None,
        code: str,
        results: Sequence[Value],
        custom_code: str | None = None,
        option_tree: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(*operands, results=results)
        self.code = code  # type: ignore[misc]  # a class constant for every operator but this one
        self.custom_code = custom_code
        self.option_tree = option_tree

    def called_graphs(self) -> list[Graph]:
        """The graphs in its options, or in lists there."""
        found: list[Any] = []
        for item in (self.option_tree or {}).values():
            found += [x for x in (item if isinstance(item, list) else [item]) if isinstance(x, Body)]
        return found
