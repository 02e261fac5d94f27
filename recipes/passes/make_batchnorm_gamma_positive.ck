# SPDX-License-Identifier: Apache-2.0
# Done: relu(x * gamma + beta) with 1e-10 for each negative gamma: these channels become relu(beta).

graph main(%x: f32[1,4,4,3]) -> %y {
  %m = Mul(%x, [1.0, -2.0, 0.0])
  %y = Add(%m, [1.0, 2, 3]) {act: RELU}
}

rules {
  passes(make_batchnorm_gamma_positive)
  order(Mul, Add)
}
