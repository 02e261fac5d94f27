# SPDX-License-Identifier: Apache-2.0
# Refused: %ta: the parts are not moved alike along axis 2 by Reshape

graph main(%x: f32[2,6,8]) -> %z {
  %a, %b = Split(2, %x) {num_splits: 2}
  %ta = Reshape(%a, [8, 6])
  %tb = Reshape(%b, [8, 6])
  %z = Sub(%tb, %ta)
}

rules {
  passes(forward_split)
  unchanged()
  refused("%ta: the parts are not moved alike along axis 2 by Reshape")
}
