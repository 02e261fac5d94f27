# SPDX-License-Identifier: Apache-2.0
# Partial match: another part of the split is used without the activation.

graph main(%x: f32[2,4]) -> %y, %b {
  %m = Mul(%x, %x)
  %a, %b = Split(0, %m) {num_splits: 2}
  %y = Relu(%a)
}

rules {
  passes(fuse_activation_function)
  unchanged()
}
