# SPDX-License-Identifier: Apache-2.0
"""Models as PyTorch exporters write them, as texts by name; the shared exports of TICO."""

from __future__ import annotations

from tests.conftest import SHARED

TICO = sorted((SHARED / "models/tico").glob("*.circle"))

# The permutations to channels last (NHWC) and to channels first (NCHW).  A layer of PyTorch has NCHW data;
# exporters write it as an NHWC layer between two transposes.
LAST, FIRST = "[0, 2, 3, 1]", "[0, 3, 1, 2]"

EXPORTS = {
    "channel shuffle": f"""graph main(%x: f32[1,4,6,6]) -> %y {{
        %g = Reshape(%x, [1, 2, 2, 6, 6])
        %t = Transpose(%g, [0, 2, 1, 3, 4])
        %s = Reshape(%t, [1, 4, 6, 6])
        %w = const f32[1,3,3,4] gaussian(0, 0.3)
        %n = Transpose(%s, {LAST})
        %d = DepthwiseConv2D(%n, %w, [0.1, 0.2, 0.3, 0.4]) {{depth_multiplier: 1}}
        %c = Transpose(%d, {FIRST})
        %y = Add(%c, %x) {{act: RELU}}
    }}""",
    "pixel shuffle": f"""graph main(%x: f32[1,3,5,4]) -> %y {{
        %n = Transpose(%x, {LAST})
        %w = const f32[8,3,3,3] gaussian(0, 0.3)
        %b = const f32[8] gaussian(0, 1)
        %d = Conv2D(%n, %w, %b) {{act: RELU}}
        %c = Transpose(%d, {FIRST})
        %r = Reshape(%c, [1, 2, 2, 2, 5, 4])
        %t = Transpose(%r, [0, 1, 4, 2, 5, 3])
        %y = Reshape(%t, [1, 2, 10, 8])
    }}""",
    "reflection padding and instance norm": f"""graph main(%x: f32[1,3,8,8]) -> %y {{
        %n = Transpose(%x, {LAST})
        %p = MirrorPad(%n, [[0,0],[1,1],[1,1],[0,0]]) {{mode: REFLECT}}
        %w = const f32[4,3,3,3] gaussian(0, 0.3)
        %d = Conv2D(%p, %w, [0.1, 0.2, 0.3, 0.4]) {{padding: VALID}}
        %i = InstanceNorm(%d, [1.0, 2.0, 0.5, 1.5], [0.1, 0.2, 0.3, 0.4]) {{epsilon: 1e-5}}
        %r = Relu(%i)
        %y = Transpose(%r, {FIRST})
    }}""",
    "instance norm of elementary operators": """graph main(%x: f32[1,4,6,6]) -> %y {
        %m = Mean(%x, [2, 3]) {keep_dims: true}
        %d = Sub(%x, %m)
        %q = Mul(%d, %d)
        %v = Mean(%q, [2, 3]) {keep_dims: true}
        %e = Add(%v, 1e-5)
        %r = Rsqrt(%e)
        %n = Mul(%d, %r)
        %g = const f32[1,4,1,1] gaussian(1, 0.1)
        %b = const f32[1,4,1,1] gaussian(0, 0.1)
        %s = Mul(%n, %g)
        %y = Add(%s, %b)
    }""",
    "grouped convolution": f"""graph main(%x: f32[1,8,6,6]) -> %y {{
        %n = Transpose(%x, {LAST})
        %w = const f32[8,3,3,2] gaussian(0, 0.3)
        %b = const f32[8] gaussian(0, 1)
        %d = Conv2D(%n, %w, %b)
        %c = Transpose(%d, {FIRST})
        %a = HardSwish(%c)
        %y = Add(%a, %x)
    }}""",
    "dilated convolutions": f"""graph main(%x: f32[1,2,9,9]) -> %y {{
        %n = Transpose(%x, {LAST})
        %w = const f32[3,3,3,2] gaussian(0, 0.3)
        %v = const f32[3,3,3,2] gaussian(0, 0.3)
        %a = Conv2D(%n, %w, [0.1, 0.2, 0.3]) {{dilation_h: 2, dilation_w: 2}}
        %p = Pad(%n, [[0,0],[3,3],[3,3],[0,0]])
        %b = Conv2D(%p, %v, [0.1, 0.2, 0.3]) {{padding: VALID, dilation_h: 3, dilation_w: 3}}
        %ac = Transpose(%a, {FIRST})
        %bc = Transpose(%b, {FIRST})
        %y = Concatenation(%ac, %bc) {{axis: 1}}
    }}""",
    "split": """graph main(%x: f32[1,8,6,6]) -> %y {
        %a, %b, %c = SplitV(%x, [2, 4, 2], 1) {num_splits: 3}
        %d, %e = Split(1, %b) {num_splits: 2}
        %s = Logistic(%a)
        %t = Mul(%s, %d)
        %u = PRelu(%e, [[[0.25]]])
        %v = Add(%t, %u)
        %w = ReluN1To1(%c)
        %y = Concatenation(%v, %w) {axis: 1}
    }""",
    "resize": f"""graph main(%x: f32[1,3,5,6]) -> %y {{
        %n = Transpose(%x, {LAST})
        %a = ResizeNearestNeighbor(%n, [10, 12])
        %b = ResizeBilinear(%n, [10, 12]) {{half_pixel_centers: true}}
        %s = Sub(%a, %b)
        %y = Transpose(%s, {FIRST})
    }}""",
    "transposed convolution": f"""graph main(%x: f32[1,4,5,5]) -> %y {{
        %n = Transpose(%x, {LAST})
        %w = const f32[3,4,4,4] gaussian(0, 0.3)
        %f = TransposeConv([1, 12, 12, 3], %w, %n, [0.1, 0.2, 0.3])
            {{padding: VALID, stride_h: 2, stride_w: 2}}
        %s = Slice(%f, [0, 1, 1, 0], [1, 10, 10, 3])
        %t = Transpose(%s, {FIRST})
        %y = Tanh(%t)
    }}""",
    "padding of five axes": """graph main(%x: f32[1,2,3,4,5]) -> %y {
        %p = PadV2(%x, [[0,0],[0,0],[1,1],[1,0],[0,0]], -1.5)
        %s = Slice(%p, [0, 0, 0, 1, 0], [1, 2, 5, 4, 5])
        %m = Mean(%s, [3, 4]) {keep_dims: true}
        %y = Sub(%s, %m)
    }""",
    "layer norm and linear layers": """graph main(%x: f32[2,7,8]) -> %y {
        %w = const f32[16,8] gaussian(0, 0.3)
        %v = const f32[8,16] gaussian(0, 0.3)
        %m = Mean(%x, [-1]) {keep_dims: true}
        %d = Sub(%x, %m)
        %q = Mul(%d, %d)
        %r = Mean(%q, [-1]) {keep_dims: true}
        %e = Add(%r, 1e-5)
        %i = Rsqrt(%e)
        %n = Mul(%d, %i)
        %f = FullyConnected(%n, %w, none) {keep_num_dims: true}
        %g = Gelu(%f)
        %h = FullyConnected(%g, %v, none) {keep_num_dims: true}
        %s = Softmax(%h) {beta: 1.0}
        %y = Transpose(%s, [0, 2, 1])
    }""",
    "dropped axes, cumulative sums": """graph main(%x: f32[1,3,6,5]) -> %y {
        %m = Mean(%x, [2, 3])
        %n = ReduceMin(%x, [1, 3])
        %c = Cumsum(%x, 1)
        %s = Sum(%c, [2])
        %a = Reshape(%m, [1, 3, 1])
        %b = Mul(%s, %a)
        %e = Reshape(%n, [1, 6, 1])
        %d = Tile(%e, [1, 1, 5])
        %y = Concatenation(%b, %d) {axis: 1}
    }""",
    "vectors, and an output that is read": """graph main(%x: f32[8]) -> %h, %y {
        %w = const f32[4,8] gaussian(0, 0.3)
        %v = const f32[2,2,4,4] gaussian(0, 0.3)
        %f = FullyConnected(%x, %w, none) {keep_num_dims: true}
        %h = Tanh(%f)
        %g = BroadcastTo(%h, [2, 2, 4, 4])
        %p = BatchMatMul(%v, %g)
        %s = Sign(%p)
        %y = Mul(%s, %p)
    }""",
    "paddings and means of five axes": """graph main(%x: f32[1,2,3,4,5]) -> %y {
        %p = Pad(%x, [[0,0],[1,0],[0,0],[0,1],[2,2]])
        %m = Mean(%p, [1, 3]) {keep_dims: true}
        %y = SquaredDifference(%p, %m)
    }""",
}
