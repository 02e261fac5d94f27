# SPDX-License-Identifier: Apache-2.0
# Done: the condition is constant, so the branch without dropout replaces the operator.

graph main(%x: f32[2,3]) -> %z {
  %a = Neg(%x)
  %y = If(false, %a) {then_graph: @training, else_graph: @use}
  %z = Tanh(%y)
}

graph training(%x: f32[2,3]) -> %y {
  %r = RandomUniform([2, 3])
  %y = Mul(%x, %r)
}

graph use(%x: f32[2,3]) -> %y {
  %y = Mul(%x, 0.5)
}

rules {
  passes(remove_constant_if)
  order(Neg, Mul, Tanh)
}
