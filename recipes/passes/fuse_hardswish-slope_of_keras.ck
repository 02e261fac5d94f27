# SPDX-License-Identifier: Apache-2.0
# Refused: the hard sigmoid of ONNX and of older versions of Keras has the slope 0.2.

graph main(%x: f32[2,40]) -> %y {
  %s = Mul(%x, 0.2)
  %a = Add(%s, 0.5)
  %r = Relu0To1(%a)
  %y = Mul(%x, %r)
}

rules {
  passes(fuse_hardswish)
  unchanged()
  refused("expected 0.16666667, got 0.2")
}
