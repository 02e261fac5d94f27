# SPDX-License-Identifier: Apache-2.0
"""Channel moves are found exactly where the elements show that each channel is a channel of an input."""

from __future__ import annotations

import numpy as np
import pytest

import circlekit
from circlekit.index_maps.unknown_dim import MAX_CHANNELS
from circlekit.ir.value import Array
from circlekit.passes.layout.channel_moves import ChannelMoves

SHAPES = {"x": (2, 3, 4), "z": (2, 3, 2)}

BODIES = [
    "%y = Transpose(%x, [0,1,2])",
    "%y = ReverseV2(%x, [2])",
    "%y = ReverseV2(%x, [1])",
    "%y = Slice(%x, [0,0,1], [2,3,2])",
    "%y = Slice(%x, [0,1,0], [2,2,4])",
    "%y = Gather(%x, [3,1]) {axis: 2}",
    "%y = Tile(%x, [1,1,2])",
    "%y = Tile(%x, [1,2,1])",
    "%y = Concatenation(%x, %z) {axis: 2}",
    "%y = Concatenation(%x, %z) {axis: -1}",
    "%y = Concatenation(%x, %x) {axis: 1}",
    "%a = Concatenation(%z, %z) {axis: 2} %y = Concatenation(%a, %x) {axis: 2}",
    "%a, %b = Split(2, %x) {num_splits: 2} %y = Concatenation(%b, %z, %a) {axis: 2}",
    "%a = Reshape(%x, [2,3,2,2]) %b = Transpose(%a, [0,1,3,2]) %y = Reshape(%b, [2,3,4])",
    "%a = Reshape(%x, [2,3,2,2]) %b = Transpose(%a, [0,2,1,3]) %y = Reshape(%b, [2,3,4])",
    "%a = Reshape(%x, [3,2,4]) %y = Reshape(%a, [2,3,4])",
    "%a = Transpose(%x, [1,0,2]) %y = Transpose(%a, [1,0,2])",
    "%a = Transpose(%x, [1,0,2]) %y = Reshape(%a, [2,3,4])",
    "%a = Pack(%x, %x) {values_count: 2, axis: 3} %y = Reshape(%a, [2,3,8])",
    "%a = Pack(%x, %x) {values_count: 2, axis: 2} %y = Reshape(%a, [2,3,8])",
    "%a = Pack(%x, %x) {values_count: 2, axis: 1} %y = Reshape(%a, [2,3,8])",
    "%a = Reshape(%x, [24]) %b = ReverseV2(%a, [0]) %y = Reshape(%b, [2,3,4])",
    "%a = Reshape(%x, [2,12]) %b = Slice(%a, [0,1], [2,6]) %y = Reshape(%b, [2,3,2])",
    "%a = Reshape(%x, [6,4]) %b = ReverseV2(%a, [1]) %y = Reshape(%b, [2,3,4])",
    "%y = ExpandDims(%x, 3)",
    "%y = Reshape(%x, [2,3,2,2])",
    "%y = Reshape(%x, [6,4])",
]


def moves_channels(result: Array, inputs: dict[str, Array]) -> bool:
    """Return whether ``result`` has the leading dimensions of the inputs, and only channels of theirs."""
    known = {array[..., k].tobytes() for array in inputs.values() for k in range(array.shape[-1])}
    channels = {result[..., k].tobytes() for k in range(result.shape[-1])}
    return result.shape[:-1] == SHAPES["x"][:-1] and channels <= known


@pytest.mark.parametrize("body", BODIES)
def test_channels_are_those_that_the_elements_show(body: str) -> None:
    numbers = np.arange(36, dtype=np.int32)
    inputs = {"x": numbers[:24].reshape(SHAPES["x"]), "z": numbers[24:].reshape(SHAPES["z"])}
    head = "graph main(%x: i32[2,3,4], %z: i32[2,3,2]) -> "
    graph = circlekit.parse(f"{head}%y {{ {body} }}").main
    names = [value.name for op in graph for value in op.results]
    text = f"{head}{', '.join(f'%{name}' for name in names)} {{ {body} }}"
    results = circlekit.run(circlekit.parse(text), list(inputs.values()))
    arrays = dict(zip(names, map(np.asarray, results), strict=True)) | inputs
    sources = {value.name: channels for value, channels in ChannelMoves(graph).sources.items()}
    for name in names:
        assert name in sources or not moves_channels(arrays[name], inputs), name
        for k, (value, number) in enumerate(sources.get(name, ())):
            np.testing.assert_array_equal(arrays[name][..., k], arrays[value.name][..., number])
    last = graph.outputs[0].name
    assert (last in sources) == moves_channels(arrays[last], inputs)


@pytest.mark.parametrize(
    ("channels", "moves"), [(MAX_CHANNELS // 2, 1), (MAX_CHANNELS // 2 + 1, 0), (1 << 29, 0)]
)
def test_more_channels_than_the_limit_are_not_looked_at(channels: int, moves: int) -> None:
    shape = f"f32[{channels}]"
    text = f"graph main(%x: {shape}, %z: {shape}) -> %y {{ %y = Concatenation(%x, %z) {{axis: 0}} }}"
    assert len(ChannelMoves(circlekit.parse(text).main).sources) == moves
