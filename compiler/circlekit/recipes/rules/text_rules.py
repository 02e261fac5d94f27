# SPDX-License-Identifier: Apache-2.0
"""Parse the blocks of rules that follow the graphs in a ``.ck`` recipe (a model as text).

    rules {
      passes(fuse_batchnorm_with_tconv)             # passes or pipelines
      ops(TransposeConv: 1, Mul: 0, Add: at_most(1))
      value(%y, dtype: f32, shape: [1,4,4,3])
    }

Each block is a test: the passes run on the model, and the rules must hold for the result.  A test
with passes also fails if the model is invalid before or after them, or if the interface or the values of the
model change, unless a pass changes them on purpose.

``SETTINGS`` and ``CHECKS`` hold all rules by name; docs/guide/recipe-rules.md describes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from operator import eq, ge, le

import numpy as np

from circlekit.errors import SEARCH_LIMIT_CHARACTERS, did_you_mean
from circlekit.io.schema import FORMATS
from circlekit.ir.dtypes import BY_SHORT
from circlekit.ir.graph import Graph, Model
from circlekit.ir.location import kind_of
from circlekit.ir.op import Attribute, Op, OpaqueOp
from circlekit.ir.text.columns import cut
from circlekit.ir.text.document import parse_document
from circlekit.ir.text.lexer import Source, quoted
from circlekit.ir.text.literal_parsing import attribute_of
from circlekit.ir.text.literal_printing import format_attribute, same_attribute
from circlekit.ir.text.syntax import Literal, ValueName
from circlekit.ir.value import Array, Value, format_shape
from circlekit.passes.engine.pass_settings import all_options
from circlekit.passes.engine.registry import unknown_pass
from circlekit.recipes.rules.rule import Call, Check, Rule, RuleBlock, Subject, show


def parse_text_rules(text: str, label: str) -> list[RuleBlock]:
    """Return the blocks of rules in ``text``, in order; raise ParseError for a wrong text or rule.

    ``label``: the name of the text, for errors.
    """
    source = Source(text, label)
    blocks = []
    for calls in parse_document(source).rules:
        block = RuleBlock()
        blocks.append(block)
        for arguments in calls:
            call = Call(source, arguments)
            if call.name in SETTINGS:
                SETTINGS[call.name](block, call)
            elif call.name in CHECKS:
                block.rules.append(Rule(call.place, call.text(), CHECKS[call.name](call)))
            else:
                known = [*SETTINGS, *CHECKS]
                near = did_you_mean(call.name, known) or f"; expected one of {', '.join(known)}"
                call.fail(f"no rule is named {call.name}{near}")
            if not call.has_read_names:
                call.named(())  # the rule has no named arguments
    return blocks


# -- settings: each function sets a field of ``block`` from the arguments of ``call`` ------------


def _passes(block: RuleBlock, call: Call) -> None:
    """Add passes: ``passes(NAME, ...)``."""
    names = call.words()
    unknown = next(filter(None, map(unknown_pass, names)), "")
    if unknown:
        call.fail(unknown)
    block.passes += tuple(names)


def _settings(block: RuleBlock, call: Call) -> None:
    """Set options of passes: ``settings(NAME: "VALUE", ...)``."""
    call.positional(0, 0)
    options = all_options()
    for name, literal in call.named(options).items():
        text = call.expect(literal, str, "strings in quotes")
        try:
            block.settings[name] = options[name].parse(text)
        except ValueError as error:
            call.fail(f"{name}: {error}")


def _format(block: RuleBlock, call: Call) -> None:
    """Set the format of the result: ``format(circle)``."""
    block.format = str(call.only())
    if block.format not in FORMATS:
        call.fail(f"expected format circle or tflite, got {show(block.format)}")


def _tolerance(block: RuleBlock, call: Call) -> None:
    """Set the tolerance: ``tolerance(0.01)``."""
    literal = call.only()
    if isinstance(literal, bool) or not isinstance(literal, int | float) or not 0 <= literal < 1:
        call.fail(f"expected a tolerance from 0 to below 1, got {show(literal)}")
    block.tolerance = float(literal)


SETTINGS: dict[str, Callable[[RuleBlock, Call], None]] = {
    "passes": _passes, "settings": _settings, "format": _format, "tolerance": _tolerance,
}  # fmt: skip
"""By name, the rules that say how a test is run."""


# -- checks of operators: each function makes a check from the arguments of ``call`` --------------


CONDITIONS: dict[str, Callable[[int, int], bool]] = {"": eq, "at most ": le, "at least ": ge}
"""The conditions that ``Call.amount`` returns, each as a function of the actual and the expected number."""


def _counted(amounts: Mapping[str, tuple[str, int]], count: Callable[[Model, str], int]) -> Check:
    """Return a check of numbers.  ``amounts``: {key: (condition, number)}, see ``Call.amount``.

    ``count``: returns the actual number for a model and a key.
    """

    def check(subject: Subject) -> Iterator[str]:
        """Yield a sentence for each wrong number."""
        for key, (condition, number) in amounts.items():
            actual = count(subject.model, key)
            if not CONDITIONS[condition](actual, number):
                yield f"expected {condition}{number} {key}, got {actual}"

    return check


def _ops(call: Call) -> Check:
    """Check the number of operators of a kind: ``ops(Add: 1, MUL: at_most(2))``."""
    codes = {name: call.kind(name) for name in call.amounts()}
    return _counted(call.amounts(), lambda model, name: sum(op.code == codes[name] for op in model.ops()))


def _custom(call: Call) -> Check:
    """Check the number of custom operators by their code: ``custom(Erf: 0)``."""
    amounts = {f"custom {name}": amount for name, amount in call.amounts().items()}

    def count(model: Model, key: str) -> int:
        """Return the number of custom operators NAME; ``key``: "custom NAME"."""
        customs = (op for op in model.ops() if isinstance(op, OpaqueOp) and op.code == "CUSTOM")
        return sum(f"custom {op.custom_code or ''}" == key for op in customs)

    return _counted(amounts, count)


def _total(call: Call) -> Check:
    """Check the number of all operators: ``total(3)``."""
    amounts = {"operators": call.amount(call.only())}
    return _counted(amounts, lambda model, _: sum(1 for _ in model.ops()))


def _order(call: Call) -> Check:
    """Check the kinds of the main graph's operators in order: ``order(Conv2D, Relu)``."""
    expected = [call.kind(word) for word in call.words()]

    def check(subject: Subject) -> Iterator[str]:
        """Yield a sentence if the main graph has other operators, or in another order."""
        if [op.code for op in subject.model.main] != expected:
            yield f"the operators are {', '.join(kind_of(op) for op in subject.model.main) or 'none'}"

    return check


