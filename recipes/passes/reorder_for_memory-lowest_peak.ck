# SPDX-License-Identifier: Apache-2.0
# Kept: no order has a lower peak.

graph main(%x: f32[1,4]) -> %y {
  %a = Tile(%x, [1, 64])
  %c = ReduceMax(%a, [1]) {keep_dims: true}
  %b = Tile(%x, [1, 32])
  %d = ReduceMax(%b, [1]) {keep_dims: true}
  %y = Maximum(%c, %d)
}

rules {
  passes(reorder_for_memory)
  unchanged()
}
