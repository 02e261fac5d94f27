# SPDX-License-Identifier: Apache-2.0
# Done: x * max(min(x / 6 + 1/2, 1), 0), the definition of ONNX, becomes HARD_SWISH.

graph main(%x: f32[2,40]) -> %y {
  %s = Mul(%x, 0.16666667)
  %a = Add(%s, 0.5)
  %c = Minimum(%a, 1.0)
  %r = Maximum(%c, 0.0)
  %y = Mul(%x, %r)
}

rules {
  passes(fuse_hardswish)
  order(HardSwish)
}
