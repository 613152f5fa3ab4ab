// All kernels, under the names in src/kernel.rs. Each takes one structure, which src/launcher.rs builds.

#include "attention_generic.cuh"
#include "layer_norm.cuh"
#include "matmul_f32.cuh"
#include "pooling.cuh"

// Stages of tiles. On an H100, more of them were not faster.
constexpr int LARGE_STAGES = 3;
constexpr int SMALL_STAGES = 4;

// Tiles of 128 × 128 for eight warps, and of 64 × 64 for four, if larger ones would leave multiprocessors idle.
#define MATMULS(suffix, Number)                                                                         \
    KERNEL(matmul_##suffix, MatmulParams, 256, 2) {                                                     \
        using Tiles = Matmul<Number, 128, 128, 64, 32, LARGE_STAGES>;                                   \
        SHARED(Tiles::Shared, shared);                                                                  \
        Tiles{p, shared, block_y() * 128, block_x() * 128}.run();                                       \
    }                                                                                                   \
    KERNEL(matmul_small_##suffix, MatmulParams, 128, 4) {                                               \
        using Tiles = Matmul<Number, 64, 64, 32, 32, SMALL_STAGES>;                                     \
        SHARED(Tiles::Shared, shared);                                                                  \
        Tiles{p, shared, block_y() * 64, block_x() * 64}.run();                                         \
    }

#define ATTENTION(suffix, T, head_size)                                                                 \
    KERNEL(attention_##head_size##_##suffix, AttentionParams, attention_warps<head_size> * 32, 4) {     \
        SHARED(AttentionShared<head_size>, shared);                                                     \
        attention_tiles<T, head_size>(p, shared);                                                       \
    }

#define ROW_KERNELS(suffix, T)                                                                          \
    KERNEL(embed_##suffix, EmbedParams, ROWS_PER_BLOCK * 32, 8) { embed<T>(p); }                        \
    KERNEL(layer_norm_##suffix, LayerNormParams, ROWS_PER_BLOCK * 32, 8) { layer_norm<T>(p); }          \
    KERNEL(attention_generic_##suffix, AttentionParams, GENERIC_WARPS * 32, 4) {                        \
        SHARED(AttentionGenericShared, shared);                                                         \
        attention_generic_tiles<T>(p, shared);                                                          \
    }                                                                                                   \
    KERNEL(pool_##suffix, PoolParams, POOL_THREADS, 8) {                                                \
        SHARED(PoolShared, shared);                                                                     \
        pool<T>(p, shared);                                                                             \
    }

MATMULS(f16, f16)
MATMULS(bf16, bf16)
MATMULS(tf32, tf32)
ATTENTION(f16, f16, 32)
ATTENTION(bf16, bf16, 32)
ATTENTION(f16, f16, 64)
ATTENTION(bf16, bf16, 64)
ROW_KERNELS(f32, float)
ROW_KERNELS(f16, f16)
ROW_KERNELS(bf16, bf16)

KERNEL(matmul_f32, MatmulParams, F32_THREADS, 2) {
    SHARED(MatmulF32Shared<2>, shared);
    MatmulF32<2>{p, shared, block_y() * 128, block_x() * 128}.run();
}

KERNEL(matmul_small_f32, MatmulParams, F32_THREADS, 2) {
    SHARED(MatmulF32Shared<1>, shared);
    MatmulF32<1>{p, shared, block_y() * 64, block_x() * 64}.run();
}
