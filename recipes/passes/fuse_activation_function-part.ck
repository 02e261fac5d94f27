# SPDX-License-Identifier: Apache-2.0
# Far from it: one part of the concatenation can take no activation.

graph main(%x: f32[1,4]) -> %y {
  %a = Mul(%x, %x)
  %b = Tanh(%x)
  %c = Concatenation(%a, %b) {axis: 1}
  %y = Relu(%c)
}

rules {
  passes(fuse_activation_function)
  unchanged()
}