# -- checks of values --------------------------------------------------------------------------


def _find(model: Model, name: str) -> Value | None:
    """Return the value named ``name`` in the first graph that has one; None if there is none."""
    return next((v for graph in model.graphs for v in graph.values() if v.name == name), None)


def _on_value(call: Call, failures: Callable[[Value, Model], Iterator[str]]) -> Check:
    """Return a check of the value that ``call`` names.

    ``failures``: a function of the value and its model that yields what is wrong with the value.
    """
    name = call.value()

    def check(subject: Subject) -> Iterator[str]:
        """Yield a sentence if there is no such value, and for each failure."""
        value = _find(subject.model, name)
        if value is None:
            near = did_you_mean(name, [v.name for graph in subject.model.graphs for v in graph.values()])
            yield f"no value is named {quoted('%', name)}{near}"
        else:
            yield from failures(value, subject.model)

    return check


def _value(call: Call) -> Check:
    """Check properties of a value: ``value(%y, dtype: f32, shape: [1,-1], const: false, op: Add)``."""
    arguments = call.named(("dtype", "shape", "const", "op"))
    dtype = arguments.get("dtype")
    if dtype is not None and (not isinstance(dtype, str) or dtype not in BY_SHORT):
        call.fail(f"no dtype is named {show(dtype)}{did_you_mean(show(dtype), BY_SHORT)}")
    shape = _shape(call, arguments["shape"]) if "shape" in arguments else None
    code = call.kind(show(arguments["op"])) if "op" in arguments else None
    const = call.expect(arguments["const"], bool, "true or false") if "const" in arguments else None

    def failures(value: Value, _: Model) -> Iterator[str]:
        """Yield a sentence for each property that differs."""
        if dtype is not None and value.dtype is not BY_SHORT[dtype]:
            yield f"its dtype is {value.dtype.short}"
        if shape is not None and value.shape != shape:
            yield f"its shape is {format_shape(value.shape)}"
        if const is not None and value.is_const != const:
            yield f"it is {'a' if value.is_const else 'not a'} constant"
        if code is not None and (value.producer is None or value.producer.code != code):
            yield f"its producer is {'none' if value.producer is None else kind_of(value.producer)}"

    return _on_value(call, failures)


def _shape(call: Call, literal: Literal) -> tuple[int | None, ...]:
    """Return the shape in the argument ``literal``, with None for -1 (an unknown dimension)."""
    dims = literal if isinstance(literal, list) else [None]  # [None] fails the check below
    if not all(type(d) is int and d >= -1 for d in dims):
        call.fail(f"expected a list of integers as shape, -1 for an unknown dimension, got {show(literal)}")
    return tuple(None if d == -1 else d for d in dims)  # type: ignore[misc]  # they are numbers


def _quant(call: Call) -> Check:
    """Check the quantization of a value: ``quant(%x, scale: 0.5, zero_point: 3)`` or ``quant(%x, none)``."""
    arguments = call.named(("scale", "zero_point", "axis"))
    literals = call.positional(1, 2)
    if len(literals) == 2:
        if literals[1] != "none" or arguments:
            call.fail("expected quant(%x, none) or quant(%x, scale: 0.5, zero_point: 3, axis: 0)")
        call.node.positional = literals[:1]  # drop ``none``: ``call.value`` takes one argument without a name
        return _on_value(call, lambda v, _: iter([] if v.quantization is None else ["it is quantized"]))
    numbers = {name: _numbers(call, literal) for name, literal in arguments.items()}

    def failures(value: Value, _: Model) -> Iterator[str]:
        """Yield a sentence for each parameter that differs."""
        q = value.quantization
        if q is None:
            yield "it is not quantized"
            return
        axis = np.array([q.quantized_dimension])
        parts: dict[str, Array] = {"scale": q.scale, "zero_point": q.zero_point, "axis": axis}
        for name, expected in numbers.items():
            actual = parts[name]
            if actual.size != expected.size or not np.allclose(actual, expected, rtol=1e-6, atol=0):
                yield f"its {name} is {', '.join(map(str, actual.tolist())) or 'empty'}"

    return _on_value(call, failures)


