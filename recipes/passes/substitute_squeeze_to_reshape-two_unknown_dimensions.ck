# SPDX-License-Identifier: Apache-2.0
# Refused: %z: has more than one unknown dimension: [?,?,1]

graph main(%x: f32[?,1,?,1]) -> %z {
  %z = Squeeze(%x) {squeeze_dims: [1]}
}

rules {
  passes(substitute_squeeze_to_reshape)
  unchanged()
  refused("has more than one unknown dimension: [?,?,1]")
}
