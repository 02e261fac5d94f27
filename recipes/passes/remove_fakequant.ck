# SPDX-License-Identifier: Apache-2.0
# Done: fake_quant(x) becomes x: values are no longer rounded to the grid or clamped to its range.

graph main(%x: f32[4]) -> %y {
  %a = Neg(%x) : f32[4]
  %y = FakeQuant(%a) {min: -1.0, max: 1.0, num_bits: 8} : f32[4]
}

rules {
  passes(remove_fakequant)
  order(Neg)
}
