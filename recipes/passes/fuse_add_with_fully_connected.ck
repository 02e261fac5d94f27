# SPDX-License-Identifier: Apache-2.0
# Done: (fc(x, w) + b) + shift  ==  fc(x, w) + (b + shift).

graph main(%x: f32[2,5,4], %free: f32[3,4]) -> %z {
  %w = Neg(%free)
  %y = FullyConnected(%x, %w, none) {keep_num_dims: true}
  %z = Add(%y, [1.0, 2.0, 3.0])
}

rules {
  passes(fuse_add_with_fully_connected)
  order(Neg, FullyConnected)
}
