use super::*;

fn entry(bytes: usize) -> IndexEntry {
    IndexEntry {
        id: "id".to_owned(),
        parent: String::new(),
        vector: Vec::new(),
        version: DocArrayVersion::V1,
        document: Bytes::from(vec![0; bytes]),
    }
}

#[test]
fn a_statement_writes_so_many_entries_and_bytes() {
    let sizes = |entries: &[IndexEntry]| -> Vec<usize> {
        portions(entries).map(<[IndexEntry]>::len).collect()
    };
    assert!(sizes(&[]).is_empty());
    assert_eq!(
        sizes(&vec![entry(1); 2 * ROWS_MAX + 1]),
        [ROWS_MAX, ROWS_MAX, 1]
    );
    let half = entry(ROWS_BYTES_MAX / 2);
    assert_eq!(sizes(&[half.clone(), half.clone(), half]), [2, 1]);
    assert_eq!(
        sizes(&[entry(1), entry(ROWS_BYTES_MAX + 1), entry(1)]),
        [1, 1, 1]
    );
}

#[test]
fn a_score_is_a_number_that_json_can_show() {
    let score = |metric: &str, distance: f64| {
        let with: With = serde_json::from_value(serde_json::json!({ "metric": metric })).unwrap();
        IndexTable::new(TableName::of_executor("x"), with).score(distance)
    };
    let check = |found: f32, expected: f32| assert!((found - expected).abs() < 1e-6, "{found}");
    check(score("cosine", -0.5), 0.5);
    check(score("ip", 2.0), -2.0);
    check(score("l2", 2.0), 2.0);
    assert_eq!(score("ip", f64::NEG_INFINITY).to_bits(), f32::MAX.to_bits());
    assert_eq!(score("ip", f64::NAN).to_bits(), f32::MIN.to_bits());
}
