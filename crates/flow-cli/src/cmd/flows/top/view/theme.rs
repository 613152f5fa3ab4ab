//! The styles of the screen, and lines on it.

use flow_launch::protocol::ProcessState;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;

use crate::cmd::flows::top::model::State;

/// The styles of the screen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Theme {
    pub(crate) has_colors: bool,
}

impl Theme {
    fn color(self, color: Color) -> Style {
        match self.has_colors {
            true => Style::new().fg(color),
            false => Style::new(),
        }
    }

    pub(crate) fn title(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(crate) fn name(self) -> Style {
        self.color(Color::Cyan)
    }

    pub(crate) fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(crate) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(crate) fn bad(self) -> Style {
        self.color(Color::Red).add_modifier(Modifier::BOLD)
    }

    pub(crate) fn chart(self) -> Style {
        self.color(Color::Cyan)
    }

    pub(crate) fn state(self, state: State) -> Style {
        match state {
            State::Process(ProcessState::Ready) => self.color(Color::Green),
            State::Process(ProcessState::Starting | ProcessState::Stopping) => {
                self.color(Color::Yellow)
            }
            State::External => Style::new(),
            State::Process(ProcessState::Waiting | ProcessState::Failed) | State::Ejected => {
                self.bad()
            }
        }
    }
}

/// Writes lines from the top of an area; those that are too long are cut.
pub(super) fn lines<'l>(
    frame: &mut Frame<'_>,
    area: Rect,
    lines: impl IntoIterator<Item = Line<'l>>,
) {
    for (line, row) in lines.into_iter().zip(area.rows()) {
        frame.buffer_mut().set_line(row.x, row.y, &line, row.width);
    }
}
