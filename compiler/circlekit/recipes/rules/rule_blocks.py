# SPDX-License-Identifier: Apache-2.0
"""The rules in the text of a recipe, behind its graphs.

    rules {
      passes(fuse_batchnorm_with_tconv)             # what to run; may be names of pipelines
      ops(TransposeConv: 1, Mul: 0, Add: at_most(1))
      value(%y, dtype: f32, shape: [1,4,4,3])
    }

Each block is a test of its own.  What is not said is the same for all tests: the model is sound before and
after, keeps its interface, and computes the same values.

    passes(NAME, ...)                what is run before the rules are checked, in this order
    settings(NAME: "TEXT", ...)      options of the passes, written as on the command line
    format(circle | tflite)          what the result is written as; by default the format of the model
    tolerance(1e-4)                  how far float results may differ, as a part of the largest magnitude
    ops(KIND: AMOUNT, ...)           operators of that kind in all graphs, by class or by the schema's name
    custom(NAME: AMOUNT, ...)        custom operators of that name
    total(AMOUNT)                    operators in all graphs
    order(KIND, ...)                 the kinds of all operators of the main graph, in order
    value(%x, ...)                   it exists, with dtype: f32, shape: [1,-1,3], const: true, op: Relu
    quant(%x, ...)                   its scale, zero_point, axis; quant(%x, none): it has none
    attributes(%x, NAME: VALUE, ...) of the operator that makes %x
    absent(%x, ...)                  there is no such value in any graph
    unchanged()                      the passes find nothing to do
    refused("text")                  some near miss of the passes is refused with a sentence that holds this

An AMOUNT is a whole number, at_most(3) or at_least(1).  A dimension of -1 is an unknown one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from circlekit.errors import near_miss
from circlekit.io.schema import FORMATS
from circlekit.ir.text.document import RulesNode, parse_document
from circlekit.ir.text.lexer import Source
from circlekit.passes.engine.registry import all_options
from circlekit.recipes.rules.rule import Outcome, Rule, Subject
from circlekit.recipes.rules.rule_call import Call, show
from circlekit.recipes.rules.rule_checks import CHECKS, Check
from circlekit.rewrite.base import Option


@dataclass
class RuleBlock:
    """One ``rules { }``.  ``format`` and ``tolerance`` are None where it does not say."""

    passes: tuple[str, ...] = ()
    format: str | None = None
    tolerance: float | None = None
    rules: list[Rule] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TextRule(Rule):
    """``text``: as it is written."""

    place: str
    text: str
    failures: Check

    def check(self, subject: Subject) -> Outcome:
        found = list(self.failures(subject))
        return Outcome(self.place, self.text, not found, "; ".join(found) or "holds")


def parse_text_rules(text: str, label: str) -> list[RuleBlock]:
    """The blocks of rules of a text, in order; ParseError for what no rule can be."""
    source = Source(text, label)
    return [_Block(source, node).read() for node in parse_document(source).rules]


class _Block:
    """Reads one block: what it sets, and what it checks."""

    def __init__(self, source: Source, node: RulesNode) -> None:
        self.source = source
        self.node = node
        self.block = RuleBlock()

    def read(self) -> RuleBlock:
        for call in self.node.calls:
            self.read_call(Call(self.source, call))
        return self.block

    def read_call(self, call: Call) -> None:
        if call.name in SETTINGS:
            SETTINGS[call.name](self.block, call)
        elif call.name in CHECKS:
            self.block.rules.append(TextRule(call.place, call.text(), CHECKS[call.name](call)))
        else:
            known = [*SETTINGS, *CHECKS]
            near = near_miss(call.name, known) or f"; there are {', '.join(known)}"
            call.fail(f"there is no rule {call.name}{near}")


# -- settings ----------------------------------------------------------------------------------


def _passes(block: RuleBlock, call: Call) -> None:
    block.passes += tuple(call.words())


def _settings(block: RuleBlock, call: Call) -> None:
    call.positional(0, 0)
    options = all_options()
    for name, literal in call.named(options).items():
        block.settings[name] = _parsed(call, options[name], call.of(literal, str, 'texts in "",'))


def _parsed(call: Call, option: Option, text: str) -> Any:
    try:
        return option.parse(text)
    except ValueError as error:
        call.fail(f"{option.name}: {error}")


def _format(block: RuleBlock, call: Call) -> None:
    (block.format,) = call.words()[:1]
    if block.format not in FORMATS:
        call.fail(f"the format is circle or tflite, not {block.format}")


def _tolerance(block: RuleBlock, call: Call) -> None:
    literal = call.positional(1, 1)[0]
    if isinstance(literal, bool) or not isinstance(literal, int | float) or not 0 <= literal < 1:
        call.fail(f"a tolerance is a number from 0 to below 1, not {show(literal)}")
    block.tolerance = float(literal)


SETTINGS: dict[str, Callable[[RuleBlock, Call], None]] = {
    "passes": _passes,
    "settings": _settings,
    "format": _format,
    "tolerance": _tolerance,
}
