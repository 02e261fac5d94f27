# SPDX-License-Identifier: Apache-2.0
# Done: the largest logit is the most probable class.

graph main(%x: f32[2,3,5]) -> %z {
  %s = Softmax(%x) {beta: 1.0}
  %z = ArgMax(%s, -1) {output_type: i64}
}

rules {
  passes(remove_softmax)
  order(ArgMax)
}
