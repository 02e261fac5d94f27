# SPDX-License-Identifier: Apache-2.0
# Done: a constant that is broadcast along one dimension gets the full shape.

graph main(%x: f32[2,3,4]) -> %y {
  %c = const f32[2,1,4] uniform(1, 2)
  %y = Add(%x, %c)
}

rules {
  passes(expand_broadcast_const)
  order(Add)
  value(%y/rhs, shape: [2,3,4], const: true)
}
