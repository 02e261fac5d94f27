# SPDX-License-Identifier: Apache-2.0
# Refused: %r: Reshape needs its channels in one order

graph main(%x: i32[2,3]) -> %y {
  %p = Reshape(%x, [2, 3])
  %r = Reshape(%p, [3, 2])
  %y = ReverseV2(%r, [1])
}

rules {
  passes(order_channels)
  unchanged()
  refused("%r: Reshape needs its channels in one order")
}
