# SPDX-License-Identifier: Apache-2.0
# Refused: %c: shape [2] cannot be reshaped for [2,3]

graph main(%x: f32[2,3]) -> %y {
  %c = const f32[2] [1.0, 2.0]
  %a = Reshape(%x, [3, 2])
  %b = Mul(%a, %c)
  %y = Reshape(%b, [2, 3])
}

rules {
  passes(remove_unnecessary_reshape)
  unchanged()
  refused("cannot be reshaped for [2,3]")
}
