# SPDX-License-Identifier: Apache-2.0
# Refused: %r: has an unknown rank

graph main(%x: f32[2,3], %s: i32[?]) -> %z {
  %r = Reshape(%x, %s) : f32[*]
  %z = Softmax(%r) : f32[1,2,3]
}

rules {
  passes(forward_reshape_to_unaryop)
  unchanged()
  refused("%r: has an unknown rank")
}
