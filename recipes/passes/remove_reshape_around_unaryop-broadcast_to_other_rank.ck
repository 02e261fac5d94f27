# SPDX-License-Identifier: Apache-2.0
# Refused: %c: is broadcast to another rank

graph main(%x: f32[2,3,4]) -> %y {
  %a = Neg(%x)
  %b = Reshape(%a, [6, 4])
  %c = Mul(%b, [[[2.0]]])
  %d = Reshape(%c, [24])
  %y = Neg(%d)
}

rules {
  passes(remove_reshape_around_unaryop)
  unchanged()
  refused("another rank")
}
