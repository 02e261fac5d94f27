# SPDX-License-Identifier: Apache-2.0
# Done: a group norm of PyTorch, which splits the channels and merges the image, works in NHWC.

graph main(%x: f32[1,4,4,6]) -> %y {
  %t = Transpose(%x, [0,3,1,2])
  %r = Reshape(%t, [1,2,3,16])
  %m = Mean(%r, [2,3]) {keep_dims: true}
  %d = Sub(%r, %m)
  %q = Square(%d)
  %v = Mean(%q, [2,3]) {keep_dims: true}
  %a = Add(%v, 0.00001)
  %s = Rsqrt(%a)
  %g = Mul(%s, [[[[1.5], [0.5], [2.0]], [[1.0], [0.25], [0.75]]]])
  %n = Mul(%m, %g)
  %f = Reshape(%g, [1,6,1,1])
  %b = Reshape(%n, [1,6,1,1])
  %p = Mul(%t, %f)
  %z = Sub(%p, %b)
  %y = Transpose(%z, [0,2,3,1])
}

rules {
  passes(optimize_layout)
  order(Reshape, Mean, Sub, Square, Mean, Add, Rsqrt, Mul, Mul, Reshape, Reshape, Reshape, Mul, Reshape, Sub)
}
