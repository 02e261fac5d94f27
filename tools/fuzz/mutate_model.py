# SPDX-License-Identifier: Apache-2.0
"""Mutate a model through the schema: the file can mostly be decoded, but something is odd or huge."""

from __future__ import annotations

import random
import warnings
from collections import Counter
from collections.abc import Callable

from circlekit.io.read.flatbuffer_decoder import decode
from circlekit.io.read.load import load_bytes
from circlekit.io.schema import Table, Tree, table
from circlekit.io.write.flatbuffer_encoder import Encoder
from circlekit.io.write.save import to_bytes
from circlekit.ir.shape_inference import infer_shapes
from tools.fuzz.mutate_fields import World, any_field, tables
from tools.fuzz.mutate_operators import change_operator, drop_operator, insert_operators, ints
from tools.fuzz.mutate_tensors import constant, fit_constants, quantization, replace_everywhere

MAX_MUTATIONS = 5

MUTATIONS: dict[Callable[[World], None] | str, float] = {
    "*": 11, "*Options.*": 10, "Operator.inputs": 4, "Operator.outputs": 1.3, "SubGraph.inputs": 1,
    "SubGraph.outputs": 1, "SubGraph.operators": 2, "Tensor.shape*": 5, "Tensor.type": 2, "Sig*": 1,
    "*Quantization*": 1.5, replace_everywhere: 4, constant: 8, quantization: 3, "Buffer.*": 1,
    change_operator: 4, drop_operator: 3, insert_operators: 8,
}  # fmt: skip
"""Mutations with their weights; a text is a pattern of names: one field with such a name is changed."""


def mutate_model(data: bytes, fmt: str, rng: random.Random) -> tuple[bytes, list[str]]:
    """Return ``data``, the file of a valid model, with a few changes, and the names of the changes.

    Mostly, the data of constants are then made to fit their shapes and types.  Sometimes the shapes of
    results are dropped, or replaced by those that the operators infer.
    """
    world = World(decode(memoryview(data), fmt), fmt, rng)
    count = 1
    while count < MAX_MUTATIONS and rng.random() < 0.45:
        count += 1
    chosen = rng.choices(list(MUTATIONS), list(MUTATIONS.values()), k=count)
    done = []
    for mutation in chosen:
        if isinstance(mutation, str):
            any_field(world, mutation)
            done.append(mutation)
        else:
            mutation(world)
            done.append(mutation.__name__)
    for change, probability in ((fit_constants, 0.7), (forget_shapes, 0.3)):
        if rng.random() < probability:
            change(world)
            done.append(change.__name__)
    made = encode_shared(world.root, fmt)
    if rng.random() < 0.3:
        done.append("infer_shapes")
        made = with_inferred_shapes(made)
    return made, done


def forget_shapes(world: World) -> None:
    """Remove the shapes of all results, so that only shape inference notices contradictions."""
    for graph in world.trees("subgraphs"):
        known = graph.get("tensors") or []
        for operator in graph.get("operators") or []:
            for index in ints(operator, "outputs"):
                if 0 <= index < len(known):
                    known[index]["shape"] = []
                    known[index].pop("shape_signature", None)


def with_inferred_shapes(data: bytes) -> bytes:
    """Return the model with the shapes that its operators infer; ``data`` itself if any step fails."""
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
    except Exception:  # the run of the case meets the same error and reports it
        return data


class SharingEncoder(Encoder):
    """Encoder that writes each table only once: at its last occurrence in the tree.

    ``left``: {id of a table: the number of occurrences that are not written yet}.
    ``waiting``: {id of a table: the positions of the offsets that will refer to it}.
    """

    def __init__(self, fmt: str, root: Tree) -> None:
        super().__init__(fmt)
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
    """Encode ``tree``; a table that is one object in the tree is one table in the file."""
    return b"".join(SharingEncoder(fmt, tree).run(tree).pieces())
