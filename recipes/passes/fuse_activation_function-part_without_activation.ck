# SPDX-License-Identifier: Apache-2.0
# Partial match: one part of the concatenation comes from an operator without a fused activation.

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
