# SPDX-License-Identifier: Apache-2.0
# Two transposes that undo each other; the first one has a second user, so it stays.

graph main(%x: f32[1,2,3,4]) -> %y, %z {
  %1 = Transpose(%x, [0,2,3,1])
  %2 = Transpose(%1, [0,3,1,2])
  %y = Relu(%2)
  %z = Tanh(%1)
}

rules {
  passes(remove_redundant_transpose)
  order(Transpose, Relu, Tanh)
}
