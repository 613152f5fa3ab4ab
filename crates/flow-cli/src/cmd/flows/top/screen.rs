//! The terminal as the screen of a program: entered once, and restored however the program ends.

use std::io::{self, IsTerminal, Stdout};
use std::panic;

use crossterm::cursor::Show;
use crossterm::execute;
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

/// The screen. Dropping it restores the terminal.
pub(super) struct Screen {
    pub(super) terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Whether the program has a terminal to read keys from and to draw on.
    pub(super) fn is_there() -> bool {
        io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    pub(super) fn open() -> io::Result<Self> {
        restore_at_panic();
        enable_raw_mode()?;
        // From here on, an error restores the terminal as well.
        let screen = Self {
            terminal: Terminal::new(CrosstermBackend::new(io::stdout()))?,
        };
        execute!(io::stdout(), EnterAlternateScreen)?;
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// A message of a panic is printed before anything is dropped, and would vanish with the screen.
fn restore_at_panic() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        restore();
        report(info);
    }));
}

/// A terminal that is gone needs no restoring.
fn restore() {
    drop(execute!(io::stdout(), LeaveAlternateScreen, Show));
    drop(disable_raw_mode());
}
