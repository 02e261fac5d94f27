# SPDX-License-Identifier: Apache-2.0
# Done: after a fully connected layer x - c, x / c and c - x become sums and products.

graph main(%x: f32[2,3]) -> %y {
  %w = const f32[4,3] gaussian(0, 0.3)
  %c = const f32[4] uniform(1, 2)
  %a = FullyConnected(%x, %w, none)
  %b = Sub(%a, %c)
  %d = Div(%b, %c)
  %y = Sub(%c, %d) {act: RELU}
}

rules {
  passes(normalize_batchnorm)
  order(FullyConnected, Add, Mul, Mul, Add)
}
