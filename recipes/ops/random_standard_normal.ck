# SPDX-License-Identifier: Apache-2.0
# Normally distributed random numbers; two nonzero seeds make them repeatable.

graph main(%x: f32[2,3]) -> %y {
  %shape = Shape(%x) {out_type: i32}
  %y = RandomStandardNormal(%shape) {seed: 1, seed2: 2}
}
