# SPDX-License-Identifier: Apache-2.0
# Refused: %ta: the parts are not moved alike along axis 2 by Transpose

graph main(%x: f32[2,2,8]) -> %z {
  %a, %b = Split(2, %x) {num_splits: 2}
  %ta = Transpose(%a, [1, 0, 2])
  %tb = Transpose(%b, [0, 1, 2])
  %z = Sub(%tb, %ta)
}

rules {
  passes(forward_split)
  unchanged()
  refused("%ta: the parts are not moved alike along axis 2 by Transpose")
}
