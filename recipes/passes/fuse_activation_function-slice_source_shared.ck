# SPDX-License-Identifier: Apache-2.0
# Refused: the operand of the Slice has other users.

graph main(%x: f32[1,4,4,2]) -> %y, %z {
  %a = Mul(%x, %x)
  %b = Slice(%a, [0,1,1,0], [1,2,2,2])
  %y = Relu(%b)
  %z = Tanh(%a)
}

rules {
  passes(fuse_activation_function)
  unchanged()
  refused("has other users, or is an output of the graph, and must not be changed")
}
