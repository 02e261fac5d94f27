# SPDX-License-Identifier: Apache-2.0
# Refused: the batch norm follows Relu, and there is no product to fold it into.

graph main(%x: f32[1,6,6,3]) -> %y {
  %w = const f32[4,3,3,3] gaussian(0, 0.3)
  %mean = const f32[4] uniform(-1, 1)
  %deviation = const f32[4] uniform(0.5, 2)
  %a = Conv2D(%x, %w, none)
  %r = Relu(%a)
  %c = Sub(%r, %mean)
  %y = Div(%c, %deviation)
}

rules {
  passes(fold_batch_norms)
  unchanged()
  refused("comes from Relu")
}
