# SPDX-License-Identifier: Apache-2.0
# Done: (fc(x, w) + b) * scale  ==  fc(x, w * scale) + b * scale.

graph main(%x: f32[2,5,4]) -> %z {
  %b = const f32[3] [0.5, -1.0, 2.0]
  %w = const f32[3,4] gaussian(0, 1)
  %y = FullyConnected(%x, %w, %b) {keep_num_dims: true}
  %z = Mul(%y, 0.75) {act: RELU}
}

rules {
  passes(fuse_mul_with_fullyconnected)
  order(FullyConnected)
}
