# SPDX-License-Identifier: Apache-2.0
# Refused: %z: shape [?,?,1] leaves more than one dimension open

graph main(%x: f32[?,1,?,1]) -> %z {
  %z = Squeeze(%x) {squeeze_dims: [1]}
}

rules {
  passes(substitute_squeeze_to_reshape)
  unchanged()
  refused("leaves more than one dimension open")
}
