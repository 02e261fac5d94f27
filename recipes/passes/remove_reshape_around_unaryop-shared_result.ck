# SPDX-License-Identifier: Apache-2.0
# Refused: %b: has 2 users, some outside of the Reshapes

graph main(%x: f32[2,3,4]) -> %y, %c {
  %a = Neg(%x)
  %b = Reshape(%a, [6, 4])
  %c = Exp(%b)
  %d = Add(%b, 0.5)
  %e = Reshape(%d, [24])
  %y = Neg(%e)
}

rules {
  passes(remove_reshape_around_unaryop)
  unchanged()
  refused("has 2 users, some outside of the Reshapes")
}
