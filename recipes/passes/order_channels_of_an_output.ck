# SPDX-License-Identifier: Apache-2.0
# RELU computes the output, which has another reader after SQUEEZE.

graph main(%x: f32[2,2]) -> %s, %n {
  %t = Transpose(%x, [0, 1])
  %r = Relu(%t)
  %s = Split(1, %r) {num_splits: 1}
  %q = Squeeze(%s)
  %n = Neg(%q)
}

rules {
  passes(order_channels)
  ops(Relu: 1, Neg: 1, Split: 0, Squeeze: 0)
}
