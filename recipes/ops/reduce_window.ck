# SPDX-License-Identifier: Apache-2.0
# The sum of every window of two.

graph main(%x: f32[6]) -> %y {
  %y = ReduceWindow(%x, 0.0, [2], [2], [1]) {reduce_function: ADD}
}
