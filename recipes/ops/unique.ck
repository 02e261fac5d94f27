# SPDX-License-Identifier: Apache-2.0
# Every value once, in the order of the first, and which of them each element is.

graph main(%x: i32[6]) -> %y, %at {
  %y, %at = Unique(%x) {idx_out_type: i32}
}
