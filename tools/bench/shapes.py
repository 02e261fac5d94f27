# SPDX-License-Identifier: Apache-2.0
"""Models of any number of operators, as text: chains, trees and wide graphs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from string import Template

import circlekit

SCALAR = "quant(scale: 0.05, zero_point: 0)"
CHANNELS = "quant(scale: [{}], zero_point: [0, 0, 0, 0], axis: 0)"
CONV = "%c$n = Conv2D(%$x, %w$n, %b$n) {padding: SAME}"
CONSTANTS = """
    %w$n = const f32[4,1,1,4] uniform(0.1, 0.5)
    %b$n = const f32[4] uniform(0.1, 0.5)
    %s$n = const f32[4] uniform(0.1, 0.5)
    %t$n = const f32[4] uniform(0.1, 0.5)
"""

CHAINS = {
    "conv": f"""{CONSTANTS} {CONV}
        %m$n = Mul(%c$n, %s$n)
        %a$n = Add(%m$n, %t$n)
        %r$n = Relu(%a$n)""",
    "nchw": f"""{CONSTANTS}
        %s${{n}}c = const f32[4,1,1] uniform(0.1, 0.5)
        %t${{n}}c = const f32[4,1,1] uniform(0.1, 0.5)
        %h$n = Transpose(%$x, [0, 2, 3, 1])
        {CONV.replace("$x", "h$n")}
        %u$n = Transpose(%c$n, [0, 3, 1, 2])
        %m$n = Mul(%u$n, %s${{n}}c)
        %r$n = Add(%m$n, %t${{n}}c)""",
    "elementwise": """
        %l$n = LeakyRelu(%$x) {alpha: 0.1}
        %r$n = Tanh(%l$n)""",
    "residual": """
        %t$n = Tanh(%$x)
        %r$n = Add(%$x, %t$n)""",
    "lstm": """
        %w$n = const f32[16,8] uniform(0.1, 0.5)
        %b$n = const f32[16] uniform(0.1, 0.5)
        %j$n = Concatenation(%$x, %x) {axis: 3}
        %d$n = FullyConnected(%j$n, %w$n, %b$n) {keep_num_dims: true}
        %i$n, %f$n, %g$n, %o$n = Split(3, %d$n) {num_splits: 4}
        %lf$n = Logistic(%f$n)
        %cell$n = Mul(%lf$n, %$x)
        %li$n = Logistic(%i$n)
        %tg$n = Tanh(%g$n)
        %new$n = Mul(%li$n, %tg$n)
        %lo$n = Logistic(%o$n)
        %sum$n = Add(%cell$n, %new$n)
        %ts$n = Tanh(%sum$n)
        %r$n = Mul(%lo$n, %ts$n)""",
    "quantized": f"""
        %w$n = const i8[4,1,1,4] {CHANNELS.format("0.001, 0.002, 0.004, 0.008")} uniform(-127, 127)
        %b$n = const i32[4] {CHANNELS.format("0.00005, 0.0001, 0.0002, 0.0004")} [1, 2, 3, 4]
        %q$n = Quantize(%$x) : i8[1,4,4,4] {SCALAR}
        {CONV.replace("$x", "q$n")} : i8[1,4,4,4] {SCALAR}
        %a$n = Relu(%c$n) : i8[1,4,4,4] {SCALAR}
        %r$n = Dequantize(%a$n)""",
}
"""One step of a chain: ``$n`` is its number, ``$x`` the result of the step before, ``r$n`` its result."""

BRANCHES = f"""{CONSTANTS}
    %h$n = Transpose(%x, [0, 2, 3, 1])
    {CONV.replace("$x", "h$n")}
    %a$n = Relu(%c$n)
    %r$n = Transpose(%a$n, [0, 3, 1, 2])"""
LEAF = "%s$n = const f32[4] uniform(0.1, 0.5)\n%r$n = Mul(%$x, %s$n)"
CALL = "%r$n = If(%flag, %$x) {then_graph: @then$n, else_graph: @else$n}"
CALLED = """graph $name(%x: f32[1,4,4,4]) -> %y {
    %s = const f32[4] uniform(0.1, 0.5)
    %t = Tanh(%x)
    %y = Mul(%t, %s)
}"""

SHAPES = (*CHAINS, "tree", "factors", "concat", "branches", "graphs")


def build(shape: str, size: int) -> circlekit.Model:
    """Return a model of about ``size`` operators."""
    lines: list[str] = []
    outputs, called, inputs = [], [], "%x: f32[1,4,4,4]"
    if shape in CHAINS:
        outputs = list(repeated(lines, CHAINS[shape], size // CHAINS[shape].count("(%")))[-1:]
    elif shape == "tree":
        waiting = deque(repeated(lines, LEAF, size // 2, "x"))
        while len(waiting) > 1:
            first, second = waiting.popleft(), waiting.popleft()
            waiting.append(f"sum{len(waiting)}")
            lines.append(f"%{waiting[-1]} = Add(%{first}, %{second})")
        outputs = list(waiting)
    elif shape == "factors":
        lines.append(Template(CONSTANTS + CONV).substitute(n="", x="x"))
        outputs = list(repeated(lines, LEAF, size - 1, "c"))
    elif shape == "concat":
        leaves = ", ".join(f"%{name}" for name in repeated(lines, LEAF, size - 1, "x"))
        lines.append(f"%all = Concatenation({leaves}) {{axis: 3}}")
        outputs = ["all"]
    elif shape == "branches":
        outputs = list(repeated(lines, BRANCHES, size // 4, "x"))
    else:
        inputs += ", %flag: bool[1]"
        outputs = list(repeated(lines, CALL, size // 5))[-1:]
        names = (f"{kind}{number}" for number in range(size // 5) for kind in ("then", "else"))
        called = [Template(CALLED).substitute(name=name) for name in names]
    results = ", ".join(f"%{name}" for name in outputs)
    main = "\n".join([f"graph main({inputs}) -> {results} {{", *lines, "}"])
    return circlekit.parse("\n".join(["model circle", main, *called]))


def repeated(lines: list[str], step: str, steps: int, source: str | None = None) -> Iterator[str]:
    """Append ``step`` so many times and yield its results; each reads ``source``, or the last result."""
    template, last = Template(step), "x"
    for number in range(steps):
        lines.append(template.substitute(n=number, x=source or last))
        last = f"r{number}"
        yield last
