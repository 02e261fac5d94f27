# SPDX-License-Identifier: Apache-2.0
# Done: softmax(x)  ==  exp(beta * (x - max(x))) / sum of that, along the last axis.

graph main(%x: f32[2,3,4]) -> %z {
  %z = Softmax(%x) {beta: 0.5}
}

rules {
  passes(decompose_softmax)
  order(ReduceMax, Sub, Mul, Exp, Sum, Div)
}
