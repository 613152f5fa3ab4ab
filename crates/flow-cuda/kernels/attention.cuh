// Attention within each text, on tensor cores.
//
// A warp takes 16 queries of one head and goes along the text's keys, 32 at a time: products, a soft-max whose
// largest value and sum are brought up to date at each step, and the products with the values
// (FlashAttention, Dao et al. 2022). No warp waits for another. Products of queries and keys never leave
// registers: what is C of the first product has the layout that A of the second needs.
//
// Soft-max is in 32-bit floats; weights are rounded to the products' format. A row of a token's states has all
// heads' queries, then all keys, then all values.
#pragma once

#include "device.cuh"

/// Queries of one text that are answered together.
struct Tile {
    int32_t text;   // its first token
    int32_t tokens; // how many it has
    int32_t query;  // the first of the queries, counted within the text
};

struct AttentionParameters {
    const void *states;
    void *context;
    const Tile *tiles;
    // For each head and each distance from a query to a key, from 1 - span to span - 1; or null.
    const float *distances;
    int32_t tile_count, heads, width, span;
    // Numbers from one token to the next.
    int32_t states_stride, context_stride;
    float scale;
};

constexpr int TILE_QUERIES = 16;
constexpr int STEP_KEYS = 32;
constexpr float LOG2_E = 1.44269504f;

/// How many warps a block has: what they keep in shared memory is the same for heads of either width.
template <int width>
constexpr int attention_warps = 128 / width;

template <int width>
struct AttentionShared {
    // Of each warp: some keys, then their values.
    unsigned char bytes[attention_warps<width>][2][STEP_KEYS * width * 2];
};

template <typename T, int width>
struct AttentionWarp {
    static constexpr int ROW_BYTES = width * 2;
    static constexpr int ROW_CHUNKS = ROW_BYTES / 16;
    static constexpr int STEP_TILES = STEP_KEYS / 8;
    static constexpr int WIDTH_TILES = width / 8;

    const AttentionParameters &p;
    const Tile tile;
    const int head;
    unsigned char (&shared)[2][STEP_KEYS * width * 2];

    // For rows g and g + 8.
    float largest[2] = {-INFINITY, -INFINITY};
    float total[2] = {};
    float out[WIDTH_TILES][4] = {};
    uint32_t queries[width / 16][4] = {};

    /// This head's part of a token's query, key or value.
    DEVICE_MEMBER const T *part(int token, int which) {
        const size_t row = size_t(tile.text + token) * p.states_stride;
        return static_cast<const T *>(p.states) + row + (which * p.heads + head) * width;
    }

    DEVICE_MEMBER void load_queries() {
        const int g = lane_number() / 4, t = lane_number() % 4;
        UNROLL for (int i = 0; i < width / 16; i++) {
            UNROLL for (int j = 0; j < 4; j++) {
                const int query = tile.query + g + j % 2 * 8;
                const int column = i * 16 + j / 2 * 8 + t * 2;
                const bool is_there = query < tile.tokens;
                queries[i][j] = is_there ? *reinterpret_cast<const uint32_t *>(part(query, 0) + column) : 0;
            }
        }
    }

    /// Puts keys and values from `first` on into shared memory, and zeros where the text ends.
    DEVICE_MEMBER void load_keys(int first) {
        warp_sync(); // All are done with the step before.
        UNROLL for (int i = 0; i < STEP_KEYS * ROW_CHUNKS / 32; i++) {
            const int number = lane_number() + i * 32;
            const int row = number / ROW_CHUNKS, chunk = number % ROW_CHUNKS;
            const bool is_there = first + row < tile.tokens;
            const int key = is_there ? first + row : 0;
            UNROLL for (int which = 0; which < 2; which++) {
                const T *from = part(key, 1 + which) + chunk * 8;
                copy_async(shared[which] + swizzled<ROW_BYTES>(row, chunk), from, is_there ? 16 : 0);
            }
        }
        copy_commit();
        copy_wait<0>();
        warp_sync();
    }

    DEVICE_MEMBER void multiply_keys(float (&products)[STEP_TILES][4]) {
        const int lane = lane_number();
        UNROLL for (int i = 0; i < width / 16; i++) {
            UNROLL for (int j = 0; j < STEP_TILES / 2; j++) {
                uint32_t keys[4];
                const int row = j * 16 + (lane & 7) + (lane >> 4) * 8;
                load_matrices(keys, shared[0] + swizzled<ROW_BYTES>(row, i * 2 + ((lane >> 3) & 1)));
                multiply<T>(products[j * 2], queries[i], keys);
                multiply<T>(products[j * 2 + 1], queries[i], keys + 2);
            }
        }
    }

