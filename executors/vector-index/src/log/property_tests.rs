//! Whatever is written, and wherever a crash tears it: a log that is opened again says what was acknowledged.

use std::collections::BTreeMap;

use flow_core::DocArrayVersion;
use flow_index::IndexEntry;
use proptest::prelude::*;

use super::*;

/// What an index with these changes contains, by id.
type Model = BTreeMap<String, IndexEntry>;

/// Something that happens to a log.
#[derive(Debug, Clone)]
enum Step {
    /// A request is written and acknowledged.
    Append(Vec<IndexChange>),
    /// The process ends, and starts again.
    Restart,
    /// The log is written anew.
    Rewrite,
    /// The process is killed while it writes a request.
    Kill {
        changes: Vec<IndexChange>,
        /// How much of the record is on the disk, in thousandths.
        written: usize,
        /// After a power cut, the file may be as long as it was to be, with zeros where nothing was written.
        with_zeros: bool,
    },
    /// The process is killed while it writes the log anew.
    KillInRewrite(Vec<u8>),
}

fn any_change() -> impl Strategy<Value = IndexChange> {
    let put = (
        "[a-d]",
        "[a-d]?",
        any::<bool>(),
        prop::collection::vec(-4.0f32..4.0, 2),
        prop::collection::vec(any::<u8>(), 0..40),
    );
    let put = put.prop_map(|(id, parent, is_v1, vector, document)| {
        IndexChange::Put(IndexEntry {
            id,
            parent,
            vector,
            version: match is_v1 {
                true => DocArrayVersion::V1,
                false => DocArrayVersion::V2,
            },
            document: document.into(),
        })
    });
    prop_oneof![3 => put, 1 => "[a-d]".prop_map(IndexChange::Delete)]
}

fn any_changes() -> impl Strategy<Value = Vec<IndexChange>> {
    prop::collection::vec(any_change(), 1..5)
}

fn any_step() -> impl Strategy<Value = Step> {
    let kill = (any_changes(), 0..=1000_usize, any::<bool>());
    let kill = kill.prop_map(|(changes, written, with_zeros)| Step::Kill {
        changes,
        written,
        with_zeros,
    });
    let new_log = prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        6 => any_changes().prop_map(Step::Append),
        1 => Just(Step::Restart),
        1 => Just(Step::Rewrite),
        2 => kill,
        1 => new_log.prop_map(Step::KillInRewrite),
    ]
}

fn apply(model: &mut Model, change: IndexChange) {
    match change {
        IndexChange::Put(entry) => drop(model.insert(entry.id.clone(), entry)),
        IndexChange::Delete(id) => drop(model.remove(&id)),
    }
}

/// Opens the log of a folder, and says what is in it.
fn open(folder: &Path) -> (IndexLog, Model) {
    let mut found = Model::new();
    let log = IndexLog::open(folder, false, |change, _| apply(&mut found, change)).unwrap();
    (log, found)
}

/// Ends the process while it writes a record. Returns whether all of it was written.
fn kill(log: IndexLog, changes: &[IndexChange], (written, with_zeros): (usize, bool)) -> bool {
    let path = log.path();
    drop(log);
    let record = record::encode(changes);
    let mut written = record[..record.len() * written / 1000].to_vec();
    if with_zeros {
        written.resize(record.len(), 0);
    }
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(&written).unwrap();
    written == record
}

fn check(steps: Vec<Step>) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut model = Model::new();
    let (mut log, _) = open(folder);
    for step in steps {
        match step {
            Step::Append(changes) => {
                log.append(&changes).unwrap();
                changes.into_iter().for_each(|it| apply(&mut model, it));
                continue;
            }
            Step::Rewrite => {
                log.rewrite(
                    model
                        .values()
                        .cloned()
                        .map(|entry| Ok(IndexChange::Put(entry))),
                )
                .unwrap();
                continue;
            }
            Step::Restart => drop(log),
            Step::Kill {
                changes,
                written,
                with_zeros,
            } => {
                if kill(log, &changes, (written, with_zeros)) {
                    changes.into_iter().for_each(|it| apply(&mut model, it));
                }
            }
            Step::KillInRewrite(half) => {
                drop(log);
                fs::write(folder.join(NEW_LOG), half).unwrap();
            }
        }
        let found;
        (log, found) = open(folder);
        assert_eq!(found, model);
    }
    drop(log);
    assert_eq!(open(folder).1, model);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_log_that_is_opened_again_says_what_was_acknowledged(
        steps in prop::collection::vec(any_step(), 1..20)
    ) {
        check(steps);
    }
}
