# SPDX-License-Identifier: Apache-2.0
# Refused: %x: is not constant, expected const

graph main(%in: f32[2,3]) -> %y {
  %x = Neg(%in)
  %z = Div(1.0, %x)
  %y = Abs(%z)
}

rules {
  passes(remove_unnecessary_div)
  unchanged()
  refused("is not constant")
}
