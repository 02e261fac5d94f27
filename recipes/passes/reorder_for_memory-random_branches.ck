# SPDX-License-Identifier: Apache-2.0
# Done: the first branch ends before the second begins, and the random numbers are drawn in the same order.

graph main() -> %y {
  %a = RandomUniform([1, 64]) {seed: 1, seed2: 2}
  %b = RandomUniform([1, 32]) {seed: 1, seed2: 2}
  %c = ReduceMax(%a, [1]) {keep_dims: true}
  %d = ReduceMax(%b, [1]) {keep_dims: true}
  %y = Maximum(%c, %d)
}

rules {
  passes(reorder_for_memory)
  order(RandomUniform, ReduceMax, RandomUniform, ReduceMax, Maximum)
}
