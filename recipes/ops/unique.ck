# SPDX-License-Identifier: Apache-2.0
# The distinct values in order of first occurrence, and the index of each element among them.

graph main(%x: i32[6]) -> %y, %at {
  %y, %at = Unique(%x) {idx_out_type: i32}
}
