# SPDX-License-Identifier: Apache-2.0
# Done: fc(transpose(x), w)  ==  fc(x, w with its columns in another order), as after a flattened image.

graph main(%x: f32[2,3,4,2]) -> %y {
  %w = const f32[5,24] gaussian(0, 1)
  %t = Transpose(%x, [0,3,1,2])
  %r = Reshape(%t, [2,24])
  %y = FullyConnected(%r, %w, [1.0, 2, 3, 4, 5]) {act: RELU}
}

rules {
  passes(fuse_transpose_to_fullyconnected_weights)
  order(FullyConnected)
}
