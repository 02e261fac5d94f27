# SPDX-License-Identifier: Apache-2.0
# Refused: the zeros of the padding would not get the offset.

graph main(%x: f32[1,6,6,3]) -> %y {
  %w = const f32[4,3,3,3] gaussian(0, 0.3)
  %a = Conv2D(%x, %w, none)
  %p = Pad(%a, [[0,0],[1,1],[1,1],[0,0]])
  %y = Add(%p, [1.0, -1.0, 2.0, 0.5])
}

rules {
  passes(forward_batchnorm)
  unchanged()
  refused("%p: pads with zeros, which do not get the offset")
}
