# SPDX-License-Identifier: Apache-2.0
# Refused: a padding of 0 exceeds negative elements.

graph main(%x: f32[1,8,8,3]) -> %z {
  %p = Pad(%x, [[0, 0], [1, 1], [1, 1], [0, 0]])
  %z = MaxPool2D(%p) {padding: VALID, filter_height: 3, filter_width: 3}
}

rules {
  passes(fuse_pad)
  unchanged()
  refused("%x: may be negative, so the padding may exceed it")
}
