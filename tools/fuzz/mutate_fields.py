# SPDX-License-Identifier: Apache-2.0
"""Mutate single fields of a decoded file, by their kind in the schema."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

import numpy as np

from circlekit.io.schema import Field, Kind, Table, Tree, enumeration, table
from circlekit.io.tables import UNIONS

RANGES = {
    "?": (0, 1), "b": (-(2**7), 2**7 - 1), "B": (0, 2**8 - 1), "h": (-(2**15), 2**15 - 1),
    "H": (0, 2**16 - 1), "i": (-(2**31), 2**31 - 1), "I": (0, 2**32 - 1),
    "q": (-(2**63), 2**63 - 1), "Q": (0, 2**64 - 1),
}  # fmt: skip
"""{code of a boolean or integer type, as in ``struct``: (lowest number, highest number)}."""

FLOATS = (
    0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, -1e-38, 1e-6, 3.4e38, -3.4e38, float("nan"), float("inf"),
    float("-inf"),
)  # fmt: skip
LARGE = (127, 128, 255, 256, 32767, 32768, 65535, 65536, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1)
TEXTS = (
    "", "x", "a" * 100_000, "\0", "é\udcff", '"', "%s{0}", "main", "../../../etc/passwd", "a\r\nerror: b",
    "\x1b[31mred\x1b[0m", "\u202eevil", "/dev/zero", "'\"`$(x)", "x/y//z", "--O1", "%x: f32[1]", "%x",
    "serving_default", "FlexAdd", "MaxPoolWithArgmax", "TFLite_Detection_PostProcess",
    "Convolution2DTransposeBias",
)  # fmt: skip
COUNTED = {"buffer": "buffers", "opcode_index": "operator_codes", "debug_metadata_index": "metadata"}
"""{name of a field that holds an index: the vector of Model that it indexes}."""

TENSOR_INDICES = ("inputs", "outputs", "intermediates", "tensor_index")
"""Names of fields that hold indices of tensors."""


@dataclass
class World:
    """A file that is being mutated, and the source of random choices."""

    root: Tree
    format: str
    rng: random.Random

    def trees(self, name: str) -> list[Tree]:
        """Return the tables in the vector ``name`` of Model."""
        found: list[Tree] = self.root.get(name) or []
        return found

    def graph(self) -> Tree | None:
        """Return a subgraph, most often the first; None if there are none."""
        graphs = self.trees("subgraphs")
        if not graphs:
            return None
        return graphs[0] if self.rng.random() < 0.7 else self.rng.choice(graphs)

    def parts(self, vector: str) -> list[Tree]:
        """Return the tables in ``vector`` (``tensors``, ``operators``) of a subgraph, see ``graph``."""
        found: list[Tree] = (self.graph() or {}).get(vector) or []
        return found

    def part(self, vector: str) -> Tree | None:
        """Return a random one of ``parts``; None if there are none."""
        parts = self.parts(vector)
        return self.rng.choice(parts) if parts else None

    def count(self, field: str) -> int | None:
        """Return how many items an index in ``field`` may refer to; None if ``field`` holds no index."""
        if field in TENSOR_INDICES:
            return max((len(g.get("tensors") or ()) for g in self.trees("subgraphs")), default=0)
        if "subgraph" in field:
            return len(self.trees("subgraphs"))
        return len(self.trees(COUNTED[field])) if field in COUNTED else None


def tables(tree: Tree, spec: Table, fmt: str) -> Iterator[tuple[Tree, Table]]:
    """Yield ``tree`` and every table below it, with its declaration in the schema."""
    yield tree, spec
    for name, value in tree.items():
        item = spec.by_name.get(name)
        if item is None or value is None:
            continue
        if item.kind is Kind.TABLES:
            for child in value:
                yield from tables(child, table(item.table, fmt), fmt)
        elif item.kind is Kind.TABLE:
            yield from tables(value, table(item.table, fmt), fmt)
        elif item.kind is Kind.UNION:
            yield from tables(value, table(value[""], fmt), fmt)


def any_field(world: World, pattern: str) -> None:
    """Change a field whose name, such as ``Tensor.shape``, matches ``pattern``.

    The kind of table is drawn before the table, so that all kinds are equally likely.
    """
    found: dict[str, list[tuple[Tree, Table]]] = {}
    for tree, spec in tables(world.root, table("Model", world.format), world.format):
        if matching(spec.name, world.format, pattern):
            found.setdefault(spec.name, []).append((tree, spec))
    if found:
        tree, spec = world.rng.choice(found[world.rng.choice(sorted(found))])
        mutate_field(world, tree, spec, world.rng.choice(matching(spec.name, world.format, pattern)))


@cache
def matching(name: str, fmt: str, pattern: str) -> list[Field]:
    """Return the fields of the table ``name`` whose names, such as ``Tensor.shape``, match ``pattern``."""
    return [item for item in table(name, fmt).fields if fnmatchcase(f"{name}.{item.name}", pattern)]


def mutate_field(world: World, tree: Tree, spec: Table, item: Field) -> None:
    """Change or remove one field of ``tree``."""
    name = item.name.removesuffix("_type") if item.kind is Kind.UNION_TYPE else item.name
    if name in tree and world.rng.random() < 0.1:
        del tree[name]
    elif item.kind is Kind.SCALAR:
        tree[name] = scalar(world, item, tree.get(name, item.default))
    elif item.kind is Kind.STRING:
        tensors = [t for graph in world.trees("subgraphs") for t in graph.get("tensors") or ()]
        known = [t["name"] for t in tensors if t.get("name")] or TEXTS
        tree[name] = world.rng.choice((world.rng.choice(known), world.rng.choice(TEXTS)))
    elif item.kind is Kind.VECTOR:
        values = vector(world, item, tree.get(name))
        tree[name] = np.array(values, np.uint8) if item.is_data else values
    elif item.kind is Kind.TABLE:
        tree[name] = some_table(world, item.table)
    elif item.kind is Kind.TABLES:
        _change_tables(world, tree, item)
    else:
        _change_union(world, tree, name, item)


def scalar(world: World, item: Field, old: Any) -> Any:
    """Return another value of a scalar: a name of its enum, an index, or an extreme number."""
    rng = world.rng
    if item.enum is not None and rng.random() < 0.85:
        return rng.choice(list(item.enum.numbers))
    if item.code == "?":
        return not old
    if item.code in "fd":
        return rng.choice((*FLOATS, rng.uniform(-4, 4), -old if isinstance(old, float) else 0.1))
    count = world.count(item.name)
    if count is not None and rng.random() < 0.8:
        return within(item.code, rng.randrange(-2, count + 2))
    number = old if isinstance(old, int) else 0
    near = number + rng.choice((-1, 1, 2, number, -number // 2, -2 * number))
    extreme = rng.choice((1, -1)) * rng.choice(LARGE)
    return within(item.code, rng.choice((rng.randrange(-4, 9), rng.randrange(-4, 9), near, extreme)))


def within(code: str, value: int) -> int:
    low, high = RANGES[code]
    return min(max(value, low), high)


def vector(world: World, item: Field, old: Any) -> list[Any]:
    """Return another vector: empty, shorter, longer, reordered, or with another element."""
    rng = world.rng
    if hasattr(old, "tolist"):
        old = old.tolist()
    values = [] if old is None else list(old)
    del values[65536:]
    kind = rng.randrange(9)
    if kind == 0:
        return values[: rng.randrange(len(values) + 1)]
    if kind == 1 and values:
        return values + values[-1:] * rng.choice((1, 3))
    if kind == 2:
        return rng.sample(values, len(values))
    if kind == 3 or not values:
        return [scalar(world, item, 0) for _ in range(rng.choice((0, 1, 2, 3, 4, 5, 9, 40)))]
    if kind == 4:
        return [*values, scalar(world, item, 0)]
    at = rng.randrange(len(values))
    values[at] = scalar(world, item, values[at])
    return values


def some_table(world: World, name: str) -> Tree:
    """Return a table with a few random fields."""
    spec = table(name, world.format)
    tree: Tree = {}
    for item in spec.fields:
        is_plain = item.kind in (Kind.SCALAR, Kind.VECTOR, Kind.STRING) and not item.is_data
        if is_plain and world.rng.random() < 0.6:
            mutate_field(world, tree, spec, item)
    return tree


def _change_tables(world: World, tree: Tree, item: Field) -> None:
    """Add, drop, repeat, swap or replace a table in a vector."""
    rng = world.rng
    trees: list[Tree] = tree.setdefault(item.name, [])
    kind = rng.randrange(6)
    if not trees or kind == 0:
        trees.insert(rng.randrange(len(trees) + 1), some_table(world, item.table))
    elif kind == 1:
        del trees[rng.randrange(len(trees))]
    elif kind == 2:
        trees.append(dict(rng.choice(trees)))
    elif kind == 3:
        trees.append(rng.choice(trees))  # the same table: the file holds it once
    elif kind == 4:
        i, j = rng.randrange(len(trees)), rng.randrange(len(trees))
        trees[i], trees[j] = trees[j], trees[i]
    else:
        trees[rng.randrange(len(trees))] = rng.choice(trees)


def _change_union(world: World, tree: Tree, name: str, item: Field) -> None:
    """Replace the member of a union by a random one or by a type without a table, or remove it.

    A new member keeps the fields that it has in common with the old one, or gets random fields.
    """
    rng = world.rng
    assert item.enum is not None
    known = enumeration(item.enum.name, world.format).numbers
    members = [row[0] for row in UNIONS[item.enum.name] if row[0] in known and known[row[0]]]
    member = rng.choice(members)
    old = tree.pop(name, None)
    kind = rng.random()
    if kind < 0.4 and old is not None:
        before, after = table(old[""], world.format).by_name, table(member, world.format).by_name
        kept = {k: v for k, v in old.items() if k in after and after[k] == before[k]}
        tree[name] = {**kept, "": member}
    elif kind < 0.9:
        tree[name] = {**some_table(world, member), "": member}
    elif kind < 0.95:
        tree[name + "_type"] = member
