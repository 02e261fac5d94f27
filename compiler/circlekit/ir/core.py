# SPDX-License-Identifier: Apache-2.0
"""The def-use graph: values, the operators that produce and use them, and graphs.

The three classes refer to each other, so they share a module.  A Value knows its producer and its uses.  An
Op knows its operands, its results and its graph.  A Graph keeps its operators in order as a linked list.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import singledispatch
from typing import TYPE_CHECKING, Any

from circlekit.errors import ModelError, counted, did_you_mean, shown
from circlekit.ir.declaration import Attribute, Declaration, Operand, comparable
from circlekit.ir.dtypes import DType
from circlekit.ir.tensor import Array, Quantization, Shape, Tensor, TensorType


@singledispatch
def to_text(thing: object) -> str:
    """Return the text form of a model, graph or operator, or its ``repr`` if ``ir.text`` is not imported.

    The printer in ``ir.text`` imports the classes of this module, which therefore cannot import the printer.
    Instead the printer registers its functions here.
    """
    return repr(thing)


class Value(Tensor):
    """One tensor of a graph.

    ``producer``: the operator whose ``results[result_index]`` is this value; None if no operator produces it.
    """

    __slots__ = ("_uses", "producer", "result_index")

    def __init__(
        self,
        name: str,
        dtype: DType,
        shape: Shape | None,
        data: Array | None = None,
        quantization: Quantization | None = None,
    ) -> None:
        super().__init__(name, dtype, shape, data, quantization)
        self.producer: Op | None = None
        self.result_index = 0
        self._uses: dict[tuple[Op, int], None] = {}  # an ordered set

    @staticmethod
    def constant(name: str, array: Array, quantization: Quantization | None = None) -> Value:
        """Return a constant with the elements, dtype and shape of ``array``, which is not copied.

        Raise ModelError if ``array`` has no dtype, such as a list, or a dtype that ``DType.of`` refuses.
        """
        try:
            dtype = DType.of(array.dtype)
        except (AttributeError, KeyError):
            found = getattr(array, "dtype", type(array).__name__)
            raise ModelError(f"%{name}: expected an array of numbers or bools, got {found}") from None
        return Value(name, dtype, array.shape, array, quantization)

    @staticmethod
    def of_type(type: TensorType | Tensor, name: str = "") -> Value:
        """Return a new value of ``type``, or of the type of another value; it has no data and no producer."""
        return Value(name, type.dtype, type.shape, None, type.quantization)

    @property
    def uses(self) -> tuple[tuple[Op, int], ...]:
        """Each use as a pair (operator, index into the operator's inputs), the oldest use first."""
        return tuple(self._uses)

    @property
    def users(self) -> list[Op]:
        """The operators that use this value, each once."""
        return list({op: None for op, _ in self._uses})

    def other_user(self, known: Collection[Op]) -> Op | None:
        """Return the first user that is not in ``known``; None if there is none."""
        return next((op for op, _ in self._uses if op not in known), None)

    @property
    def use_count(self) -> int:
        """The number of uses; an operator that uses this value twice counts twice."""
        return len(self._uses)

    @property
    def scale_values(self) -> list[Value]:
        """The values that hold the scales and zero points of blocks, for a blockwise quantization; or []."""
        details = self.quantization.details if self.quantization is not None else None
        return [v for v in (details or {}).values() if isinstance(v, Value)]

    def __getstate__(self) -> tuple[Any, ...]:
        """Return the fields for ``copy`` and ``pickle``; the copy has no producer and no uses, see Op."""
        return tuple(getattr(self, name) for name in Tensor.__slots__)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        for name, content in zip(Tensor.__slots__, state, strict=True):
            setattr(self, name, content)
        self.producer, self.result_index, self._uses = None, 0, {}


class Op(Declaration):
    """One operator in a graph.

    ``inputs``: the operands in the schema's order, None for an absent operand; ``set_input`` changes them.
    ``version``: the operator version in the file.  It is None if the operator is new or was changed.  Then
    the operator is saved with the version that ``required_version`` returns; but an opaque operator from a
    file is saved with its version in the file.
    ``previous``, ``next``: the neighbors of the operator in its graph.
    ``attribute_values``: the attributes that were set, by name; the other attributes have their defaults.
    A change of an attribute replaces the dict, because snapshots (``ir.snapshot``, for undo) share it.
    ``extra``: fields of the schema's Operator that the IR does not interpret.
    """

    graph: Graph | None
    version: int | None
    previous: Op | None
    next: Op | None
    extra: dict[str, Any]
    attribute_values: dict[str, Any]
    inputs: list[Value | None]
    results: list[Value]

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Declare an operator: see Declaration; raise ModelError for a name that every operator has.

        An operand named ``inputs``, for example, would hide the list of all operands.
        """
        for name, member in vars(cls).items():
            if isinstance(member, Operand | Attribute) and (name in _OP_FIELDS or hasattr(Op, name)):
                raise ModelError(f"{cls.__name__}: {name} is a name in every operator; choose another name")
        super().__init_subclass__(**arguments)

    def __init__(
        self, *operands: Value | None, results: Sequence[Value] | None = None, **attributes: Any
    ) -> None:
        """Make an operator on ``operands`` (None for an absent operand) with ``attributes``, in no graph.

        ``results``: the values that the operator produces; by default new values of the inferred types, whose
        names are empty until the operator is inserted into a graph.  Raise ModelError for an operand that is
        not a Value, for an unknown attribute, and for an attribute of a wrong type.  Without ``results``,
        also raise the errors of ``inferred``.
        """
        self.graph = self.previous = self.next = self.version = None
        self.extra = {}
        self.attribute_values = attributes
        self._check_arguments(operands)
        self.inputs = list(operands)
        self.results = []
        if results is None:  # before the uses are recorded: a rejected operator must not become a user
            results = list(map(Value.of_type, self.inferred()))
        for index, value in enumerate(operands):
            if value is not None:
                value._uses[self, index] = None
        for value in results:
            self.add_result(value)

    def _check_arguments(self, operands: Sequence[object]) -> None:
        """Raise ModelError for an operand that is not a Value, and for an unknown or wrongly typed attribute.

        Also convert attribute values that are arrays to tuples.
        """
        specs = {a.name: a for a in self.attributes}
        for name, content in self.attribute_values.items():
            if name not in specs:
                hint = did_you_mean(name, specs) or f"; it has {', '.join(sorted(specs)) or 'no attributes'}"
                raise ModelError(f"{type(self).__name__} has no attribute {name}{hint}")
            fault = specs[name].misfit(content)
            if fault is not None:
                raise ModelError(f"{type(self).__name__}: {fault}")
            self.attribute_values[name] = comparable(content)
        for index, operand in enumerate(operands):
            self._expect_operand(index, operand)

    def _expect_operand(self, index: int, operand: object) -> None:
        """Raise ModelError if ``operand`` is neither a Value nor None."""
        if operand is not None and not isinstance(operand, Value):
            found = f"expected a Value, got {type(operand).__name__}"
            hint = "Value.constant(name, array) wraps an array"
            raise ModelError(f"operand {index} of {type(self).__name__}: {found}; {hint}")

    if not TYPE_CHECKING:  # type checkers know the attributes from the class

        def __setattr__(self, name: str, content: object) -> None:
            """Set a field; raise ModelError if operators of this class have no field ``name``."""
            if name not in _OP_FIELDS and not hasattr(type(self), name):
                hint = did_you_mean(name, [a.name for a in self.attributes] + [o.name for o in self.operands])
                raise ModelError(f"{type(self).__name__} has no attribute {name}{hint}")
            super().__setattr__(name, content)

    # -- edges ---------------------------------------------------------------------------------

    def set_input(self, index: int, value: Value | None) -> None:
        """Use ``value`` as operand ``index``; fill operands that are missing before it with None.

        Raise ModelError if ``index`` is negative, or ``value`` is neither a Value nor None.
        """
        if index < 0:
            raise ModelError(f"{type(self).__name__}: expected an operand index of at least 0, got {index}")
        self._expect_operand(index, value)
        count = len(self.inputs)
        self.inputs += [None] * (index + 1 - count)
        old = self.inputs[index]
        if old is value and index < count:
            return
        if old is not None:
            del old._uses[self, index]
        self.inputs[index] = value
        if value is not None:
            value._uses[self, index] = None
            self._reserve_name(value)
        self.touch()

    def add_result(self, value: Value) -> None:
        """Append ``value``, which must not have a producer, to the results."""
        value.producer = self
        value.result_index = len(self.results)
        self.results.append(value)
        self._reserve_name(value)
        self.touch()

    def take_result(self, index: int, value: Value) -> Value:
        """Make ``value`` the result ``index`` of this operator; return the old result.

        Both values keep their users.  If an operator produced ``value`` before, it gets a new result with an
        empty name in the place of ``value``.  The old result has no producer any more.
        """
        old = self.results[index]
        if value is old:
            return old
        if value.producer is not None:
            other, at = value.producer, value.result_index
            stub = Value.of_type(value)
            stub.producer, stub.result_index = other, at
            other.results[at] = stub
        self.results[index] = value
        value.producer, value.result_index = self, index
        old.producer = None
        self._reserve_name(value)
        self.touch()
        return old

    def _reserve_name(self, value: Value) -> None:
        """If the operator is in a graph, keep ``graph.unique_name`` from returning the name of ``value``."""
        if self.graph is not None:
            self.graph._reserve_names([value])

    def drop_inputs(self) -> None:
        """Remove all operands, so that the operator is no longer among the users of these values."""
        for index, value in enumerate(self.inputs):
            if value is not None:
                value._uses.pop((self, index), None)
        self.inputs = []

    def touch(self) -> None:
        """Record a change: forget the operator version of the file, and increase the epoch of the graph."""
        self.version = None
        if self.graph is not None:
            self.graph.epoch += 1

    # -- queries -------------------------------------------------------------------------------

    @property
    def output(self) -> Value:
        """The first result; raises ModelError if there is none."""
        try:
            return self.results[0]
        except IndexError:
            raise ModelError(f"{self.code} has no result") from None

    def operand_items(self) -> Iterator[tuple[str, Value]]:
        """Yield (operand name, value) for every operand that is present."""
        for index, value in enumerate(self.inputs):
            if value is not None:
                spec = self.operand_spec(index)
                yield str(index) if spec is None else spec.name, value

    def attribute_items(self) -> dict[str, Any]:
        """Return the value of every declared attribute by name.

        An attribute that was not set has its value in ``implied_attributes``, or else its default.
        """
        defaults = {a.name: a.default for a in self.attributes}
        return {**defaults, **self.implied_attributes(), **self.attribute_values}

    def called_graphs(self) -> list[Graph]:
        """Return the graphs that this operator runs."""
        return [g for a in self.attributes if a.is_graph and (g := getattr(self, a.name)) is not None]

    def call(self, run: Run, *args: Any) -> Sequence[Array]:
        """Return the results of the kernel for ``args``, an array per operand (None for an absent operand).

        ``run``: executes other graphs.  Operators that call graphs override this method.
        """
        out = self.kernel(*args)
        return out if isinstance(out, tuple | list) else (out,)

    def __copy__(self) -> Op:
        """Return an operator in no graph, on the same operands; its results are new, without names."""
        kept = [*self.called_graphs(), *(value for value in self.inputs if value is not None)]
        new = deepcopy(self, {id(thing): thing for thing in kept})
        for value in new.results:
            value.name = ""
        return new

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields for ``deepcopy`` and ``pickle``; the copy is in no graph, see Graph."""
        return {**vars(self), "graph": None, "previous": None, "next": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        for index, operand in enumerate(self.inputs):
            if operand is not None:
                operand._uses[self, index] = None
        for index, value in enumerate(self.results):
            value.producer, value.result_index = self, index

    def __str__(self) -> str:
        return to_text(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(map(repr, self.results))}>"


_OP_FIELDS = frozenset(Op.__annotations__)


class Graph:
    """Inputs, outputs, and operators in a valid order.

    The operators form a linked list, so inserting or removing one takes constant time.  ``epoch``: a number
    that grows with every change of inputs, outputs or operators.  A change of a value's fields, such as its
    shape, does not increase it; the code that makes such a change must increase it.  ``Snapshot.restore``
    brings an earlier number back.  ``table``: all values that the file lists, in its order, used or not.
    ``extra``: fields of the schema's SubGraph that the IR does not interpret.
    """

    def __init__(self, name: str, inputs: Sequence[Value] = (), outputs: Sequence[Value] = ()) -> None:
        """Make a graph without operators; raise ModelError if inputs or outputs are not lists of values."""
        self.name = name
        self.epoch = 0
        self.table: list[Value] = []
        self.extra: dict[str, Any] = {}
        self._inputs = _value_tuple("inputs", inputs)
        self._outputs = _value_tuple("outputs", outputs)
        self._input_ids = {id(v) for v in self._inputs}
        self._output_ids = {id(v) for v in self._outputs}
        self._first: Op | None = None
        self._last: Op | None = None
        self._count = 0
        self._listed: tuple[Op, ...] | None = None  # the result of ``ops``, until the operators change
        self._kinds: frozenset[type[Op]] | None = None  # the result of ``kinds``, likewise
        self._names: dict[str, int] | None = None  # names in use, with the last number that was appended

    @property
    def inputs(self) -> tuple[Value, ...]:
        return self._inputs

    @inputs.setter
    def inputs(self, values: Sequence[Value]) -> None:
        self._inputs = _value_tuple("inputs", values)
        self._input_ids = {id(v) for v in self._inputs}
        self._reserve_names(self._inputs)
        self.epoch += 1

    @property
    def outputs(self) -> tuple[Value, ...]:
        return self._outputs

    @outputs.setter
    def outputs(self, values: Sequence[Value]) -> None:
        self._outputs = _value_tuple("outputs", values)
        self._output_ids = {id(v) for v in self._outputs}
        self._reserve_names(self._outputs)
        self.epoch += 1

    def is_input(self, value: Value) -> bool:
        return id(value) in self._input_ids

    def is_output(self, value: Value) -> bool:
        return id(value) in self._output_ids

    @property
    def ops(self) -> tuple[Op, ...]:
        """The operators in order, as a tuple that does not change when the graph changes."""
        if self._listed is None:
            self._listed = tuple(self)
        return self._listed

    @property
    def kinds(self) -> frozenset[type[Op]]:
        """The classes of the operators."""
        if self._kinds is None:
            self._kinds = frozenset(map(type, self.ops))
        return self._kinds

    def __iter__(self) -> Iterator[Op]:
        op = self._first
        while op is not None:
            yield op
            op = op.next

    def __len__(self) -> int:
        return self._count

    def __copy__(self) -> Graph:
        """Raise ModelError: a shallow copy would share the operators, which are in one graph only."""
        raise ModelError(f"graph {shown(self.name)}: an operator is in one graph only; use copy.deepcopy")

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields for ``deepcopy`` and ``pickle``, with the operators as a tuple.

        So the depth of recursion does not depend on the number of operators: no operator or value in the
        state leads to another operator.
        """
        names = ("name", "epoch", "table", "extra", "_inputs", "_outputs", "ops")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        ops: tuple[Op, ...] = state.pop("ops")
        Graph.__init__(self, state["name"], state["_inputs"], state["_outputs"])
        vars(self).update(state)
        for before, op, after in zip((None, *ops), ops, (*ops[1:], None), strict=False):
            op.graph, op.previous, op.next = self, before, after
        self._first, self._last = (ops[0], ops[-1]) if ops else (None, None)
        self._count = len(ops)

    def __str__(self) -> str:
        return to_text(self)

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(repr, side)) for side in (self.inputs, self.outputs))
        return f"<Graph {self.name}({inputs}) -> ({outputs}): {counted(len(self), 'operator')}>"

    # -- changes -------------------------------------------------------------------------------

    def append(self, op: Op) -> Op:
        """Put ``op`` at the end, give names to its results that have none, and return it.

        Raise ModelError if ``op`` is not an operator, or is in a graph already.
        """
        return self._link(op, self._last, None)

    def insert_before(self, anchor: Op, op: Op) -> Op:
        """Put ``op`` before ``anchor``, give names to its results that have none, and return it.

        Raise ModelError if ``op`` is not an operator, is in a graph already, or ``anchor`` is not in this
        graph.
        """
        self._expect(anchor)
        return self._link(op, anchor.previous, anchor)

    def insert_after(self, anchor: Op | None, op: Op) -> Op:
        """Put ``op`` after ``anchor``, or first if ``anchor`` is None.

        Give names to the results of ``op`` that have none, and return ``op``.  Raise the errors of
        ``insert_before``.
        """
        if anchor is None:
            return self._link(op, None, self._first)
        self._expect(anchor)
        return self._link(op, anchor, anchor.next)

    def _link(self, op: Op, before: Op | None, after: Op | None) -> Op:
        """Put ``op`` between its new neighbors ``before`` and ``after``; None at the ends of the list."""
        if not isinstance(op, Op):
            raise ModelError(f"graph {shown(self.name)}: expected an operator, got {op!r}")
        if op.graph is not None:
            raise ModelError(f"{op!r} is in a graph already")
        op.graph, op.previous, op.next = self, before, after
        if before is None:
            self._first = op
        else:
            before.next = op
        if after is None:
            self._last = op
        else:
            after.previous = op
        self._count += 1
        self._listed = self._kinds = None
        self.epoch += 1
        for value in op.results:
            if not value.name:
                value.name = self.unique_name(type(op).__name__)
        self._reserve_names((*op.inputs, *op.results))
        return op

    def _expect(self, op: object) -> None:
        """Raise ModelError if ``op`` is not in this graph."""
        if not isinstance(op, Op) or op.graph is not self:
            raise ModelError(f"{op!r} is not in graph {shown(self.name)}")

    def remove(self, op: Op) -> None:
        """Remove ``op`` and its uses of operands.

        Raise ModelError if a result is used or is an output, or if ``op`` is not in this graph.
        """
        self._expect(op)
        for value in op.results:
            if value.use_count or self.is_output(value):
                raise ModelError(
                    f"{op.code} cannot be removed: its result %{value.name} is still used or an output"
                )
        self.unlink(op)
        op.drop_inputs()

    def unlink(self, op: Op) -> None:
        """Remove ``op`` from the graph but keep its operands, so that it can be inserted elsewhere.

        Raise ModelError if ``op`` is not in this graph.
        """
        self._expect(op)
        if op.previous is None:
            self._first = op.next
        else:
            op.previous.next = op.next
        if op.next is None:
            self._last = op.previous
        else:
            op.next.previous = op.previous
        op.graph = op.previous = op.next = None
        self._count -= 1
        self._listed = self._kinds = None
        self.epoch += 1

    def replace_uses(self, old: Value, new: Value) -> None:
        """Let every user of ``old`` use ``new`` instead; the graph's outputs stay as they are."""
        for op, index in old.uses:
            op.set_input(index, new)

    def can_stand_for(self, old: Value, new: Value) -> bool:
        """Return whether ``replace(old, new)`` keeps the inputs and outputs of the graph."""
        if not self.is_output(old):
            return True
        # ``old`` becomes the result of the producer of ``new``, and ``new`` leaves the graph
        return (
            old.producer is not None
            and new.producer is not None
            and not self.is_output(new)
            and not self.is_input(new)
            and not new.is_variable
        )

    def replace(self, old: Value, new: Value) -> None:
        """Replace every use of ``old`` by ``new``, whose producer must stand before the users of ``old``.

        If ``old`` is an output of the graph, ``old`` remains the output and keeps its name.  Then ``old``
        becomes the result of the producer of ``new``, and the users of ``new`` use ``old``.  Raise ModelError
        if ``can_stand_for`` is false.
        """
        if not self.is_output(old):
            self.replace_uses(old, new)
            return
        if not self.can_stand_for(old, new) or new.producer is None:
            raise ModelError(f"%{new.name} cannot take the place of output %{old.name}")
        new.producer.take_result(new.result_index, old)
        self.replace_uses(new, old)

    # -- names ---------------------------------------------------------------------------------

    def unique_name(self, base: str) -> str:
        """Return one of ``base``, ``base_1``, ``base_2``, ... that no value of the graph has as its name.

        A name that was returned once is not returned again.  After the first call, a new name that is
        assigned to the ``name`` of a value in the graph is not noticed.
        """
        if self._names is None:
            self._names = {v.name: 0 for v in self.values()}
        return unique_name(base, self._names)

    def _reserve_names(self, values: Iterable[Value | None]) -> None:
        """Keep ``unique_name`` from returning the names of ``values``, which are now in the graph."""
        if self._names is not None:
            for value in values:
                if value is not None:
                    self._names.setdefault(value.name, 0)

    def values(self) -> Iterator[Value]:
        """Return an iterator over every value once.

        The values of ``table`` come first, then the inputs, the operands and results of each operator, and
        the outputs.
        """
        found = dict.fromkeys((*self.table, *self._inputs))
        for op in self:
            found.update(dict.fromkeys(v for v in (*op.inputs, *op.results) if v is not None))
        return iter(found | dict.fromkeys(self._outputs))


def unique_name(base: str, taken: dict[str, int]) -> str:
    """Return one of ``base``, ``base_1``, ``base_2``, ... that is not in ``taken``, and add it to ``taken``.

    ``taken``: the names in use, each with the last number that was appended to it.
    """
    name = base
    while name in taken:  # the count continues from the last call, so the loop is short
        taken[base] += 1
        name = f"{base}_{taken[base]}"
    taken[name] = 0
    return name


def values_in(data: Any) -> Iterator[Value]:
    """Yield the values in ``data``, nested dicts and lists such as ``Op.extra``."""
    if isinstance(data, Value):
        yield data
    elif isinstance(data, Mapping | list | tuple):
        for item in data.values() if isinstance(data, Mapping) else data:
            yield from values_in(item)


def _value_tuple(side: str, values: Sequence[Value]) -> tuple[Value, ...]:
    """Return the inputs or outputs of a graph as a tuple; raise ModelError if they are not a list of values.

    ``side``: "inputs" or "outputs", for the message.
    """
    if isinstance(values, Value):
        raise ModelError(f"expected a list of {side}, got the value {values!r}")
    if not isinstance(values, Iterable):
        raise ModelError(f"expected a list of {side}, got {type(values).__name__}")
    listed = tuple(values)
    for value in listed:
        if not isinstance(value, Value):
            raise ModelError(f"expected a list of {side}, got a list with a {type(value).__name__}")
    return listed


Run = Callable[[Graph, Sequence[Array]], list[Array]]
"""A function that runs a graph on one array for each of its inputs, and returns its outputs."""
