// Attention within each text, on tensor cores.
//
// A warp processes 16 queries of one head. It iterates over the text's keys, 32 at a time: scores, an online softmax whose
// maximum and sum are updated in each step, and products with the values (FlashAttention, Dao et al. 2022). Warps do not wait
// for each other. Scores stay in registers: the layout of C of the first product is that of A of the second.
//
// Softmax is computed in 32-bit floats, and the weights are rounded to the format of the products. A row of states has the
// queries of all heads, then all keys, then all values.
#pragma once

#include "device.cuh"

/// Queries of one text that are processed together.
struct QueryTile {
    int32_t text;   // index of the text's first token
    int32_t tokens; // number of tokens of the text
    int32_t query;  // the first query, as a position within the text
};

struct AttentionParams {
    const void *states;
    void *context;
    const QueryTile *tiles;
    // For each head, a value for each distance from a query to a key, from 1 - max_tokens to max_tokens - 1. May be null.
    const float *position_bias;
    int32_t tile_count, heads, head_size, max_tokens;
    // Values from one token to the next.
    int32_t states_stride, context_stride;
    float scale;
};

constexpr int TILE_QUERIES = 16;
constexpr int STEP_KEYS = 32;

/// Warps of a block. All take the same amount of shared memory, for heads of either size.
template <int head_size>
constexpr int attention_warps = 128 / head_size;

template <int head_size>
struct AttentionShared {
    // For each warp: the keys of a step, then their values.
    unsigned char bytes[attention_warps<head_size>][2][STEP_KEYS * head_size * 2];
};

template <typename T, int head_size>
struct AttentionWarp {
    static constexpr int ROW_BYTES = head_size * 2;
    static constexpr int ROW_CHUNKS = ROW_BYTES / 16;
    static constexpr int STEP_TILES = STEP_KEYS / 8;
    static constexpr int HEAD_TILES = head_size / 8;

    const AttentionParams &p;
    const QueryTile tile;
    const int head;
    unsigned char (&shared)[2][STEP_KEYS * head_size * 2];

    // For rows g and g + 8.
    float maximum[2] = {-INFINITY, -INFINITY};
    float total[2] = {};
    float out[HEAD_TILES][4] = {};
    uint32_t queries[head_size / 16][4] = {};

    /// This head's query (0), key (1) or value (2) of a token.
    DEVICE_MEMBER const T *part(int token, int part_index) {
        const size_t row = size_t(tile.text + token) * p.states_stride;
        return static_cast<const T *>(p.states) + row + (part_index * p.heads + head) * head_size;
    }

    DEVICE_MEMBER void load_queries() {
        const int g = lane_index() / 4, t = lane_index() % 4;
        UNROLL for (int i = 0; i < head_size / 16; i++) {
            UNROLL for (int j = 0; j < 4; j++) {
                const int query = tile.query + g + j % 2 * 8;
                const int column = i * 16 + j / 2 * 8 + t * 2;
                const bool exists = query < tile.tokens;
                queries[i][j] = exists ? *reinterpret_cast<const uint32_t *>(part(query, 0) + column) : 0;
            }
        }
    }

    /// Copies the keys and values from `first` on to shared memory, and zeros beyond the end of the text.
    DEVICE_MEMBER void load_keys(int first) {
        warp_sync(); // All lanes have finished the previous step.
        UNROLL for (int i = 0; i < STEP_KEYS * ROW_CHUNKS / 32; i++) {
            const int index = lane_index() + i * 32;
            const int row = index / ROW_CHUNKS, chunk = index % ROW_CHUNKS;
            const bool exists = first + row < tile.tokens;
            const int key = exists ? first + row : 0;
            UNROLL for (int kind = 0; kind < 2; kind++) {
                const T *from = part(key, 1 + kind) + chunk * 8;
                copy_async(shared[kind] + swizzled<ROW_BYTES>(row, chunk), from, exists ? 16 : 0);
            }
        }
        copy_commit();
        copy_wait<0>();
        warp_sync();
    }

    /// Computes the scores of a step.
    DEVICE_MEMBER void multiply_keys(float (&products)[STEP_TILES][4]) {
        const int lane = lane_index();
        UNROLL for (int i = 0; i < head_size / 16; i++) {
            UNROLL for (int j = 0; j < STEP_TILES / 2; j++) {
                uint32_t keys[4];
                const int row = j * 16 + (lane & 7) + (lane >> 4) * 8;
                load_matrices(keys, shared[0] + swizzled<ROW_BYTES>(row, i * 2 + ((lane >> 3) & 1)));
                multiply<T>(products[j * 2], queries[i], keys);
                multiply<T>(products[j * 2 + 1], queries[i], keys + 2);
            }
        }
    }

