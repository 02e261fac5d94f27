# SPDX-License-Identifier: Apache-2.0
# Refused: the sizes differ

graph main(%x: f32[1,5,7,2]) -> %y {
  %a = Neg(%x)
  %y = ResizeNearestNeighbor(%a, [7, 5])
}

rules {
  passes(remove_identity)
  unchanged()
  refused("%y: is f32[1,7,5,2], %a is f32[1,5,7,2]")
}
