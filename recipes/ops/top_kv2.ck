# SPDX-License-Identifier: Apache-2.0
# The two largest elements of each row, and their indices.

graph main(%x: f32[2,5]) -> %y, %at {
  %y, %at = TopKV2(%x, 2)
}
