# SPDX-License-Identifier: Apache-2.0
# A slope below zero for every channel.

graph main(%x: f32[1,2,2,3]) -> %y {
  %y = PRelu(%x, [0.1, 0.2, 0.3])
}
