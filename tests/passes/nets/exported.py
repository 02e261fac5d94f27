# SPDX-License-Identifier: Apache-2.0
"""A builder of networks as exporters from PyTorch write them.

Images are NCHW, with transposes around the operators that need NHWC, such as convolutions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlekit.ir.dtypes import f32
from circlekit.ir.enums import Activation, Padding
from circlekit.ir.graph import Graph, Model
from circlekit.ir.op import Op
from circlekit.ir.value import Value
from circlekit.ops.arithmetic.activation import Logistic, Relu
from circlekit.ops.arithmetic.binary import Add, Mul, SquaredDifference, Sub
from circlekit.ops.arithmetic.division import Div
from circlekit.ops.arithmetic.unary import Neg, Rsqrt
from circlekit.ops.convolution.conv import Conv2D, DepthwiseConv2D, TransposeConv
from circlekit.ops.convolution.pool import MaxPool2D
from circlekit.ops.matmul.dense import BatchMatMul, FullyConnected
from circlekit.ops.movement.join import Concatenation, Split
from circlekit.ops.movement.pad import Pad
from circlekit.ops.movement.resize_images import ResizeNearestNeighbor
from circlekit.ops.movement.shape import Reshape, Transpose
from circlekit.ops.movement.slice import Slice, StridedSlice
from circlekit.ops.reduction.normalization import Softmax
from circlekit.ops.reduction.reduce import Mean

NHWC, NCHW = (0, 2, 3, 1), (0, 3, 1, 2)
"""The permutations that turn an image into this layout."""


class Net:
    """A graph under construction; a method under "modules" appends the operators of one PyTorch module."""

    def __init__(self, seed: int, *shapes: Sequence[int]) -> None:
        self.random = np.random.default_rng(seed)
        self.inputs = [Value(f"x{i}", f32, tuple(shape)) for i, shape in enumerate(shapes)]
        self.graph = Graph("main", self.inputs)

    def add(self, op: Op) -> Value:
        self.graph.append(op)
        return op.output

    def model(self, *outputs: Value) -> Model:
        self.graph.outputs = outputs
        return Model([self.graph])

    def ints(self, *numbers: int) -> Value:
        return Value.constant(self.graph.unique_name("i"), np.array(numbers, np.int32))

    def floats(self, array: object) -> Value:
        return Value.constant(self.graph.unique_name("c"), np.asarray(array, np.float32))

    def weight(self, *shape: int) -> Value:
        fan_in = int(np.prod(shape[1:]))
        return self.floats(self.random.normal(0, 1 / np.sqrt(fan_in), shape))

    # -- modules -------------------------------------------------------------------------------

    def permute(self, x: Value, *perm: int) -> Value:
        return self.add(Transpose(x, self.ints(*perm)))

    def reshape(self, x: Value, *shape: int) -> Value:
        return self.add(Reshape(x, self.ints(*shape), new_shape=shape))

    def norm(self, x: Value) -> Value:
        """A batch norm at inference: factor and offset per channel."""
        shape = (1, x.static_shape[1], 1, 1)
        x = self.add(Mul(x, self.floats(self.random.uniform(0.5, 1.5, shape))))
        return self.add(Add(x, self.floats(self.random.normal(0, 0.5, shape))))

    def conv(self, x: Value, out: int, kernel: int = 3, stride: int = 1, bias: bool = False) -> Value:
        """A convolution, padded by kernel // 2: by SAME, or by a Pad if stride > 1; ``kernel`` is odd."""
        channels = x.static_shape[1]
        x = self.permute(x, *NHWC)
        same = kernel == 1 or stride == 1
        if not same:
            p = kernel // 2
            x = self.add(Pad(x, Value.constant("", np.array([[0, 0], [p, p], [p, p], [0, 0]], np.int32))))
        offset = self.weight(out) if bias else self.floats(np.zeros(out))
        padding = Padding.SAME if same and kernel > 1 else Padding.VALID
        w = self.weight(out, kernel, kernel, channels)
        x = self.add(Conv2D(x, w, offset, padding=padding, stride_h=stride, stride_w=stride))
        return self.permute(x, *NCHW)

    def depthwise(self, x: Value, kernel: int = 3, stride: int = 1) -> Value:
        """A depthwise convolution.  If stride > 1, the padding is 1, so ``kernel`` must be 3."""
        channels = x.static_shape[1]
        x = self.permute(x, *NHWC)
        if stride > 1:
            x = self.add(Pad(x, Value.constant("", np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32))))
        w = self.floats(self.random.normal(0, 1 / kernel, (1, kernel, kernel, channels)))
        padding = Padding.SAME if stride == 1 else Padding.VALID
        x = self.add(
            DepthwiseConv2D(
                x, w, self.floats(np.zeros(channels)), padding=padding, stride_h=stride, stride_w=stride,
                depth_multiplier=1,
            )
        )  # fmt: skip
        return self.permute(x, *NCHW)

    def upconv(
        self, x: Value, out: int, kernel: int, stride: int, padding: int = 0, bias: bool = False
    ) -> Value:
        """ConvTranspose2d: the full result, from which a Slice removes the padding, if there is any."""
        n, channels, h, w = x.static_shape
        x = self.permute(x, *NHWC)
        full = [(d - 1) * stride + kernel for d in (h, w)]
        filters = self.weight(out, kernel, kernel, channels)
        operands = [self.ints(n, *full, out), filters, x, *([self.weight(out)] if bias else [])]
        x = self.add(TransposeConv(*operands, padding=Padding.VALID, stride_h=stride, stride_w=stride))
        if padding:
            size = [d - 2 * padding for d in full]
            x = self.add(Slice(x, self.ints(0, padding, padding, 0), self.ints(n, *size, out)))
        return self.permute(x, *NCHW)

    def relu(self, x: Value) -> Value:
        return self.add(Relu(x))

    def cbr(self, x: Value, out: int, kernel: int = 3, stride: int = 1) -> Value:
        """Convolution, batch norm, ReLU."""
        return self.relu(self.norm(self.conv(x, out, kernel, stride)))

    def hard_swish(self, x: Value) -> Value:
        gate = self.add(Add(x, self.floats(3.0), act=Activation.RELU6))
        return self.add(Div(self.add(Mul(x, gate)), self.floats(6.0)))

    def pool(self, x: Value, kind: type[Op] = MaxPool2D) -> Value:
        x = self.permute(x, *NHWC)
        x = self.add(kind(x, padding=Padding.VALID, stride_h=2, stride_w=2, filter_height=2, filter_width=2))
        return self.permute(x, *NCHW)

    def upsample(self, x: Value) -> Value:
        h, w = (2 * d for d in x.static_shape[2:])
        x = self.add(ResizeNearestNeighbor(self.permute(x, *NHWC), self.ints(h, w)))
        return self.permute(x, *NCHW)

    def cat(self, *values: Value) -> Value:
        return self.add(Concatenation(*values, axis=1))

    def linear(self, x: Value, out: int) -> Value:
        w = self.weight(out, x.static_shape[-1])
        return self.add(FullyConnected(x, w, self.weight(out), keep_num_dims=True))

    def head(self, x: Value, classes: int = 5) -> Value:
        """Global mean, flatten, linear."""
        n, channels = x.static_shape[:2]
        mean = self.add(Mean(x, self.ints(-1, -2), keep_dims=True))
        return self.linear(self.reshape(mean, n, channels), classes)

    def layer_norm(self, x: Value) -> Value:
        last = x.static_shape[-1]
        mean = self.add(Mean(x, self.ints(-1), keep_dims=True))
        variance = self.add(Mean(self.add(SquaredDifference(x, mean)), self.ints(-1), keep_dims=True))
        root = self.add(Rsqrt(self.add(Add(variance, self.floats(1e-3)))))
        x = self.add(Mul(self.add(Sub(x, mean)), root))
        x = self.add(Mul(x, self.floats(self.random.uniform(0.5, 1.5, last))))
        return self.add(Add(x, self.floats(self.random.normal(0, 0.3, last))))

    def rms_norm(self, x: Value) -> Value:
        mean = self.add(Mean(self.add(Mul(x, x)), self.ints(-1), keep_dims=True))
        x = self.add(Mul(x, self.add(Rsqrt(self.add(Add(mean, self.floats(1e-3)))))))
        return self.add(Mul(x, self.floats(self.random.uniform(0.5, 1.5, x.static_shape[-1]))))

    def rope(self, x: Value, cos: Value, sin: Value) -> Value:
        half, big = x.static_shape[3] // 2, 2**31 - 1
        ones = self.ints(1, 1, 1, 1)
        lo = self.add(StridedSlice(x, self.ints(0, 0, 0, 0), self.ints(big, big, big, half), ones))
        hi = self.add(StridedSlice(x, self.ints(0, 0, 0, half), self.ints(big, big, big, big), ones))
        turned = self.add(Concatenation(self.add(Neg(hi)), lo, axis=-1))
        return self.add(Add(self.add(Mul(x, cos)), self.add(Mul(turned, sin))))

    def heads(self, x: Value, count: int) -> Value:
        """Linear layer [n, rows, width], split into ``count`` heads: [n, count, rows, width / count]."""
        n, rows, width = x.static_shape
        return self.permute(self.reshape(self.linear(x, width), n, rows, count, width // count), 0, 2, 1, 3)

    def matmul(self, a: Value, b: Value) -> Value:
        """The product of ``a`` and ``b``, of rank 4, as exporters write it: reshaped to rank 3 and back."""
        n, heads = a.static_shape[:2]
        flat = [self.reshape(v, n * heads, *v.static_shape[2:]) for v in (a, b)]
        y = self.add(BatchMatMul(*flat))
        return self.reshape(y, n, heads, *y.static_shape[1:])

    def attention(self, x: Value, count: int = 2, rows: int | None = 1) -> Value:
        """Self-attention; ``rows``: the rows of the rotary embedding's tables, None for no rotation."""
        q, k, v = (self.heads(x, count) for _ in range(3))
        depth = q.static_shape[3]
        if rows is not None:
            shape = (1, 1, rows, depth)
            cos, sin = (self.floats(self.random.uniform(-1, 1, shape)) for _ in range(2))
            q, k = self.rope(q, cos, sin), self.rope(k, cos, sin)
        scores = self.matmul(q, self.permute(k, 0, 1, 3, 2))
        scores = self.add(Mul(scores, self.floats(1 / np.sqrt(depth))))
        mixed = self.matmul(self.add(Softmax(scores, beta=1.0)), v)
        mixed = self.reshape(self.permute(mixed, 0, 2, 1, 3), *x.static_shape)
        return self.linear(mixed, x.static_shape[-1])

    def squeeze_excite(self, x: Value) -> Value:
        gate = self.add(Mean(x, self.ints(2, 3), keep_dims=True))
        channels = x.static_shape[1]
        gate = self.relu(self.conv(gate, max(2, channels // 4), 1, bias=True))
        return self.add(Mul(x, self.add(Logistic(self.conv(gate, channels, 1, bias=True)))))

    def shuffle(self, x: Value, groups: int) -> Value:
        n, c, h, w = x.static_shape
        x = self.permute(self.reshape(x, n, groups, c // groups, h, w), 0, 2, 1, 3, 4)
        return self.reshape(x, n, c, h, w)

    def chunk(self, x: Value) -> tuple[Value, Value]:
        """The two halves of the channels."""
        op = Split(self.ints(1), x, num_splits=2)
        self.add(op)
        return op.results[0], op.results[1]
