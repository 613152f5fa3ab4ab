// All kernels, by the names that src/kernel.rs has for them. Each takes one structure, which src/launch.rs has too.

#include "attention_generic.cuh"
#include "pooling.cuh"
#include "matmul_f32.cuh"
#include "layer_norm.cuh"

// Tiles of 128 × 128 for eight warps, and of 64 × 64 for four, where the larger would leave processors without work.
#define PRODUCTS(suffix, Number)                                                                       \
    KERNEL(product_##suffix, ProductParameters, 256, 2) {                                               \
        using Tiles = Product<Number, 128, 128, 64, 32>;                                                \
        SHARED(Tiles::Shared, shared);                                                                  \
        Tiles{p, shared, block_y() * 128, block_x() * 128}.run();                                       \
    }                                                                                                   \
    KERNEL(product_small_##suffix, ProductParameters, 128, 4) {                                         \
        using Tiles = Product<Number, 64, 64, 32, 32>;                                                  \
        SHARED(Tiles::Shared, shared);                                                                  \
        Tiles{p, shared, block_y() * 64, block_x() * 64}.run();                                         \
    }

#define ATTENTION(suffix, T, width)                                                                     \
    KERNEL(attention_##width##_##suffix, AttentionParameters, attention_warps<width> * 32, 4) {         \
        SHARED(AttentionShared<width>, shared);                                                         \
        attend<T, width>(p, shared);                                                                    \
    }

#define ROWS(suffix, T)                                                                                 \
    KERNEL(embed_##suffix, EmbedParameters, ROWS_PER_BLOCK * 32, 8) { embed<T>(p); }                    \
    KERNEL(norm_##suffix, NormParameters, ROWS_PER_BLOCK * 32, 8) { norm<T>(p); }                       \
    KERNEL(attention_any_##suffix, AttentionParameters, ANY_WARPS * 32, 4) {                            \
        SHARED(AttentionAnyShared, shared);                                                             \
        attend_any<T>(p, shared);                                                                       \
    }                                                                                                   \
    KERNEL(pool_##suffix, PoolParameters, POOL_THREADS, 8) {                                            \
        SHARED(PoolShared, shared);                                                                     \
        pool<T>(p, shared);                                                                             \
    }

PRODUCTS(f16, f16)
PRODUCTS(bf16, bf16)
PRODUCTS(tf32, tf32)
ATTENTION(f16, f16, 32)
ATTENTION(bf16, bf16, 32)
ATTENTION(f16, f16, 64)
ATTENTION(bf16, bf16, 64)
ROWS(f32, float)
ROWS(f16, f16)
ROWS(bf16, bf16)

KERNEL(product_f32, ProductParameters, EXACT_THREADS, 2) {
    SHARED(ExactShared<2>, shared);
    ExactProduct<2>{p, shared, block_y() * 128, block_x() * 128}.run();
}

KERNEL(product_small_f32, ProductParameters, EXACT_THREADS, 2) {
    SHARED(ExactShared<1>, shared);
    ExactProduct<1>{p, shared, block_y() * 64, block_x() * 64}.run();
}
