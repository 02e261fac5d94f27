# SPDX-License-Identifier: Apache-2.0
# Done: PyTorch pads a max pool with the lowest number; LiteRT never takes padding for the maximum.

graph main(%x: f32[1,?,?,3]) -> %z {
  %p = PadV2(%x, [[0, 0], [2, 2], [2, 2], [0, 0]], -3.4028234663852886e+38)
  %a = MaxPool2D(%p) {padding: VALID, filter_height: 5, filter_width: 5}
  %r = Relu(%a)
  %q = Pad(%r, [[0, 0], [1, 1], [1, 1], [0, 0]])
  %z = MaxPool2D(%q) {padding: VALID, filter_height: 3, filter_width: 3}
}

rules {
  passes(fuse_pad)
  order(MaxPool2D, Relu, MaxPool2D)
}
