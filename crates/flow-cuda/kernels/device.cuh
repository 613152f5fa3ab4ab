// What the kernels ask of the machine beyond C++: who a thread is, barriers, shuffles, copies to shared memory,
// tensor cores. Everything with inline PTX stands here and nowhere else; each function has a twin of the same
// name in emulate/machine.h, with which the same kernels run on any machine.
//
// Layouts of fragments are those of the PTX ISA, "Matrix fragments for mma.m16n8k16" and its neighbours. With
// g = lane / 4 and t = lane % 4:
//
//   A (16 × 16 numbers of 2 bytes, rows)   a[0]: row g,     columns 2t, 2t+1     a[2]: the same, 8 columns on
//                                          a[1]: row g + 8, columns 2t, 2t+1     a[3]: the same, 8 columns on
//   B (16 × 8, columns)                    b[0]: rows 2t, 2t+1 of column g       b[1]: the same, 8 rows on
//   C (16 × 8 floats)                      c[0], c[1]: row g, columns 2t, 2t+1   c[2], c[3]: row g + 8
//
// TF32 (16 × 8 times 8 × 8) is the same in bytes: a number of 4 bytes stands where two of 2 bytes stood.
#pragma once

#ifdef EMULATE
#include "emulate/device.h"
#else

#include "formats.cuh"

/// Begins a kernel that takes one structure, for blocks of so many threads, of which so many should find room
/// on a multiprocessor.
#define KERNEL(name, Parameters, threads, blocks) \
    extern "C" __global__ void __launch_bounds__(threads, blocks) name(const Parameters p)

/// The memory that a block shares, as one structure.
#define SHARED(Type, name)                                          \
    __shared__ __align__(16) unsigned char name##_bytes[sizeof(Type)]; \
    Type &name = *reinterpret_cast<Type *>(name##_bytes)

#define DEVICE static __device__ __forceinline__
#define DEVICE_MEMBER __device__ __forceinline__
#define UNROLL _Pragma("unroll")
#define UNROLL_4 _Pragma("unroll 4")

DEVICE int thread_number() { return threadIdx.x; }
DEVICE int lane_number() { return threadIdx.x & 31; }
DEVICE int warp_number() { return threadIdx.x >> 5; }
DEVICE int block_x() { return blockIdx.x; }
DEVICE int block_y() { return blockIdx.y; }

DEVICE void block_sync() { __syncthreads(); }
DEVICE void warp_sync() { __syncwarp(); }
DEVICE float shuffle_xor(float value, int mask) { return __shfl_xor_sync(0xffffffffu, value, mask); }

// --- Numbers ---

DEVICE float widen(float value) { return value; }

DEVICE float widen(bf16 value) { return __uint_as_float(uint32_t(value.bits) << 16); }

DEVICE float widen(f16 value) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
    return wide;
}

template <typename T>
DEVICE T narrow(float value);

template <>
__device__ __forceinline__ float narrow<float>(float value) {
    return value;
}

template <>
__device__ __forceinline__ f16 narrow<f16>(float value) {
    // What is larger than any half becomes the largest; what is no number stays none.
    value = value > 65504.0f ? 65504.0f : value;
    value = value < -65504.0f ? -65504.0f : value;
    f16 half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half.bits) : "f"(value));
    return half;
}

template <>
__device__ __forceinline__ bf16 narrow<bf16>(float value) {
#if __CUDA_ARCH__ >= 800
    bf16 half;
    asm("{ .reg .b16 low, high; .reg .b32 both;\n"
        "  cvt.rn.bf16x2.f32 both, 0f00000000, %1;\n"
        "  mov.b32 {low, high}, both;\n"
        "  mov.b16 %0, low; }"
        : "=h"(half.bits)
        : "f"(value));
    return half;
#else
    uint32_t bits = __float_as_uint(value);
    return bf16{uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
#endif
}

DEVICE float exp2_quick(float value) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(value));
    return power;
}

DEVICE float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }

// --- Copies to shared memory that go on beside the computation ---

DEVICE uint32_t shared_address(const void *shared) {
    return uint32_t(__cvta_generic_to_shared(shared));
}

