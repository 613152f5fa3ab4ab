// The features of the device that the kernels use beyond C++: thread indices, barriers, shuffles, copies to shared memory and
// tensor cores. All inline PTX is in this file. Each function has a counterpart of the same name in emulate/device.h, so that
// the same kernels run on any machine.
//
// The layouts of fragments are those of the PTX ISA, "Matrix fragments for mma.m16n8k16" and the sections around it. With
// g = lane / 4 and t = lane % 4:
//
//   A (16 × 16 numbers of 2 bytes, rows)   a[0]: row g,     columns 2t, 2t+1     a[2]: the same, 8 columns further
//                                          a[1]: row g + 8, columns 2t, 2t+1     a[3]: the same, 8 columns further
//   B (16 × 8, columns)                    b[0]: rows 2t, 2t+1 of column g       b[1]: the same, 8 rows further
//   C (16 × 8 floats)                      c[0], c[1]: row g, columns 2t, 2t+1   c[2], c[3]: row g + 8
//
// TF32 (16 × 8 times 8 × 8) has the same layout in bytes: one number of 4 bytes takes the place of two numbers of 2 bytes.
#pragma once

#ifdef EMULATE
#include "emulate/device.h"
#else

#include "formats.cuh"

/// Defines a kernel that takes one structure, with `threads` threads per block. `blocks` blocks should fit on a
/// multiprocessor.
#define KERNEL(name, Parameters, threads, blocks) \
    extern "C" __global__ void __launch_bounds__(threads, blocks) name(const Parameters p)

/// Declares the shared memory of a block, as one structure.
#define SHARED(Type, name)                                          \
    __shared__ __align__(16) unsigned char name##_bytes[sizeof(Type)]; \
    Type &name = *reinterpret_cast<Type *>(name##_bytes)

#define DEVICE static __device__ __forceinline__
#define DEVICE_MEMBER __device__ __forceinline__
#define UNROLL _Pragma("unroll")
#define UNROLL_4 _Pragma("unroll 4")

DEVICE int thread_index() { return threadIdx.x; }
DEVICE int lane_index() { return threadIdx.x & 31; }
DEVICE int warp_index() { return threadIdx.x >> 5; }
DEVICE int block_x() { return blockIdx.x; }
DEVICE int block_y() { return blockIdx.y; }

DEVICE void block_sync() { __syncthreads(); }
DEVICE void warp_sync() { __syncwarp(); }
DEVICE float shuffle_xor(float value, int mask) { return __shfl_xor_sync(0xffffffffu, value, mask); }

// --- Number formats ---

DEVICE float to_float(float value) { return value; }

DEVICE float to_float(bf16 value) { return __uint_as_float(uint32_t(value.bits) << 16); }

DEVICE float to_float(f16 value) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
    return wide;
}

template <typename T>
DEVICE T from_float(float value);

template <>
__device__ __forceinline__ float from_float<float>(float value) {
    return value;
}

template <>
__device__ __forceinline__ f16 from_float<f16>(float value) {
    // Larger numbers become the largest one, and NaN stays NaN.
    value = value > 65504.0f ? 65504.0f : value;
    value = value < -65504.0f ? -65504.0f : value;
    f16 half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half.bits) : "f"(value));
    return half;
}

template <>
__device__ __forceinline__ bf16 from_float<bf16>(float value) {
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

/// Packs two 2-byte numbers into a word, the first into its lower half.
template <typename T>
DEVICE uint32_t pack_pair(float first, float second);

template <>
__device__ __forceinline__ uint32_t pack_pair<f16>(float first, float second) {
#if __CUDA_ARCH__ >= 800
    uint32_t pair;
    asm("{ .reg .b32 high, low;\n"
        "  mov.b32 high, 0x7bff7bff;\n"
        "  mov.b32 low, 0xfbfffbff;\n"
        "  cvt.rn.f16x2.f32 %0, %2, %1;\n"
        "  min.NaN.f16x2 %0, %0, high;\n"
        "  max.NaN.f16x2 %0, %0, low; }"
        : "=r"(pair)
        : "f"(first), "f"(second));
    return pair;
#else
    return uint32_t(from_float<f16>(first).bits) | uint32_t(from_float<f16>(second).bits) << 16;
#endif
}

template <>
__device__ __forceinline__ uint32_t pack_pair<bf16>(float first, float second) {
#if __CUDA_ARCH__ >= 800
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(pair) : "f"(first), "f"(second));
    return pair;
#else
    return uint32_t(from_float<bf16>(first).bits) | uint32_t(from_float<bf16>(second).bits) << 16;
#endif
}

