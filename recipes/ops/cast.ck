# SPDX-License-Identifier: Apache-2.0
# Conversion of integers to floats.

graph main(%x: i32[4]) -> %y {
  %y = Cast(%x) {in_data_type: i32, out_data_type: f32}
}