/// Begins to copy 16 bytes, of which the first `valid` come from `from`, and the others are 0.
DEVICE void copy_async(void *to, const void *from, int valid) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(shared_address(to)), "l"(from), "r"(valid)
                 : "memory");
#else
    Chunk chunk = {};
    if (valid == 16) {
        chunk = *static_cast<const Chunk *>(from);
    } else {
        for (int half = 0; half < valid / 2; half++) {
            uint32_t bits = static_cast<const uint16_t *>(from)[half];
            UNROLL for (int word = 0; word < 4; word++) {
                chunk.words[word] |= half / 2 == word ? bits << (half % 2 * 16) : 0;
            }
        }
    }
    *static_cast<Chunk *>(to) = chunk;
#endif
}

/// Ends a group of copies.
DEVICE void copy_commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits until all but the last `groups` groups of this thread's copies are done.
template <int groups>
DEVICE void copy_wait() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
#endif
}

// --- Tensor cores ---

/// Loads four matrices of 8 rows of 16 bytes. Lane 8i + r names row r of matrix i; of each matrix it gets
/// bytes 4t to 4t+3 of row g.
DEVICE void load_matrices(uint32_t (&to)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/// The same for matrices of numbers of 2 bytes, each turned over: a lane gets rows 2t and 2t+1 of column g.
DEVICE void load_matrices_turned(uint32_t (&to)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/// c += a × b, for 32 bytes of each row of A and each column of B.
template <typename Number>
DEVICE void multiply(float (&c)[4], const uint32_t (&a)[4], const uint32_t *b);

template <>
__device__ __forceinline__ void multiply<f16>(float (&c)[4], const uint32_t (&a)[4], const uint32_t *b) {
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                 "{%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    // Turing multiplies 8 columns of A at a time.
    UNROLL for (int half = 0; half < 2; half++) {
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
                     "{%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
    }
#endif
}

template <>
__device__ __forceinline__ void multiply<bf16>(float (&c)[4], const uint32_t (&a)[4], const uint32_t *b) {
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                 "{%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    __trap(); // The engine refuses bf16 below 8.0 before it comes to this.
#endif
}

/// The nearest number that TF32 has.
DEVICE uint32_t to_tf32(uint32_t bits) {
#if __CUDA_ARCH__ >= 800
    uint32_t rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__uint_as_float(bits)));
    return rounded;
#else
    return bits;
#endif
}

template <>
__device__ __forceinline__ void multiply<tf32>(float (&c)[4], const uint32_t (&a)[4], const uint32_t *b) {
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                 "{%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(to_tf32(a[0])), "r"(to_tf32(a[1])), "r"(to_tf32(a[2])), "r"(to_tf32(a[3])),
                   "r"(to_tf32(b[0])), "r"(to_tf32(b[1])));
#else
    __trap(); // As for bf16.
#endif
}

#endif

/// Two numbers of 2 bytes in one word, the first in its lower half.
template <typename T>
DEVICE uint32_t narrow_pair(float first, float second) {
    return uint32_t(narrow<T>(first).bits) | uint32_t(narrow<T>(second).bits) << 16;
}

/// Where chunk `chunk` of row `row` lies in shared memory, so that eight rows' chunks of one number lie in
/// different banks, and so do one row's. Rows are `row_bytes` long, 64 or 128.
template <int row_bytes>
DEVICE int swizzled(int row, int chunk) {
    int turn = row_bytes == 64 ? (row >> 1) & 3 : row & 7;
    return row * row_bytes + ((chunk ^ turn) << 4);
}

DEVICE int at_most(int value, int high) { return value < high ? value : high; }
DEVICE int between(int value, int low, int high) { return value < low ? low : at_most(value, high); }
DEVICE float larger(float a, float b) { return a > b ? a : b; }

/// The sum over all lanes of a warp, in one order.
DEVICE float warp_sum(float value) {
    UNROLL for (int mask = 16; mask > 0; mask /= 2) {
        value += shuffle_xor(value, mask);
    }
    return value;
}

DEVICE float warp_max(float value) {
    UNROLL for (int mask = 16; mask > 0; mask /= 2) {
        value = larger(value, shuffle_xor(value, mask));
    }
    return value;
}
