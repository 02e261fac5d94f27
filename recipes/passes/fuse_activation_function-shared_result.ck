# SPDX-License-Identifier: Apache-2.0
# Refused: %y: has other users, or is an output of the graph, and must not be changed

graph main(%x: f32[1,4,4,2], %o: f32[1,4,4,2]) -> %z, %y {
  %y = Add(%x, %o)
  %z = Relu(%y)
}

rules {
  passes(fuse_activation_function)
  unchanged()
  refused("has other users, or is an output of the graph, and must not be changed")
}