DEVICE float exp2_approx(float value) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(value));
    return power;
}

DEVICE float reciprocal_approx(float value) {
    float reciprocal;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(value));
    return reciprocal;
}

DEVICE float fma_f32(float a, float b, float c) { return __fmaf_rn(a, b, c); }

// --- Asynchronous copies to shared memory ---

DEVICE uint32_t shared_address(const void *shared) {
    return uint32_t(__cvta_generic_to_shared(shared));
}

/// Starts a copy of 16 bytes: the first `valid` bytes come from `from`, the others are 0.
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

/// Ends the current group of copies.
DEVICE void copy_commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits until all but the last `groups` groups of this thread's copies are complete.
template <int groups>
DEVICE void copy_wait() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
#endif
}

// --- Tensor cores ---

/// Loads four matrices of 8 rows of 16 bytes. Lane 8i + r passes the address of row r of matrix i, and receives bytes 4t to
/// 4t+3 of row g of each matrix.
DEVICE void load_matrices(uint32_t (&to)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/// The same for matrices of 2-byte numbers, transposed: a lane receives rows 2t and 2t+1 of column g.
DEVICE void load_matrices_transposed(uint32_t (&to)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/// c += a × b, over 32 bytes of each row of A and each column of B.
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
    __trap(); // The host refuses bf16 below compute capability 8.0.
#endif
}

/// Rounds to TF32.
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

constexpr float LOG2_E = 1.44269504f;

/// The offset of a chunk of 16 bytes in shared memory. Chunks of one index in eight rows lie in different banks, and so do the
/// chunks of one row. Rows have 64 or 128 bytes.
template <int row_bytes>
DEVICE int swizzled(int row, int chunk) {
    int pattern = row_bytes == 64 ? (row >> 1) & 3 : row & 7;
    return row * row_bytes + ((chunk ^ pattern) << 4);
}

DEVICE int min_int(int value, int high) { return value < high ? value : high; }
DEVICE int clamp_int(int value, int low, int high) { return value < low ? low : min_int(value, high); }
DEVICE float max_float(float a, float b) { return a > b ? a : b; }

/// Writes adjacent numbers, in one access.
template <int count>
DEVICE void store_group(float *to, const float (&values)[count]) {
    Group<float, count> group;
    UNROLL for (int i = 0; i < count; i++) {
        group.values[i] = values[i];
    }
    *reinterpret_cast<Group<float, count> *>(to) = group;
}

template <typename T, int count>
DEVICE void store_group(T *to, const float (&values)[count]) {
    Group<uint32_t, count / 2> pairs;
    UNROLL for (int i = 0; i < count / 2; i++) {
        pairs.values[i] = pack_pair<T>(values[2 * i], values[2 * i + 1]);
    }
    *reinterpret_cast<Group<uint32_t, count / 2> *>(to) = pairs;
}

/// The sum over all lanes of a warp, always in the same order.
DEVICE float warp_sum(float value) {
    UNROLL for (int mask = 16; mask > 0; mask /= 2) {
        value += shuffle_xor(value, mask);
    }
    return value;
}

/// The maximum over all lanes of a warp.
DEVICE float warp_max(float value) {
    UNROLL for (int mask = 16; mask > 0; mask /= 2) {
        value = max_float(value, shuffle_xor(value, mask));
    }
    return value;
}
