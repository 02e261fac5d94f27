# SPDX-License-Identifier: Apache-2.0
# Done: Transposes that, alone or with adjacent Reshapes, keep the order of the elements are removed.

graph main(%x: f32[2,?,4]) -> %y {
  %a = Neg(%x)
  %b = Transpose(%a, [0, 1, 2])
  %y = Neg(%b)
}

rules {
  passes(remove_unnecessary_transpose)
  order(Neg, Neg)
}
