# SPDX-License-Identifier: Apache-2.0
# Parts of different sizes.

graph main(%x: f32[2,6]) -> %a, %b {
  %a, %b = SplitV(%x, [2,4], 1) {num_splits: 2}
}
