# SPDX-License-Identifier: Apache-2.0
# The rows of a matrix as vectors.

graph main(%x: f32[2,3]) -> %a, %b {
  %a, %b = Unpack(%x) {num: 2, axis: 0}
}
