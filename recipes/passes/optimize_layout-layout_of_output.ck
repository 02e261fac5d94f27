# SPDX-License-Identifier: Apache-2.0
# Refused: %m: an output keeps its layout (Add in another layout needs a transpose to it)

graph main(%a: f32[2,3,4,5], %b: f32[3,4,5,2]) -> %y, %m {
  %s = Transpose(%a, [0,2,3,1])
  %t = Transpose(%b, [3,1,2,0])
  %m = Add(%s, %t)
  %y = Transpose(%m, [3,2,1,0])
}

rules {
  passes(optimize_layout)
  ops(Transpose: 3, Add: 1)
  refused("an output keeps its layout")
}
