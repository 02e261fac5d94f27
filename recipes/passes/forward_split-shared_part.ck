# SPDX-License-Identifier: Apache-2.0
# Refused: %a: expected one use, got 2

graph main(%x: f32[2,6,8]) -> %z, %n {
  %a, %b = Split(2, %x) {num_splits: 2}
  %ta = Transpose(%a, [1, 0, 2])
  %tb = Transpose(%b, [1, 0, 2])
  %n = Neg(%a)
  %z = Sub(%tb, %ta)
}

rules {
  passes(forward_split)
  unchanged()
  refused("%a: expected one use, got 2")
}
