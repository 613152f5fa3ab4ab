//! Compares tiles with the portable ones. The emulator runs AMX on any x86-64 machine with Linux; results of 8-bit integers
//! need AVX-512 too.

use super::*;
use crate::bf16 as format;
use crate::int8::{ColumnScales, Int8Tile, RowScale, STEP};
use crate::portable;
use crate::tile::{PANEL, Tile};

const C_STRIDE: usize = PANEL + 3;
const ROW_COUNTS: [usize; 7] = [1, 2, 15, 16, 17, 31, 32];
const STEP_COUNTS: [usize; 8] = [1, 3, 15, 16, 17, 31, 32, 48];

fn install_emulator() {
    flow_amx_emulator::install().expect("the process may install signal handlers");
}

/// Compares the sums of all rows, and checks that nothing else was written.
fn check(what: &str, actual: &[f32], expected: &[f32], error_max: f32) {
    for (index, (actual, expected)) in actual.iter().zip(expected).enumerate() {
        let is_padding = index % C_STRIDE >= PANEL;
        let is_right = if is_padding {
            actual.is_nan()
        } else {
            (actual - expected).abs() <= error_max
        };
        assert!(
            is_right,
            "{what}, value {index}: {actual}, expected {expected}"
        );
    }
}

/// Pseudo-random bf16 values between -1 and 1.
fn values(count: usize, seed: usize) -> Vec<u16> {
    let value = |n: usize| ((n * 7919 + seed * 104_729) % 2003) as f32 / 1001.0 - 1.0;
    (0..count).map(|n| format::from_f32(value(n))).collect()
}

/// Runs a kernel on a tile of bf16 of `rows` rows and `k` steps, and returns its sums.
fn sums_bf16(rows: usize, k: usize, kernel: impl FnOnce(&mut Tile<'_, u16>)) -> Vec<f32> {
    const A_STRIDE: usize = 96;
    let (a, b) = (values(rows * A_STRIDE, 1), values(k * 2 * PANEL, 2));
    let bias = std::array::from_fn(|column| column as f32 / 8.0);
    let mut c = vec![f32::NAN; rows * C_STRIDE];
    let mut tile = Tile {
        rows,
        k,
        a: &a,
        a_stride: A_STRIDE,
        b: &b,
        b_stride: 2 * PANEL,
        b_half: PANEL,
        c: &mut c,
        c_stride: C_STRIDE,
        bias: &bias,
        ahead: Some(rows % 3),
    };
    tile.check(2, ROWS);
    kernel(&mut tile);
    c
}

#[test]
fn tiles_of_bf16_equal_portable_ones_and_write_nothing_else() {
    install_emulator();
    for rows in ROW_COUNTS {
        for k in STEP_COUNTS {
            // SAFETY: the emulator runs AMX's instructions, and `sums_bf16` has checked the tile.
            let actual = sums_bf16(rows, k, |tile| unsafe { tile_bf16(tile) });
            let expected = sums_bf16(rows, k, |tile| {
                for row in 0..tile.rows {
                    portable::tile_bf16(&mut Tile {
                        rows: 1,
                        a: &tile.a[row * tile.a_stride..],
                        c: &mut tile.c[row * C_STRIDE..],
                        ..*tile
                    });
                }
            });
            check(&format!("{rows} rows, {k} steps"), &actual, &expected, 1e-4);
        }
    }
    release();
    assert_eq!(CONFIGURED.get(), None);
}

/// Runs a kernel on a tile of 8-bit integers of `rows` rows and `k` steps, and returns its results.
fn results_int8(rows: usize, k: usize, kernel: impl FnOnce(&mut Int8Tile<'_>)) -> Vec<f32> {
    const A_STRIDE: usize = 192 + 5;
    let byte = |n: usize| (n * 7919 % 251) as u8;
    let a: Vec<u8> = (0..rows * A_STRIDE).map(byte).collect();
    let b: Vec<i8> = (0..k * STEP * PANEL).map(|n| byte(n + 7) as i8).collect();
    let row_scales: Vec<RowScale> = (0..rows)
        .map(|row| RowScale {
            scale: 0.01 * (row + 1) as f32,
            zero: (row * 37 % 255) as i32,
        })
        .collect();
    let columns = ColumnScales {
        scales: std::array::from_fn(|column| 0.002 * (column + 1) as f32),
        sums: std::array::from_fn(|column| column as i32 * 31 - 500),
    };
    let bias = std::array::from_fn(|column| column as f32 / 8.0);
    let mut c = vec![f32::NAN; rows * C_STRIDE];
    let mut tile = Int8Tile {
        rows,
        k,
        a: &a,
        a_stride: A_STRIDE,
        row_scales: &row_scales,
        b: &b,
        b_stride: STEP * PANEL,
        b_half: STEP * PANEL / 2,
        columns: &columns,
        c: &mut c,
        c_stride: C_STRIDE,
        bias: &bias,
        ahead: Some(rows % 3),
    };
    tile.check(ROWS);
    kernel(&mut tile);
    c
}

#[test]
fn tiles_of_8_bit_integers_equal_portable_ones_to_the_last_bit() {
    if !is_x86_feature_detected!("avx512f") {
        println!("skipped: this machine has no AVX-512, which turns sums into results");
        return;
    }
    install_emulator();
    for rows in ROW_COUNTS {
        for k in STEP_COUNTS {
            // SAFETY: the emulator runs AMX's instructions, the machine has AVX-512, and `results_int8` has checked the tile.
            let actual = results_int8(rows, k, |tile| unsafe { tile_int8(tile) });
            let expected = results_int8(rows, k, |tile| {
                for row in 0..tile.rows {
                    portable::tile_int8(&mut Int8Tile {
                        rows: 1,
                        a: &tile.a[row * tile.a_stride..],
                        row_scales: &tile.row_scales[row..],
                        c: &mut tile.c[row * C_STRIDE..],
                        ..*tile
                    });
                }
            });
            check(&format!("{rows} rows, {k} steps"), &actual, &expected, 0.0);
        }
    }
    release();
}
