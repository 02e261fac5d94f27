# SPDX-License-Identifier: Apache-2.0
# Done: the guard of negative indices is a modulus.

graph main(%i: i32[2,3]) -> %z {
  %p = const f32[5,4] gaussian(0, 1)
  %c = const i32[2,3] arange(-4, 1.6)
  %j = Minimum(%i, [0])
  %k = Maximum(%j, [-1])
  %q = Add(%k, %c) : i32[2,3]
  %l = Less(%q, 0) : bool[2,3]
  %a = Add(%q, 5) : i32[2,3]
  %s = Select(%l, %a, %q) : i32[2,3]
  %z = Gather(%p, %s) : f32[2,3,4]
}

rules {
  passes(fuse_gather_guard)
  order(Minimum, Maximum, Add, FloorMod, Gather)
}
