//! The store on disk: what is found again, after a crash too, and what it takes.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};

use super::disk::Disk;
use super::key::VectorKey;
use super::segment;
use crate::encoder::EncodeRequest;
use crate::truncation::TruncationDirection;

const WIDTH: usize = 3;

fn open(root: &Path, max_bytes: u64) -> Disk {
    Disk::open(root, "model", max_bytes, WIDTH).unwrap()
}

fn key(n: usize) -> VectorKey {
    VectorKey::new(&format!("text {n}"), EncodeRequest::default(), true)
}

fn row(n: usize) -> [f32; WIDTH] {
    let value = u16::try_from(n).unwrap();
    [f32::from(value), -0.0, f32::MIN_POSITIVE]
}

fn fill(disk: &mut Disk, texts: std::ops::Range<usize>) {
    for n in texts {
        disk.insert(&key(n), n, &row(n)).unwrap();
    }
}

/// The texts among these whose vector is found. Each must be right.
fn found(disk: &mut Disk, texts: std::ops::Range<usize>) -> Vec<usize> {
    let mut values = [0.0; WIDTH];
    let mut is_found = |n: &usize| {
        let tokens = disk.get(&key(*n), &mut values).unwrap();
        if let Some(tokens) = tokens {
            assert_eq!(
                (tokens, values.map(f32::to_bits)),
                (*n, row(*n).map(f32::to_bits))
            );
        }
        tokens.is_some()
    };
    texts.filter(|n| is_found(n)).collect()
}

/// The files with this extension, the oldest first.
fn files(root: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root.join("model")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| path.extension().unwrap() == extension)
        .collect();
    paths.sort();
    paths
}

fn bytes(root: &Path) -> u64 {
    let paths = [files(root, "vectors"), files(root, "keys")].concat();
    paths
        .iter()
        .map(|path| fs::metadata(path).unwrap().len())
        .sum()
}

#[test]
fn vectors_are_found_by_the_next_process() {
    let root = tempfile::tempdir().unwrap();
    fill(&mut open(root.path(), 1 << 20), 0..100);
    let mut again = open(root.path(), 1 << 20);
    assert_eq!(again.len(), 100);
    assert_eq!(found(&mut again, 0..120), Vec::from_iter(0..100));
    // It continues the same segment.
    fill(&mut again, 100..110);
    drop(again);
    assert_eq!(files(root.path(), "vectors").len(), 1);
    assert_eq!(found(&mut open(root.path(), 1 << 20), 0..120).len(), 110);
}

#[test]
fn normalized_and_unnormalized_vectors_of_a_text_are_stored_separately() {
    let request = EncodeRequest::default();
    assert_ne!(
        VectorKey::new("text", request, true),
        VectorKey::new("text", request, false)
    );
}

#[test]
fn vectors_of_a_text_that_is_cut_at_either_side_are_stored_separately() {
    let key = |direction| {
        let request = EncodeRequest {
            direction,
            ..EncodeRequest::default()
        };
        VectorKey::new("text", request, true)
    };
    assert_ne!(
        key(TruncationDirection::Left),
        key(TruncationDirection::Right)
    );
}

#[test]
fn vectors_of_a_text_after_different_prompts_are_stored_separately() {
    let keys = [
        (None, "q: text"),
        (Some("q: "), "text"),
        (Some("q"), ": text"),
        (Some(""), "q: text"),
    ];
    let keys = keys.map(|(prompt, text)| {
        let request = EncodeRequest {
            prompt,
            ..EncodeRequest::default()
        };
        VectorKey::new(text, request, true)
    });
    for (at, key) in keys.iter().enumerate() {
        assert!(keys[..at].iter().all(|other| other != key), "{at}");
    }
}

#[test]
fn processes_that_share_a_folder_write_to_segments_of_their_own_and_read_all() {
    let root = tempfile::tempdir().unwrap();
    let (mut one, mut other) = (open(root.path(), 1 << 20), open(root.path(), 1 << 20));
    fill(&mut one, 0..10);
    fill(&mut other, 10..20);
    assert_eq!(files(root.path(), "vectors").len(), 2);
    assert_eq!(found(&mut open(root.path(), 1 << 20), 0..20).len(), 20);
}

