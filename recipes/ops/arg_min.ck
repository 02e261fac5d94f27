# SPDX-License-Identifier: Apache-2.0
# Where the smallest element of each row is.

graph main(%x: f32[4,5]) -> %y {
  %y = ArgMin(%x, 1) {output_type: i32}
}
