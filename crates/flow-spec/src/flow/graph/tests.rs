use super::*;

/// Parents by number; -1 is the gateway. The last node is the exit.
fn graph(parents: &[&[i32]]) -> Graph {
    let parent = |it: &i32| usize::try_from(*it).map_or(Parent::Gateway, Parent::Node);
    let parents: Vec<Vec<_>> = parents
        .iter()
        .map(|it| it.iter().map(parent).collect())
        .collect();
    let exit = parents
        .len()
        .checked_sub(1)
        .map_or(Parent::Gateway, Parent::Node);
    Graph {
        parents,
        exit: vec![exit],
    }
}

#[track_caller]
fn check(parents: &[&[i32]], order: &[usize], awaited: &[usize]) {
    let graph = graph(parents);
    let all = graph.awaited();
    let awaits: Vec<_> = (0..all.len()).filter(|node| all[*node]).collect();
    assert_eq!(
        (graph.order(), awaits),
        (order.to_vec(), awaited.to_vec()),
        "{parents:?}"
    );
    assert_eq!(graph.cycles(), Vec::<Vec<usize>>::new());
}

#[track_caller]
fn check_cycles(parents: &[&[i32]], cycles: &[&[usize]]) {
    assert_eq!(graph(parents).cycles(), cycles, "{parents:?}");
}

#[test]
fn parents_come_before_children_and_otherwise_the_file_decides() {
    check(&[], &[], &[]);
    check(&[&[-1]], &[0], &[0]);
    check(&[&[-1], &[0], &[1]], &[0, 1, 2], &[0, 1, 2]);
    check(&[&[1], &[2], &[-1]], &[2, 1, 0], &[2]);
    check(&[&[-1], &[-1], &[0, 1]], &[0, 1, 2], &[0, 1, 2]);
    check(&[&[2], &[-1], &[-1], &[0, 1]], &[1, 2, 0, 3], &[0, 1, 2, 3]);
}

#[test]
fn the_reply_waits_only_for_ancestors_of_the_exit() {
    check(&[&[-1], &[-1]], &[0, 1], &[1]);
    check(&[&[-1], &[0], &[0]], &[0, 1, 2], &[0, 2]);
}

#[test]
fn cycles_begin_with_the_node_written_first_and_follow_the_documents() {
    check_cycles(&[&[1], &[0]], &[&[0, 1]]);
    check_cycles(&[&[2], &[0], &[1]], &[&[0, 1, 2]]);
    check_cycles(&[&[1], &[2], &[0]], &[&[0, 2, 1]]);
    check_cycles(&[&[-1], &[2, 0], &[1]], &[&[1, 2]]);
}

#[test]
fn each_cycle_is_found_once_and_nodes_behind_it_are_not_in_it() {
    check_cycles(&[&[1], &[0], &[3], &[2]], &[&[0, 1], &[2, 3]]);
    check_cycles(&[&[1], &[2], &[1]], &[&[1, 2]]);
    check_cycles(&[&[1], &[0], &[1], &[2]], &[&[0, 1]]);
}