#[test]
fn a_crash_in_the_middle_of_a_record_loses_that_record_only() {
    let written = tempfile::tempdir().unwrap();
    fill(&mut open(written.path(), 1 << 20), 0..3);
    let record = usize::try_from(segment::bytes_of_record(WIDTH)).unwrap() - 8;
    for extension in ["vectors", "keys"] {
        let whole = fs::read(&files(written.path(), extension)[0]).unwrap();
        for len in 0..whole.len() {
            let root = tempfile::tempdir().unwrap();
            fill(&mut open(root.path(), 1 << 20), 0..3);
            let file = &files(root.path(), extension)[0];
            fs::write(file, &whole[..len]).unwrap();
            let records = if extension == "keys" {
                len / 8
            } else {
                len / record
            };
            let mut disk = open(root.path(), 1 << 20);
            assert_eq!(
                found(&mut disk, 0..3),
                Vec::from_iter(0..records),
                "{extension} {len}"
            );
            // The next process continues where the last one broke off.
            fill(&mut disk, 3..6);
            drop(disk);
            let all: Vec<usize> = (0..records).chain(3..6).collect();
            assert_eq!(
                found(&mut open(root.path(), 1 << 20), 0..6),
                all,
                "{extension} {len}"
            );
        }
    }
}

#[test]
fn a_damaged_record_is_absent_and_the_others_are_found() {
    let root = tempfile::tempdir().unwrap();
    fill(&mut open(root.path(), 1 << 20), 0..3);
    let file = &files(root.path(), "vectors")[0];
    let whole = fs::read(file).unwrap();
    for place in 0..whole.len() {
        let open_file = OpenOptions::new().write(true).open(file).unwrap();
        open_file
            .write_all_at(&[whole[place] ^ 1], place as u64)
            .unwrap();
        let damaged = place / (whole.len() / 3);
        let others: Vec<usize> = (0..3).filter(|n| *n != damaged).collect();
        assert_eq!(
            found(&mut open(root.path(), 1 << 20), 0..3),
            others,
            "byte {place}"
        );
        open_file
            .write_all_at(&whole[place..=place], place as u64)
            .unwrap();
    }
}

#[test]
fn the_folder_stays_within_its_size_and_the_oldest_vectors_go() {
    let root = tempfile::tempdir().unwrap();
    let max = 16 * 10 * segment::bytes_of_record(WIDTH);
    let mut disk = open(root.path(), max);
    for start in (0..1_000).step_by(50) {
        fill(&mut disk, start..start + 50);
        assert!(bytes(root.path()) <= max, "{} of {max}", bytes(root.path()));
    }
    drop(disk);
    let kept = found(&mut open(root.path(), max), 0..1_000);
    assert!((100..=160).contains(&kept.len()), "{}", kept.len());
    assert_eq!(kept, Vec::from_iter(1_000 - kept.len()..1_000));
    // Another model in the same folder makes room in the same way.
    let mut other = Disk::open(root.path(), "other", max, WIDTH).unwrap();
    fill(&mut other, 0..100);
    assert!(found(&mut open(root.path(), max), 0..1_000).len() < kept.len());
}

#[test]
fn the_files_of_a_model_are_found_through_links_but_not_in_circles() {
    let root = tempfile::tempdir().unwrap();
    let (model, blob) = (root.path().join("model"), root.path().join("blob"));
    fs::create_dir_all(model.join("pooling")).unwrap();
    fs::write(&blob, "weights").unwrap();
    fs::write(model.join("pooling/config.json"), "{}").unwrap();
    symlink(&blob, model.join("model.safetensors")).unwrap();
    symlink(root.path(), model.join("circle")).unwrap();
    symlink("nowhere", model.join("broken")).unwrap();
    let found = super::files(&model).unwrap();
    let root = root.path().canonicalize().unwrap();
    let expected = [&root.join("blob"), &root.join("model/pooling/config.json")];
    assert!(expected.iter().all(|it| found.contains(it)), "{found:?}");
    assert_eq!(
        found.len(),
        3,
        "and the link to the folder itself: {found:?}"
    );
}

#[test]
fn a_segment_that_another_process_removed_is_no_failure() {
    let root = tempfile::tempdir().unwrap();
    let max = 16 * 10 * segment::bytes_of_record(WIDTH);
    let mut reader = open(root.path(), max);
    let mut writer = open(root.path(), max);
    fill(&mut reader, 0..5);
    fill(&mut writer, 5..1_000);
    assert!(found(&mut reader, 0..1_000).len() <= 160);
    fill(&mut reader, 0..200);
    assert_eq!(found(&mut open(root.path(), max), 199..200), [199]);
}
