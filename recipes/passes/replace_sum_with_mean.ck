# SPDX-License-Identifier: Apache-2.0
# Done: sum(x)  ==  mean(x) * count.

graph main(%x: f32[2,3,4]) -> %z {
  %z = Sum(%x, [-1, 1]) {keep_dims: true}
}

rules {
  passes(replace_sum_with_mean)
  order(Mean, Mul)
}
