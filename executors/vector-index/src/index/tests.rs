use super::*;

const IN_MEMORY: VectorConfig = VectorConfig {
    quantization: None,
    oversampling: 1,
    has_log: false,
};

fn entry(id: &str, parent: &str, vector: &[f32]) -> IndexEntry {
    IndexEntry {
        id: id.to_owned(),
        parent: parent.to_owned(),
        vector: vector.to_vec(),
        version: DocArrayVersion::V1,
        document: Bytes::new(),
    }
}

fn index(exact_below: usize, entries: Vec<IndexEntry>) -> Index {
    let mut index = Index::new(exact_below, IN_MEMORY);
    add(&mut index, entries);
    index
}

fn add(index: &mut Index, entries: Vec<IndexEntry>) {
    let new = entries.len();
    for change in index.changes(entries) {
        index.apply(change, None);
    }
    index.feed_graph(new);
}

fn found(index: &Index, vector: &[f32], limit: usize) -> Vec<String> {
    let hits = index.search(vector.to_vec(), limit, None).unwrap();
    hits.iter().map(|(_, kept)| kept.id.clone()).collect()
}

/// Directions that differ, from a fixed seed.
fn vectors(count: usize) -> Vec<Vec<f32>> {
    let mut state = 42u32;
    let mut next = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f32::from(u16::try_from(state >> 16).unwrap()) / 32_768.0 - 1.0
    };
    (0..count)
        .map(|_| (0..24).map(|_| next()).collect())
        .collect()
}

#[test]
fn the_nearest_by_cosine_come_first() {
    let index = index(
        100,
        vec![
            entry("right", "", &[2.0, 0.0]),
            entry("up", "", &[0.0, 1.0]),
            entry("between", "", &[1.0, 1.0]),
        ],
    );
    assert_eq!(found(&index, &[3.0, 0.1], 2), ["right", "between"]);
    assert_eq!(found(&index, &[0.0, 0.5], 9), ["up", "between", "right"]);
    let (hit, _) = index.search(vec![5.0, 0.0], 1, None).unwrap()[0];
    assert!((hit.score - 1.0).abs() < 1e-6);
}

#[test]
fn a_document_that_is_indexed_again_leaves_nothing_of_what_it_was() {
    let ids = |index: &Index| {
        let mut ids: Vec<String> = index.by_id.keys().cloned().collect();
        ids.sort();
        ids
    };
    let one = |id, parent| entry(id, parent, &[1.0]);
    let mut index = index(100, vec![one("d-0", "d"), one("d-1", "d"), one("e", "")]);
    add(&mut index, vec![one("d-0", "d")]);
    assert_eq!(ids(&index), ["d-0", "e"]);
    add(&mut index, vec![one("d", "")]);
    assert_eq!(ids(&index), ["d", "e"]);
    add(&mut index, vec![one("d-0", "d"), one("e-0", "e")]);
    assert_eq!(ids(&index), ["d-0", "e-0"]);
}

#[test]
fn an_empty_index_takes_vectors_of_any_length() {
    let mut index = index(100, vec![entry("a", "", &[1.0, 0.0])]);
    assert_eq!(index.dimensions(), Some(2));
    index.apply(IndexChange::Delete("a".to_owned()), None);
    assert_eq!((index.len(), index.dimensions()), (0, None));
    assert!(found(&index, &[1.0], 5).is_empty());
    add(&mut index, vec![entry("b", "", &[1.0, 0.0, 0.0])]);
    assert_eq!(found(&index, &[1.0, 0.0, 0.0], 5), ["b"]);
}

#[test]
fn the_graph_finds_what_an_exhaustive_search_finds() {
    let vectors = vectors(3000);
    let entries = |range: std::ops::Range<usize>| -> Vec<IndexEntry> {
        range
            .map(|it| entry(&it.to_string(), "", &vectors[it]))
            .collect()
    };
    let exact = index(usize::MAX, entries(0..3000));
    let mut graph = index(1000, entries(0..1200));
    for from in (1200..3000).step_by(100) {
        add(&mut graph, entries(from..from + 100));
    }
    assert_eq!(exact.in_graph(), 0);
    assert!(graph.in_graph() > 2500, "{}", graph.in_graph());
    let mut same = 0;
    for query in vectors.iter().step_by(30) {
        let wanted = found(&exact, query, 10);
        let seen = found(&graph, query, 10);
        assert_eq!(seen[0], wanted[0], "a vector is nearest to itself");
        same += seen.iter().filter(|id| wanted.contains(id)).count();
    }
    assert!(same >= 950, "{same} of 1000");
}

#[test]
fn deleted_vectors_are_not_found_and_are_gone_when_the_graph_is_rebuilt() {
    let vectors = vectors(2500);
    let entries = vectors.iter().enumerate();
    let entries = entries.map(|(it, vector)| entry(&it.to_string(), "", vector));
    let mut index = index(100, entries.collect());
    index.feed_graph_fully();
    assert!(!index.is_worn());
    for it in 0..2000 {
        index.apply(IndexChange::Delete(it.to_string()), None);
    }
    let check = |index: &Index| {
        assert_eq!(index.len(), 500);
        let found = found(index, &vectors[5], 10);
        assert_eq!(found.len(), 10);
        assert!(found.iter().all(|id| id.parse::<usize>().unwrap() >= 2000));
    };
    check(&index);
    assert!(index.is_worn());
    let compacted = index.compacted();
    assert!(!compacted.is_worn());
    assert_eq!(compacted.entries.len(), 500);
    check(&compacted);
}
