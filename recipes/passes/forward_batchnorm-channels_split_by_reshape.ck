# SPDX-License-Identifier: Apache-2.0
# Refused: the Reshape splits the channels.

graph main(%x: f32[1,6,6,3]) -> %y {
  %w = const f32[4,3,3,3] gaussian(0, 0.3)
  %a = Conv2D(%x, %w, none)
  %b = Reshape(%a, [18,4,2])
  %y = Mul(%b, [2.0, 3.0])
}

rules {
  passes(forward_batchnorm)
  unchanged()
  refused("expected the channels of [1,6,6,4], got shape [18,4,2]")
}
