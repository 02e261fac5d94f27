# SPDX-License-Identifier: Apache-2.0
# Done: reshape(f(reshape(x)), the shape of x)  ==  f(x) for elementwise f.

graph main(%x: f32[2,3,4]) -> %y {
  %c = const f32[6,1] gaussian(0, 1)
  %a = Reshape(%x, [6, 4])
  %b = Logistic(%a)
  %d = Mul(%a, %b)
  %e = Add(%c, %d) {act: RELU}
  %y = Reshape(%e, [2, 3, 4])
}

rules {
  passes(remove_unnecessary_reshape)
  order(Logistic, Mul, Add)
}
