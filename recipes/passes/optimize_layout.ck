# SPDX-License-Identifier: Apache-2.0
# Done: operators that can work on permuted axes are permuted where fewer bytes are transposed then.

graph main(%x: f32[2,3]) -> %y {
  %a = Transpose(%x, [-1,0])
  %b = Mul(%a, [2.0])
  %y = Transpose(%b, [1,0])
}

rules {
  passes(optimize_layout)
  order(Mul)
}
