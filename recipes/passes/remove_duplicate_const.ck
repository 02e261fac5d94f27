# SPDX-License-Identifier: Apache-2.0
# Done: Constants of one dtype, shape, quantization and bit pattern become the first of them.

graph main(%x: f32[2]) -> %y {
  %a = Mul(%x, [1.0, 2.0])
  %b = Add(%a, [1.0, 2.0])
  %c = Sub(%b, [1.0, 2.5])
  %y = Div(%c, [[1.0, 2.0]]) : f32[1,2]
}

rules {
  passes(remove_duplicate_const)
  order(Mul, Add, Sub, Div)
}