    /// The logarithm of a weight, to base 2; nothing at all for a key that is not there.
    DEVICE_MEMBER float exponent(float product, int query, int key) {
        if (key >= tile.tokens) {
            return -INFINITY;
        }
        float sum = product * p.scale;
        if (p.distances != nullptr && query < tile.tokens) {
            sum += p.distances[size_t(head) * (2 * p.span - 1) + p.span - 1 + key - query];
        }
        return sum * LOG2_E;
    }

    /// Products become weights.
    DEVICE_MEMBER void soften(float (&products)[STEP_TILES][4], int first) {
        const int g = lane_number() / 4, t = lane_number() % 4;
        float high[2] = {largest[0], largest[1]};
        UNROLL for (int j = 0; j < STEP_TILES; j++) {
            UNROLL for (int i = 0; i < 4; i++) {
                const int query = tile.query + g + i / 2 * 8, key = first + j * 8 + t * 2 + i % 2;
                products[j][i] = exponent(products[j][i], query, key);
                high[i / 2] = larger(high[i / 2], products[j][i]);
            }
        }
        UNROLL for (int row = 0; row < 2; row++) {
            // Four lanes have a row's values; the first step has a key, so the largest is a number.
            high[row] = larger(high[row], shuffle_xor(high[row], 1));
            high[row] = larger(high[row], shuffle_xor(high[row], 2));
            const float less = exp2_quick(largest[row] - high[row]);
            largest[row] = high[row];
            total[row] *= less;
            UNROLL for (int j = 0; j < WIDTH_TILES; j++) {
                out[j][row * 2] *= less;
                out[j][row * 2 + 1] *= less;
            }
        }
        UNROLL for (int j = 0; j < STEP_TILES; j++) {
            UNROLL for (int i = 0; i < 4; i++) {
                products[j][i] = exp2_quick(products[j][i] - largest[i / 2]);
                total[i / 2] += products[j][i];
            }
        }
    }

    DEVICE_MEMBER void multiply_values(const float (&weights)[STEP_TILES][4]) {
        const int lane = lane_number();
        UNROLL for (int i = 0; i < STEP_KEYS / 16; i++) {
            const float(&low)[4] = weights[i * 2], (&high)[4] = weights[i * 2 + 1];
            const uint32_t a[4] = {
                narrow_pair<T>(low[0], low[1]),
                narrow_pair<T>(low[2], low[3]),
                narrow_pair<T>(high[0], high[1]),
                narrow_pair<T>(high[2], high[3]),
            };
            UNROLL for (int j = 0; j < WIDTH_TILES / 2; j++) {
                uint32_t values[4];
                const int row = i * 16 + (lane & 15);
                load_matrices_turned(values, shared[1] + swizzled<ROW_BYTES>(row, j * 2 + (lane >> 4)));
                multiply<T>(out[j * 2], a, values);
                multiply<T>(out[j * 2 + 1], a, values + 2);
            }
        }
    }

    DEVICE_MEMBER void store() {
        const int g = lane_number() / 4, t = lane_number() % 4;
        UNROLL for (int row = 0; row < 2; row++) {
            float sum = total[row] + shuffle_xor(total[row], 1);
            sum += shuffle_xor(sum, 2);
            const int query = tile.query + g + row * 8;
            if (query < tile.tokens) {
                T *to = static_cast<T *>(p.context) + size_t(tile.text + query) * p.context_stride + head * width;
                UNROLL for (int j = 0; j < WIDTH_TILES; j++) {
                    const uint32_t pair = narrow_pair<T>(out[j][row * 2] / sum, out[j][row * 2 + 1] / sum);
                    *reinterpret_cast<uint32_t *>(to + j * 8 + t * 2) = pair;
                }
            }
        }
    }

    DEVICE_MEMBER void run() {
        load_queries();
        for (int first = 0; first < tile.tokens; first += STEP_KEYS) {
            float weights[STEP_TILES][4] = {};
            load_keys(first);
            multiply_keys(weights);
            soften(weights, first);
            multiply_values(weights);
        }
        store();
    }
};

/// Each warp of each block takes a tile; neighbours have the same head, so that they find its keys in the cache.
template <typename T, int width>
DEVICE void attend(const AttentionParameters &p, AttentionShared<width> &shared) {
    const int number = block_x() * attention_warps<width> + warp_number();
    if (number < p.tile_count * p.heads) {
        AttentionWarp<T, width> warp{p, p.tiles[number % p.tile_count], number / p.tile_count,
                                     shared.bytes[warp_number()]};
        warp.run();
    }
}