def _numbers(call: Call, literal: Literal) -> Array:
    """Return the number or the list of numbers in the argument ``literal`` as a float64 vector."""
    listed = literal if isinstance(literal, list) else [literal]
    if any(isinstance(x, bool) or not isinstance(x, int | float) for x in listed):
        call.fail(f"expected a number or a list of numbers, got {show(literal)}")
    try:
        return np.array(listed, np.float64)
    except OverflowError:
        call.fail("expected numbers that float64 can hold")


def _attributes(call: Call) -> Check:
    """Check attributes of the producer of a value: ``attributes(%y, stride_h: 2, padding: SAME)``."""
    arguments = call.some_named()

    def failures(value: Value, model: Model) -> Iterator[str]:
        """Yield a sentence for each attribute that differs."""
        op = value.producer
        if op is None:
            yield "it has no producer"
            return
        specs = {spec.name: spec for spec in op.attributes}
        graphs = {graph.name: graph for graph in model.graphs}
        for name, literal in arguments.items():
            if name not in specs:
                yield f"{kind_of(op)} has no attribute {name}{did_you_mean(name, specs)}"
            else:
                yield from _attribute(call, op, specs[name], literal, graphs)

    return _on_value(call, failures)


def _attribute(
    call: Call, op: Op, spec: Attribute, literal: Literal, graphs: Mapping[str, Graph]
) -> Iterator[str]:
    """Yield a sentence if the attribute ``spec`` of ``op`` differs from ``literal``.

    ``graphs``: the graphs of the model by name; ``literal`` names one as ``@name``.  Raise ParseError if
    ``literal`` cannot be a value of the attribute.
    """
    expected = attribute_of(spec, literal, graphs, call.fail)
    actual = getattr(op, spec.name)
    if not same_attribute(actual, expected):
        yield f"{spec.name} is {format_attribute(actual, lambda graph: '@' + graph.name)}"


def _absent(call: Call) -> Check:
    """Check that there are no values with these names: ``absent(%a, %b)``."""
    names = [str(call.expect(x, ValueName, "values (%name)")) for x in call.positional(1)]

    def check(subject: Subject) -> Iterator[str]:
        """Return an iterator with a sentence for each value that exists."""
        return (f"{quoted('%', n)} exists" for n in names if _find(subject.model, n) is not None)

    return check


# -- checks of the passes ----------------------------------------------------------------------


def _unchanged(call: Call) -> Check:
    """Check that the passes made no change: ``unchanged()``."""
    call.positional(0, 0)

    def check(subject: Subject) -> Iterator[str]:
        """Yield a sentence if there were changes."""
        if subject.changes:
            yield f"expected no changes, got {subject.changes}"

    return check


def _refused(call: Call) -> Check:
    """Check that some refusal of the passes contains a text: ``refused("has 2 users")``."""
    expected = call.expect(call.only(), str, "a string in quotes")
    if not expected:  # any refusal has it
        call.fail("refused: expected a text, got an empty one")

    def check(subject: Subject) -> Iterator[str]:
        """Yield the most similar refusals if none contains the text."""
        sentences = list(dict.fromkeys(subject.refusals()))
        if not any(expected in sentence for sentence in sentences):
            yield _most_similar(expected, sentences)

    return check


MAX_SIMILAR = 3
"""The largest number of refusals in the message when the rule ``refused`` fails."""

MAX_REFUSAL_CHARACTERS = 76
"""Refusals are cut to this length.  With the margin that the command ``dredd`` adds, they fit 80 columns."""


def _most_similar(expected: str, sentences: Sequence[str]) -> str:
    """Return a text: a first line, then the sentences that are most similar to ``expected``, one a line."""
    if not sentences:
        return "no operator was refused"
    beginnings = [cut(sentence, SEARCH_LIMIT_CHARACTERS) for sentence in sentences]  # bounds the time
    nearest = get_close_matches(expected, beginnings, MAX_SIMILAR, cutoff=0.0)
    count = len(sentences)
    head = "the only refusal is" if count == 1 else f"the most similar of the {count} refusals are"
    return "\n  ".join([f"{head}:", *(cut(sentence, MAX_REFUSAL_CHARACTERS) for sentence in nearest)])


CHECKS: dict[str, Callable[[Call], Check]] = {
    "ops": _ops, "custom": _custom, "total": _total, "order": _order, "value": _value, "quant": _quant,
    "attributes": _attributes, "absent": _absent, "unchanged": _unchanged, "refused": _refused,
}  # fmt: skip
"""By name, the rules that check the result."""
