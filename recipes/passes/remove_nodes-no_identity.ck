# SPDX-License-Identifier: Apache-2.0
# Left alone: the Reshape changes the shape, and the Cast rounds.

graph main(%x: f32[2,4]) -> %y {
  %a = Reshape(%x, [4,2])
  %b = Cast(%a) : i32[4,2]
  %c = Cast(%b) : f32[4,2]
  %y = Neg(%c)
}

rules {
  passes(remove_nodes)
  unchanged()
}
