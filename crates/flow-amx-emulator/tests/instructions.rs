//! Executes real instructions, as the compiler's assembler emits them.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(unsafe_code, reason = "AMX's intrinsics are not stable")]

use std::arch::asm;
use std::process::Command;

#[repr(C, align(64))]
struct Configuration([u8; 64]);

/// A configuration of three tiles of sixteen rows of 64 bytes: sums, and pairs of bf16.
fn configuration() -> Configuration {
    let mut bytes = [0; 64];
    bytes[0] = 1;
    for tile in 0..3 {
        bytes[16 + 2 * tile] = 64;
        bytes[48 + tile] = 16;
    }
    Configuration(bytes)
}

#[test]
fn a_product_is_computed_and_other_registers_are_preserved() {
    flow_amx_emulator::install().unwrap();
    let one = 0x3f80_u16;
    let (a, b) = ([[one; 32]; 16], [[one; 32]; 16]);
    let mut sums = [[0.5_f32; 16]; 20];
    let (configuration, mut stored) = (configuration(), Configuration([9; 64]));
    let mut witness = 0x1234_5678_u64;
    // SAFETY: each memory operand has sixteen rows of 64 bytes. The emulator is installed if the machine lacks AMX.
    unsafe {
        asm!(
            "ldtilecfg [{configuration}]",
            "sttilecfg [{stored}]",
            "tileloadd tmm0, [{c} + {stride}]",
            "tileloadd tmm1, [{a} + {stride}]",
            "tileloadd tmm2, [{b} + {stride}]",
            "tdpbf16ps tmm0, tmm1, tmm2",
            "tilestored [{c} + {stride} + 256], tmm0",
            "tilerelease",
            "add {witness}, 1",
            configuration = in(reg) &raw const configuration,
            stored = in(reg) &raw mut stored,
            a = in(reg) &raw const a,
            b = in(reg) &raw const b,
            c = in(reg) &raw mut sums,
            stride = in(reg) 64_usize,
            witness = inout(reg) witness,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
    }
    assert_eq!(stored.0, configuration.0);
    assert_eq!(sums[..4], [[0.5; 16]; 4]);
    assert_eq!(sums[4..], [[32.5; 16]; 16]);
    assert_eq!(witness, 0x1234_5679);
}

/// Run in a child process by the next test.
#[test]
fn child_process_that_violates_a_rule() {
    if std::env::var_os("FLOW_TEST_AMX_FAULT").is_none() {
        return;
    }
    flow_amx_emulator::install().unwrap();
    // SAFETY: without a configuration, the instruction has no effect but the signal.
    unsafe { asm!("tilezero tmm0", out("tmm0") _, options(nostack)) };
}

#[test]
fn a_violation_of_the_manuals_rules_ends_the_process_with_a_reason() {
    let itself = std::env::current_exe().unwrap();
    let mut command = Command::new(itself);
    command.args([
        "--exact",
        "child_process_that_violates_a_rule",
        "--nocapture",
    ]);
    let output = command.env("FLOW_TEST_AMX_FAULT", "1").output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(stderr.contains("the tiles are not configured"), "{stderr}");
}
