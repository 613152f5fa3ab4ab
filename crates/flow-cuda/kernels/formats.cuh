// The numbers that lie in memory. All arithmetic on them is in 32-bit floats, so they can do nothing but be
// widened and narrowed, which machine.cuh knows how to do.
#pragma once

#include <cstdint>

/// Half precision: 5 bits of exponent, 10 of fraction.
struct f16 {
    uint16_t bits;
};

/// The upper half of a 32-bit float.
struct bf16 {
    uint16_t bits;
};

/// 16 bytes, which is what a thread reads and writes at once where it can.
struct alignas(16) Chunk {
    uint32_t words[4];
};

/// Numbers beside each other, read and written at once.
template <typename T, int count>
struct alignas(count * sizeof(T)) Group {
    T values[count];
};

/// What products see of a number in memory. 32-bit floats become TF32 on their way into tensor cores.
template <typename T>
struct Lies {
    using In = T;
};
struct tf32 {};
template <>
struct Lies<tf32> {
    using In = float;
};
