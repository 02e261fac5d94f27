# SPDX-License-Identifier: Apache-2.0
# Done: between three layouts, Add takes one of them, so that two transposes suffice.

graph main(%a: f32[2,3,4,5], %b: f32[3,4,5,2]) -> %y {
  %s = Transpose(%a, [0,2,3,1])
  %t = Transpose(%b, [3,1,2,0])
  %m = Add(%s, %t)
  %y = Transpose(%m, [3,2,1,0])
}

rules {
  passes(optimize_layout)
  ops(Transpose: 2, Add: 1)
}
