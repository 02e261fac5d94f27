# SPDX-License-Identifier: Apache-2.0
# Refused: %z: the new constant would have the shape [2,4]

graph main(%x: f32[2,4]) -> %z {
  %m = Add(%x, [1.0, 2.0, 3.0, 4.0])
  %z = Add(%m, [[2.0], [4.0]])
}

rules {
  passes(fuse_add_with_add)
  unchanged()
  refused("%z: the new constant would have the shape [2,4]")
}
