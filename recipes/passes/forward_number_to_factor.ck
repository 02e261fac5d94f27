# SPDX-License-Identifier: Apache-2.0
# Done: of the products with a number on both sides of a matrix product, the smaller one stays.

graph main(%q: f32[1,2,1,4], %k: f32[1,2,5,4]) -> %y {
  %a = Mul(%q, 0.5)
  %b = Mul(%k, 0.5)
  %y = BatchMatMul(%a, %b) {adj_y: true}
}

rules {
  passes(forward_number)
  order(Mul, BatchMatMul)
}
