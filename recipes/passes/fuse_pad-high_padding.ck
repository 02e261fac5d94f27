# SPDX-License-Identifier: Apache-2.0
# Refused: a padding of -1 exceeds smaller elements.

graph main(%x: f32[1,8,8,3]) -> %z {
  %p = PadV2(%x, [[0, 0], [1, 1], [1, 1], [0, 0]], -1.0)
  %z = MaxPool2D(%p) {padding: VALID, filter_height: 3, filter_width: 3}
}

rules {
  passes(fuse_pad)
  unchanged()
  refused("expected the lowest float32 or -inf, got -1")
}
