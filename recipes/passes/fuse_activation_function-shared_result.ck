# SPDX-License-Identifier: Apache-2.0
# Refused: %y: is read elsewhere without the activation

graph main(%x: f32[1,4,4,2], %o: f32[1,4,4,2]) -> %z, %y {
  %y = Add(%x, %o)
  %z = Relu(%y)
}

rules {
  passes(fuse_activation_function)
  unchanged()
  refused("%y: is read elsewhere")
}
