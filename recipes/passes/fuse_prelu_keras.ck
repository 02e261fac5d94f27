# SPDX-License-Identifier: Apache-2.0
# Done: relu(x) + relu(-x) * -alpha, as Keras exports it, becomes PRELU.

graph main(%x: f32[2,3]) -> %y {
  %alpha = const f32[3] [-0.25, 0.5, -2.0]
  %r = Relu(%x)
  %m = Neg(%x)
  %n = Relu(%m)
  %a = Mul(%alpha, %n)
  %y = Add(%r, %a)
}

rules {
  passes(fuse_prelu)
  order(PRelu)
}
