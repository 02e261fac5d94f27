# SPDX-License-Identifier: Apache-2.0
# The index of the largest element of each row.

graph main(%x: f32[4,5]) -> %y {
  %y = ArgMax(%x, 1) {output_type: i64}
}
