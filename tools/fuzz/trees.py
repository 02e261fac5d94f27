# SPDX-License-Identifier: Apache-2.0
"""Mutations of models through the schema: what comes out can be decoded, and says something odd."""

from __future__ import annotations

import random
import warnings
from collections import Counter
from collections.abc import Callable

from circlekit.io.read.flatbuffer_decoder import decode
from circlekit.io.read.load import load_bytes
from circlekit.io.schema import Kind, Table, Tree, table
from circlekit.io.write.flatbuffer_encoder import Encoder
from circlekit.io.write.save import to_bytes
from circlekit.ir.shape_inference import infer_shapes
from tools.fuzz import operators, tensors
from tools.fuzz.fields import World, mutate_field, tables

MOST = 5
"""Mutations of one model."""


def mutate_model(data: bytes, fmt: str, rng: random.Random) -> tuple[bytes, list[str]]:
    """A file like ``data``, a sound model, but with a few things changed; and what was done."""
    world = World(decode(memoryview(data), fmt), fmt, rng)
    done = some_mutations(world)
    if rng.random() < 0.3:
        forget_shapes(world)
        done.append("forget_shapes")
    out = encode_shared(world.root, fmt)
    if rng.random() < 0.3:
        done.append("settle")
        out = settled(out)
    return out, done


def some_mutations(world: World) -> list[str]:
    """One mutation or a few; which ones."""
    done = []
    for _ in range(_count(world.rng)):
        kind = world.rng.choices(list(_KINDS), [weight for weight, _ in _KINDS.values()])[0]
        _KINDS[kind][1](world)
        done.append(kind)
    return done


def _count(rng: random.Random) -> int:
    count = 1
    while count < MOST and rng.random() < 0.45:
        count += 1
    return count


# -- any field ---------------------------------------------------------------------------------


def any_field(world: World) -> None:
    """Some field of some table; every kind of table has the same chance."""
    rng = world.rng
    found: dict[str, list[tuple[Tree, Table]]] = {}
    for tree, spec in tables(world.root, table("Model", world.format), world.format):
        if spec.fields:
            found.setdefault(spec.name, []).append((tree, spec))
    tree, spec = rng.choice(found[rng.choice(sorted(found))])
    mutate_field(world, tree, spec, rng.choice(spec.fields))


def share_tables(world: World) -> None:
    """One table of a kind takes the place of another, and the file holds it once."""
    rng = world.rng
    spec = table("SubGraph", world.format)
    graph = world.graph()
    if graph is None:
        return
    name = rng.choice(("tensors", "operators"))
    parts = graph.get(name) or []
    if parts and spec.by_name[name].kind is Kind.TABLES:
        parts[rng.randrange(len(parts))] = rng.choice(parts)


def forget_shapes(world: World) -> None:
    """Results have no shape: what contradicts itself is not seen before the passes look at it."""
    for graph in world.trees("subgraphs"):
        known = graph.get("tensors") or []
        for operator in graph.get("operators") or []:
            for index in operators.ints(operator, "outputs"):
                if 0 <= index < len(known):
                    known[index]["shape"] = []
                    known[index].pop("shape_signature", None)


def settled(data: bytes) -> bytes:
    """The model with the shapes that its operators give; as it was where they give none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = load_bytes(data)
            for op in model.ops():
                for value in op.results:
                    if value.data is None:
                        value.shape = None
            infer_shapes(model)
            return to_bytes(model)
    except Exception:  # the run that follows meets the same error, and reports it
        return data


# -- tables that a file holds once -------------------------------------------------------------


class SharingEncoder(Encoder):
    """Writes a table that stands in several places once, where the last of them is."""

    def __init__(self, fmt: str, root: Tree) -> None:
        super().__init__(fmt, None)
        walk = list(tables(root, table("Model", fmt), fmt))
        self.left = Counter(id(tree) for tree, _ in walk)
        self.waiting: dict[int, list[int]] = {}

    def write_table(self, at: int, tree: Tree, spec: Table) -> None:
        self.left[id(tree)] -= 1
        if self.left[id(tree)] > 0:
            self.waiting.setdefault(id(tree), []).append(at)
            return
        super().write_table(at, tree, spec)
        place = at + int.from_bytes(self.out[at : at + 4], "little")
        for other in self.waiting.pop(id(tree), ()):
            self.out[other : other + 4] = (place - other).to_bytes(4, "little")


def encode_shared(tree: Tree, fmt: str) -> bytes:
    """The file of ``tree``; what is one table there is one table in the file."""
    return b"".join(SharingEncoder(fmt, tree).run(tree).pieces())


Mutation = Callable[[World], None]

_KINDS: dict[str, tuple[float, Mutation]] = {
    "field": (8, any_field),
    "shape": (4, tensors.change_shape),
    "rename_dimension": (2, tensors.rename_dimension),
    "type": (2, tensors.change_type),
    "rename_type": (1, tensors.rename_type),
    "constant": (8, tensors.change_constant),
    "quantization": (3, tensors.change_quantization),
    "copy_quantization": (0.5, tensors.copy_quantization),
    "sparsity": (0.7, tensors.sparsify),
    "share_buffer": (1, tensors.share_buffer),
    "move_buffer": (0.4, tensors.move_buffer),
    "variable": (0.5, tensors.make_variable),
    "unknown_shape": (2, tensors.unknown_shape),
    "code": (4, operators.change_code),
    "attribute": (8, operators.change_attribute),
    "drop_options": (1, operators.drop_options),
    "rewire": (4, operators.rewire),
    "rewire_results": (1.5, operators.rewire_results),
    "drop_operator": (3, operators.drop_operator),
    "repeat_operator": (2, operators.repeat_operator),
    "move_operator": (0.7, operators.move_operator),
    "insert_operator": (4, operators.insert_operator),
    "interface": (2, operators.change_interface),
    "add_graph": (0.4, operators.add_graph),
    "call_graph": (1.5, operators.call_graph),
    "signature": (1, operators.change_signature),
    "odd_codes": (1.5, operators.odd_codes),
    "share_tables": (0.5, share_tables),
}
