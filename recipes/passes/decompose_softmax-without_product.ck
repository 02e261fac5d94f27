# SPDX-License-Identifier: Apache-2.0
# Done: softmax(x) with beta 1  ==  exp(x - max(x)) / sum of that, without a product.

graph main(%x: f32[2,3,4]) -> %z {
  %z = Softmax(%x) {beta: 1.0}
}

rules {
  passes(decompose_softmax)
  ops(Mul: 0, Softmax: 0)
  order(ReduceMax, Sub, Exp, Sum, Div)
}
