# SPDX-License-Identifier: Apache-2.0
# The index of the smallest element of each row.

graph main(%x: f32[4,5]) -> %y {
  %y = ArgMin(%x, 1) {output_type: i32}
}
