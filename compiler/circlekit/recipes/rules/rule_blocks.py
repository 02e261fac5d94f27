# SPDX-License-Identifier: Apache-2.0
"""Blocks of rules in the text of a recipe, after its graphs.

    rules {
      passes(fuse_batchnorm_with_tconv)             # passes or pipelines
      ops(TransposeConv: 1, Mul: 0, Add: at_most(1))
      value(%y, dtype: f32, shape: [1,4,4,3])
    }

Each block is a test.  Every test also checks that the model is valid before and after the passes, keeps its
interface, and computes the same values.

    passes(NAME, ...)                run these passes, in this order, before the rules are checked
    settings(NAME: "TEXT", ...)      options of the passes, written as on the command line
    format(circle | tflite)          format of the result; by default that of the recipe
    tolerance(1e-4)                  allowed difference of float results, relative to the largest magnitude
    ops(KIND: AMOUNT, ...)           number of operators of a kind (class or schema's name) in all graphs
    custom(NAME: AMOUNT, ...)        number of custom operators of a name
    total(AMOUNT)                    number of operators in all graphs
    order(KIND, ...)                 the kinds of all operators of the main graph, in order
    value(%x, ...)                   %x exists, with dtype: f32, shape: [1,-1,3], const: true, op: Relu
    quant(%x, ...)                   scale, zero_point and axis of %x; quant(%x, none): it is not quantized
    attributes(%x, NAME: VALUE, ...) attributes of the operator that computes %x
    absent(%x, ...)                  no graph has a value of this name
    unchanged()                      the passes change nothing
    refused("text")                  a near miss of the passes is refused with a sentence that has the text

An AMOUNT is an integer, at_most(3) or at_least(1).  A dimension of -1 is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from circlekit.errors import near_miss
from circlekit.io.schema import FORMATS
from circlekit.ir.text.document import parse_document
from circlekit.ir.text.lexer import Source
from circlekit.passes.engine.registry import all_options
from circlekit.recipes.rules.rule import Call, Rule, show
from circlekit.recipes.rules.rule_checks import CHECKS


@dataclass
class RuleBlock:
    """One ``rules { }``.  ``format`` and ``tolerance`` are None if the block does not set them."""

    passes: tuple[str, ...] = ()
    format: str | None = None
    tolerance: float | None = None
    rules: list[Rule] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)


def parse_text_rules(text: str, label: str) -> list[RuleBlock]:
    """Return the blocks of rules of a text, in order; ParseError for an invalid rule."""
    source = Source(text, label)
    blocks = []
    for node in parse_document(source).rules:
        block = RuleBlock()
        blocks.append(block)
        for arguments in node.calls:
            call = Call(source, arguments)
            if call.name in SETTINGS:
                SETTINGS[call.name](block, call)
            elif call.name in CHECKS:
                block.rules.append(Rule(call.place, call.text(), CHECKS[call.name](call)))
            else:
                known = [*SETTINGS, *CHECKS]
                near = near_miss(call.name, known) or f"; expected one of {', '.join(known)}"
                call.fail(f"no rule is named {call.name}{near}")
    return blocks


# -- settings ----------------------------------------------------------------------------------


def _passes(block: RuleBlock, call: Call) -> None:
    block.passes += tuple(call.words())


def _settings(block: RuleBlock, call: Call) -> None:
    call.positional(0, 0)
    options = all_options()
    for name, literal in call.named(options).items():
        text = call.of(literal, str, "texts in quotes")
        try:
            block.settings[name] = options[name].parse(text)
        except ValueError as error:
            call.fail(f"{name}: {error}")


def _format(block: RuleBlock, call: Call) -> None:
    (block.format,) = call.words()[:1]
    if block.format not in FORMATS:
        call.fail(f"expected format circle or tflite, got {block.format}")


def _tolerance(block: RuleBlock, call: Call) -> None:
    literal = call.positional(1, 1)[0]
    if isinstance(literal, bool) or not isinstance(literal, int | float) or not 0 <= literal < 1:
        call.fail(f"expected a tolerance from 0 to below 1, got {show(literal)}")
    block.tolerance = float(literal)


SETTINGS: dict[str, Callable[[RuleBlock, Call], None]] = {
    "passes": _passes,
    "settings": _settings,
    "format": _format,
    "tolerance": _tolerance,
}