    /// The scaled and biased score, times log2(e). For a key beyond the end of the text, minus infinity.
    DEVICE_MEMBER float exponent(float product, int query, int key) {
        if (key >= tile.tokens) {
            return -INFINITY;
        }
        float sum = product * p.scale;
        if (p.position_bias != nullptr && query < tile.tokens) {
            sum += p.position_bias[size_t(head) * (2 * p.max_tokens - 1) + p.max_tokens - 1 + key - query];
        }
        return sum * LOG2_E;
    }

    /// Turns scores into weights relative to the maximum so far, and rescales the previous sums to it.
    DEVICE_MEMBER void softmax_step(float (&products)[STEP_TILES][4], int first) {
        const int g = lane_index() / 4, t = lane_index() % 4;
        float new_maximum[2] = {maximum[0], maximum[1]};
        UNROLL for (int j = 0; j < STEP_TILES; j++) {
            UNROLL for (int i = 0; i < 4; i++) {
                const int query = tile.query + g + i / 2 * 8, key = first + j * 8 + t * 2 + i % 2;
                products[j][i] = exponent(products[j][i], query, key);
                new_maximum[i / 2] = max_float(new_maximum[i / 2], products[j][i]);
            }
        }
        UNROLL for (int row = 0; row < 2; row++) {
            // Four lanes share a row. The first step has at least one key, so the maximum is finite.
            new_maximum[row] = max_float(new_maximum[row], shuffle_xor(new_maximum[row], 1));
            new_maximum[row] = max_float(new_maximum[row], shuffle_xor(new_maximum[row], 2));
            const float rescale = exp2_approx(maximum[row] - new_maximum[row]);
            maximum[row] = new_maximum[row];
            total[row] *= rescale;
            UNROLL for (int j = 0; j < HEAD_TILES; j++) {
                out[j][row * 2] *= rescale;
                out[j][row * 2 + 1] *= rescale;
            }
        }
        UNROLL for (int j = 0; j < STEP_TILES; j++) {
            UNROLL for (int i = 0; i < 4; i++) {
                products[j][i] = exp2_approx(products[j][i] - maximum[i / 2]);
                total[i / 2] += products[j][i];
            }
        }
    }

    /// Adds the values of a step, multiplied by their weights.
    DEVICE_MEMBER void multiply_values(const float (&weights)[STEP_TILES][4]) {
        const int lane = lane_index();
        UNROLL for (int i = 0; i < STEP_KEYS / 16; i++) {
            const float(&low)[4] = weights[i * 2], (&high)[4] = weights[i * 2 + 1];
            const uint32_t a[4] = {
                pack_pair<T>(low[0], low[1]),
                pack_pair<T>(low[2], low[3]),
                pack_pair<T>(high[0], high[1]),
                pack_pair<T>(high[2], high[3]),
            };
            UNROLL for (int j = 0; j < HEAD_TILES / 2; j++) {
                uint32_t values[4];
                const int row = i * 16 + (lane & 15);
                load_matrices_transposed(values, shared[1] + swizzled<ROW_BYTES>(row, j * 2 + (lane >> 4)));
                multiply<T>(out[j * 2], a, values);
                multiply<T>(out[j * 2 + 1], a, values + 2);
            }
        }
    }

    /// Normalizes the sums, and writes the context.
    DEVICE_MEMBER void store() {
        const int g = lane_index() / 4, t = lane_index() % 4;
        UNROLL for (int row = 0; row < 2; row++) {
            float sum = total[row] + shuffle_xor(total[row], 1);
            sum += shuffle_xor(sum, 2);
            const int query = tile.query + g + row * 8;
            if (query < tile.tokens) {
                T *to = static_cast<T *>(p.context) + size_t(tile.text + query) * p.context_stride + head * head_size;
                UNROLL for (int j = 0; j < HEAD_TILES; j++) {
                    const uint32_t pair = pack_pair<T>(out[j][row * 2] / sum, out[j][row * 2 + 1] / sum);
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
            softmax_step(weights, first);
            multiply_values(weights);
        }
        store();
    }
};

/// Each warp of each block processes a tile. Neighbouring tiles have the same head, whose keys are then in the cache.
template <typename T, int head_size>
DEVICE void attention_tiles(const AttentionParams &p, AttentionShared<head_size> &shared) {
    const int index = block_x() * attention_warps<head_size> + warp_index();
    if (index < p.tile_count * p.heads) {
        AttentionWarp<T, head_size> warp{p, p.tiles[index % p.tile_count], index / p.tile_count,
                                     shared.bytes[warp_index()]};
        warp.run();
    }
}
