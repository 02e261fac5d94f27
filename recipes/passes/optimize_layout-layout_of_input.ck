# SPDX-License-Identifier: Apache-2.0
# Refused: %x: an input keeps its layout

graph main(%x: f32[1,4,4,3]) -> %y {
  %t = Transpose(%x, [0,3,1,2])
  %y = Softmax(%t)
}

rules {
  passes(optimize_layout)
  unchanged()
  refused("%x: an input keeps its layout")
}
