# SPDX-License-Identifier: Apache-2.0
# Where the largest element of each row is.

graph main(%x: f32[4,5]) -> %y {
  %y = ArgMax(%x, 1) {output_type: i64}
}
