# SPDX-License-Identifier: Apache-2.0
# op(chain(x)) == chain(op(x)): both shuffles are behind both operators

graph main(%x: f32[1,6,4]) -> %y {
  %a = Reshape(%x, [1,2,3,4]) {new_shape: [1,2,3,4]} : f32[1,2,3,4]
  %b = Transpose(%a, [0,2,1,3]) : f32[1,3,2,4]
  %c = Reshape(%b, [1,6,4]) {new_shape: [1,6,4]} : f32[1,6,4]
  %t = Tanh(%c) : f32[1,6,4]
  %d = Reshape(%t, [1,3,2,4]) {new_shape: [1,3,2,4]} : f32[1,3,2,4]
  %e = Transpose(%d, [0,2,1,3]) : f32[1,2,3,4]
  %y = Mul(%e, [2.0]) : f32[1,2,3,4]
}

rules {
  passes(forward_movement_chain)
  order(Tanh, Mul, Reshape, Transpose, Reshape, Reshape, Transpose)
}
