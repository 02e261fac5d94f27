# SPDX-License-Identifier: Apache-2.0
# A learned slope below zero per channel.

graph main(%x: f32[1,2,2,3]) -> %y {
  %y = PRelu(%x, [0.1, 0.2, 0.3])
}
