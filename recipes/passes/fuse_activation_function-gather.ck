# SPDX-License-Identifier: Apache-2.0
# Done: RELU after a GATHER, which only moves elements, is fused into the operator before it.

graph main(%x: f32[3,4]) -> %y {
  %a = Mul(%x, %x)
  %b = Gather(%a, [2, 0])
  %y = Relu(%b)
}

rules {
  passes(fuse_activation_function)
  order(Mul, Gather)
}
