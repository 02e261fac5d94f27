# SPDX-License-Identifier: Apache-2.0
# Refused: its channels are also read elsewhere

graph main(%x: f32[2,5,4]) -> %y {
  %w = const f32[4,4] gaussian(0, 0.3)
  %q = FullyConnected(%x, %w) {keep_num_dims: true}
  %t = Transpose(%q, [0,2,1])
  %m = BatchMatMul(%q, %t)
  %y = Mul(%m, 0.5)
}

rules {
  passes(forward_number)
  unchanged()
  refused("its channels are also read elsewhere")
}
