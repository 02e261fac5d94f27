# SPDX-License-Identifier: Apache-2.0
# Kept: another order of the random operators would need less memory, but they draw from one stream.

graph main(%x: f32[1,4]) -> %y {
  %n = RandomUniform([1, 4]) {seed: 1, seed2: 2}
  %m = RandomUniform([1, 4]) {seed: 1, seed2: 2}
  %b = Sub(%n, %m)
  %a = RandomUniform([1, 64]) {seed: 1, seed2: 2}
  %c = Mul(%a, %a)
  %d = ReduceMax(%c, [1]) {keep_dims: true}
  %y = Maximum(%b, %d)
}

rules {
  passes(reorder_for_memory)
  unchanged()
}
