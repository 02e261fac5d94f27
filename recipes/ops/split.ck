# SPDX-License-Identifier: Apache-2.0
# Three equal parts along the last axis.

graph main(%x: f32[2,6]) -> %a, %b, %c {
  %a, %b, %c = Split(1, %x) {num_splits: 3}
}
