//! Maps keys to actions. Pure.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// What a key does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Quit,
    /// To what was shown before; from the processes, out of the program.
    Back,
    /// Moves the selection, or scrolls a log, by this many lines; negative is up.
    Move(isize),
    /// The same by this many screens.
    Page(isize),
    First,
    Last,
    /// Sorts by the column that is this many positions further on.
    SortBy(isize),
    Reverse,
    FollowNode,
    Logs,
    NextFlow,
    Help,
}

/// The keys and what they do, as the help lists them.
pub(super) const KEYS: [(&str, &str); 9] = [
    ("↑ ↓ k j PgUp PgDn", "select a process, scroll a log"),
    ("Home End g G", "to the first, to the last"),
    ("s > <", "sort by the next column, by the one before"),
    ("r", "reverse the order"),
    ("Enter f", "follow the node of the selected process"),
    ("l", "the log of the selected process"),
    (NEXT_FLOW, "the next flow"),
    ("Esc ?", "back, or quit; this help"),
    ("q Ctrl-C", "quit"),
];

/// The key for the next flow, which is of use only if there are several.
pub(super) const NEXT_FLOW: &str = "Tab";

/// The keys as the last lines of the screen list them.
pub(super) const SHORT_KEYS: [(&str, &str); 9] = [
    ("q", "quit"),
    ("↑↓", "select"),
    ("s<>", "sort"),
    ("r", "reverse"),
    ("Enter", "follow"),
    ("l", "logs"),
    (NEXT_FLOW, "flow"),
    ("Esc", "back"),
    ("?", "help"),
];

/// What a key does; `None` if it does nothing.
pub(super) fn action(key: KeyEvent) -> Option<Action> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let control = KeyModifiers::CONTROL;
    if key.modifiers.intersects(control | KeyModifiers::ALT) {
        let is_interrupt = key.code == KeyCode::Char('c') && key.modifiers == control;
        return is_interrupt.then_some(Action::Quit);
    }
    Some(match key.code {
        KeyCode::Char('q') => Action::Quit,
        KeyCode::Esc => Action::Back,
        KeyCode::Up | KeyCode::Char('k') => Action::Move(-1),
        KeyCode::Down | KeyCode::Char('j') => Action::Move(1),
        KeyCode::PageUp => Action::Page(-1),
        KeyCode::PageDown => Action::Page(1),
        KeyCode::Home | KeyCode::Char('g') => Action::First,
        KeyCode::End | KeyCode::Char('G') => Action::Last,
        KeyCode::Char('s' | '>') | KeyCode::Right => Action::SortBy(1),
        KeyCode::Char('<') | KeyCode::Left => Action::SortBy(-1),
        KeyCode::Char('r') => Action::Reverse,
        KeyCode::Enter | KeyCode::Char('f') => Action::FollowNode,
        KeyCode::Char('l') => Action::Logs,
        KeyCode::Tab => Action::NextFlow,
        KeyCode::Char('?' | 'h') => Action::Help,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: KeyCode, modifiers: KeyModifiers, expected: Option<Action>) {
        let found = action(KeyEvent::new(code, modifiers));
        assert_eq!(found, expected, "{code:?} {modifiers:?}");
    }

    #[test]
    fn keys_do_what_the_help_says() {
        let none = KeyModifiers::NONE;
        check(KeyCode::Char('q'), none, Some(Action::Quit));
        check(KeyCode::Esc, none, Some(Action::Back));
        check(KeyCode::Char('k'), none, Some(Action::Move(-1)));
        check(KeyCode::Down, none, Some(Action::Move(1)));
        check(KeyCode::Char('G'), KeyModifiers::SHIFT, Some(Action::Last));
        check(KeyCode::Char('>'), none, Some(Action::SortBy(1)));
        check(KeyCode::Char('<'), none, Some(Action::SortBy(-1)));
        check(KeyCode::Enter, none, Some(Action::FollowNode));
        check(KeyCode::Tab, none, Some(Action::NextFlow));
        check(KeyCode::Char('x'), none, None);
    }

    #[test]
    fn control_c_quits_and_other_letters_with_control_do_nothing() {
        let control = KeyModifiers::CONTROL;
        check(KeyCode::Char('c'), control, Some(Action::Quit));
        check(KeyCode::Char('q'), control, None);
        check(KeyCode::Char('c'), KeyModifiers::ALT, None);
    }

    #[test]
    fn a_key_release_does_nothing() {
        let key = KeyEvent {
            kind: KeyEventKind::Release,
            ..KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE)
        };
        assert_eq!(action(key), None);
    }
}
