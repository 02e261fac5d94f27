# SPDX-License-Identifier: Apache-2.0
# Done: both branches begin with a large result; the first branch ends before the second begins.

graph main(%x: f32[1,4]) -> %y {
  %a = Tile(%x, [1, 64])
  %b = Tile(%x, [1, 32])
  %c = ReduceMax(%a, [1]) {keep_dims: true}
  %d = ReduceMax(%b, [1]) {keep_dims: true}
  %y = Maximum(%c, %d)
}

rules {
  passes(reorder_for_memory)
  order(Tile, ReduceMax, Tile, ReduceMax, Maximum)
}
