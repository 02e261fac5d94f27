# SPDX-License-Identifier: Apache-2.0
# Uniformly distributed random numbers in [0, 1).

graph main(%x: f32[2,3]) -> %y {
  %shape = Shape(%x) {out_type: i32}
  %y = RandomUniform(%shape) {seed: 1, seed2: 2}
}
