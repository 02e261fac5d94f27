# SPDX-License-Identifier: Apache-2.0
# Refused: %a/rhs: broadcasting with its shape [4] may change the shape [?,1] of %n

graph main(%x: f32[?,4]) -> %z {
  %w = const f32[3,4] gaussian(0, 1)
  %n = Reshape(%x, [-1,1])
  %a = Mul(%n, [1.0,2.0,3.0,4.0])
  %z = FullyConnected(%a, %w)
}

rules {
  passes(fuse_mul_to_fullyconnected_weights)
  unchanged()
  refused("may change the shape [?,1] of %n")
}
