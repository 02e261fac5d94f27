# SPDX-License-Identifier: Apache-2.0
"""Small variants of well-known networks, as exporters from PyTorch write them.

Each function returns a model with random weights, which follow from ``seed``.  The methods of ``Net`` append
layers: ``cbr`` is a convolution, a batch norm and a ReLU; ``upconv`` is a transposed convolution.
"""

from __future__ import annotations

from collections.abc import Callable

from circlekit.ir.graph import Model
from circlekit.ops.arithmetic.activation import Logistic, Relu6, Tanh
from circlekit.ops.arithmetic.binary import Add, Mul
from circlekit.ops.convolution.pool import AveragePool2D
from tests.passes.nets.exported import Net


def resnet(seed: int) -> Model:
    net = Net(seed, (1, 3, 16, 16))
    x = net.pool(net.cbr(net.inputs[0], 8, stride=2))
    for out, stride in ((8, 1), (16, 2)):
        y = net.norm(net.conv(net.cbr(x, out, stride=stride), out))
        if stride > 1 or seed % 2:
            x = net.norm(net.conv(x, out, 1, stride))
        x = net.relu(net.add(Add(y, x)))
    return net.model(net.head(x))


def mobilenet_v2(seed: int) -> Model:
    net = Net(seed, (1, 3, 16, 16))
    x = net.add(Relu6(net.norm(net.conv(net.inputs[0], 8, stride=2))))
    for out, stride in ((8, 1), (8, 1), (12, 2)):
        y = net.add(Relu6(net.norm(net.conv(x, 24, 1))))
        y = net.add(Relu6(net.norm(net.depthwise(y, stride=stride))))
        y = net.norm(net.conv(y, out, 1))
        x = net.add(Add(x, y)) if stride == 1 else y
    return net.model(net.head(x))


def mobilenet_v3(seed: int) -> Model:
    net = Net(seed, (1, 3, 16, 16))
    x = net.hard_swish(net.norm(net.conv(net.inputs[0], 8, stride=2)))
    for out in (8, 8):
        y = net.hard_swish(net.norm(net.conv(x, 16, 1)))
        y = net.squeeze_excite(net.hard_swish(net.norm(net.depthwise(y))))
        x = net.add(Add(x, net.norm(net.conv(y, out, 1))))
    return net.model(net.head(x))


def unet(seed: int) -> Model:
    net = Net(seed, (1, 3, 16, 16))
    a = net.cbr(net.inputs[0], 6)
    b = net.cbr(net.pool(a), 8)
    c = net.cbr(net.pool(b, AveragePool2D), 12)
    y = net.relu(net.norm(net.upconv(c, 8, 4, 2, 1)))
    y = net.cbr(net.cat(b, y), 8)
    y = net.relu(net.norm(net.upconv(y, 6, 2, 2, bias=True)))
    y = net.cbr(net.cat(y, a), 6)
    return net.model(net.conv(y, 2, 1, bias=True))


def dcgan(seed: int) -> Model:
    net = Net(seed, (1, 10, 1, 1))
    x = net.relu(net.norm(net.upconv(net.inputs[0], 12, 4, 1)))
    x = net.relu(net.norm(net.upconv(x, 8, 4, 2, 1)))
    return net.model(net.add(Tanh(net.upconv(x, 3, 4, 2, 1, bias=True))))


def inception(seed: int) -> Model:
    net = Net(seed, (1, 3, 12, 12))
    x = net.cbr(net.inputs[0], 8)
    branches = [net.cbr(x, 4, 1), net.cbr(net.cbr(x, 4, 1), 6), net.cbr(net.cbr(net.cbr(x, 3, 1), 4), 4)]
    return net.model(net.head(net.pool(net.cat(*branches))))


def shufflenet(seed: int) -> Model:
    net = Net(seed, (1, 3, 8, 8))
    x = net.cbr(net.inputs[0], 8)
    for _ in range(2):
        left, right = net.chunk(x)
        right = net.norm(net.depthwise(net.cbr(right, 4, 1)))
        x = net.shuffle(net.cat(left, net.cbr(right, 4, 1)), 2)
    return net.model(net.head(x))


def group_convolution(seed: int) -> Model:
    net = Net(seed, (1, 8, 8, 8))
    left, right = net.chunk(net.inputs[0])
    x = net.relu(net.norm(net.cat(net.conv(left, 4), net.conv(right, 4))))
    return net.model(net.cbr(x, 4))


def transformer(seed: int) -> Model:
    net = Net(seed, (1, 6, 8))
    x = net.inputs[0]
    x = net.add(Add(x, net.attention(net.rms_norm(x))))
    return net.model(net.add(Add(x, net.linear(net.relu(net.linear(net.layer_norm(x), 16)), 8))))


def vision_transformer(seed: int) -> Model:
    net = Net(seed, (1, 3, 12, 12))
    x = net.conv(net.inputs[0], 8, 1, bias=True)
    x = net.permute(net.reshape(net.pool(net.pool(x)), 1, 8, 9), 0, 2, 1)
    x = net.add(Add(x, net.attention(net.layer_norm(x), rows=None)))
    return net.model(net.layer_norm(x))


def convnext(seed: int) -> Model:
    """Layer norm and linear layers over the channels, in NHWC between two transposes."""
    net = Net(seed, (1, 4, 8, 8))
    x = net.inputs[0]
    for _ in range(2):
        y = net.layer_norm(net.permute(net.depthwise(x), 0, 2, 3, 1))
        y = net.linear(net.relu(net.linear(y, 8)), 4)
        x = net.add(Add(x, net.permute(y, 0, 3, 1, 2)))
    return net.model(net.head(x))


def pyramid(seed: int) -> Model:
    """Three outputs at three sizes."""
    net = Net(seed, (1, 3, 16, 16))
    a = net.cbr(net.inputs[0], 8, stride=2)
    b = net.cbr(a, 8, stride=2)
    top = net.conv(b, 6, 1, bias=True)
    low = net.add(Add(net.conv(a, 6, 1, bias=True), net.upsample(top)))
    return net.model(net.conv(top, 6, bias=True), net.conv(low, 6, bias=True), net.head(b))


def densenet(seed: int) -> Model:
    """Each batch norm comes before a ReLU, so it cannot be fused into the layer after it."""
    net = Net(seed, (1, 3, 8, 8))
    x = net.conv(net.inputs[0], 4)
    for _ in range(3):
        x = net.cat(x, net.conv(net.relu(net.norm(x)), 4))
    return net.model(net.head(net.relu(net.norm(x))))


def gated(seed: int) -> Model:
    """Two convolutions, one the gate of the other, then pixel shuffle."""
    net = Net(seed, (1, 4, 6, 6))
    x = net.inputs[0]
    x = net.add(Mul(net.norm(net.conv(x, 8)), net.add(Logistic(net.norm(net.conv(x, 8))))))
    x = net.reshape(x, 1, 2, 2, 2, 6, 6)
    return net.model(net.reshape(net.permute(x, 0, 1, 4, 2, 5, 3), 1, 2, 12, 12))


ZOO: dict[str, Callable[[int], Model]] = {
    f.__name__: f
    for f in (
        resnet, mobilenet_v2, mobilenet_v3, unet, dcgan, inception, shufflenet, group_convolution,
        transformer, vision_transformer, convnext, pyramid, densenet, gated,
    )
}  # fmt: skip
