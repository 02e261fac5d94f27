# SPDX-License-Identifier: Apache-2.0
# One of two graphs is run, depending on a computed condition.

graph main(%x: f32[2,3]) -> %y {
  %sum = Sum(%x, [0,1])
  %is_positive = Greater(%sum, 0.0)
  %y = If(%is_positive, %x) {then_graph: @root, else_graph: @zero}
}

graph root(%x: f32[2,3]) -> %y {
  %size = Abs(%x)
  %y = Sqrt(%size)
}

graph zero(%x: f32[2,3]) -> %y {
  %y = ZerosLike(%x)
}
