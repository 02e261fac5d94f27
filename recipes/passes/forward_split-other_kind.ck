# SPDX-License-Identifier: Apache-2.0
# Refused: %b: is read by Reshape %tb, expected Transpose

graph main(%x: f32[2,6,8]) -> %z {
  %a, %b = Split(2, %x) {num_splits: 2}
  %ta = Transpose(%a, [1, 0, 2])
  %tb = Reshape(%b, [6, 2, 4])
  %z = Sub(%tb, %ta)
}

rules {
  passes(forward_split)
  unchanged()
  refused("%b: is read by Reshape %tb, expected Transpose")
}
