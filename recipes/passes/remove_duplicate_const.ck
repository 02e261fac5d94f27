# SPDX-License-Identifier: Apache-2.0
# Done: of constants with equal dtype, shape, quantization and bits the first one stays.

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
