//! Questions on a terminal. Where nobody can be asked, every answer is its default.

use std::io::{BufRead, Write};

use anyhow::Context;

use super::name::Name;
use crate::exit::BadUsage;

/// Asks, or does not.
pub(super) struct Dialog<'t> {
    is_on: bool,
    input: &'t mut dyn BufRead,
    screen: &'t mut dyn Write,
}

impl<'t> Dialog<'t> {
    pub(super) fn new(is_on: bool, input: &'t mut dyn BufRead, screen: &'t mut dyn Write) -> Self {
        Self {
            is_on,
            input,
            screen,
        }
    }

    /// Asks nothing more.
    pub(super) fn end(&mut self) {
        self.is_on = false;
    }

    /// A text, from an option or else from whoever types.
    pub(super) fn text(
        &mut self,
        question: &str,
        given: Option<&str>,
        default: &str,
    ) -> anyhow::Result<String> {
        self.answer(question, given, default, |text| Ok(text.to_owned()))
    }

    /// An executor's name.
    pub(super) fn name(
        &mut self,
        question: &str,
        given: Option<&str>,
        default: &str,
    ) -> anyhow::Result<Name> {
        self.answer(question, given, default, Name::parse)
    }

    /// Yes or no, and no where nobody is asked.
    pub(super) fn agrees(&mut self, question: &str) -> anyhow::Result<bool> {
        self.answer(question, None, "n", |text| match text {
            "y" | "Y" | "yes" => Ok(true),
            "n" | "N" | "no" => Ok(false),
            _ => Err("answer y or n".to_owned()),
        })
    }

    /// An answer that `read` understands; whoever types may try again, an option may not.
    pub(super) fn answer<T>(
        &mut self,
        question: &str,
        given: Option<&str>,
        default: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> anyhow::Result<T> {
        if !self.is_on || given.is_some() {
            let text = given.unwrap_or(default);
            return read(text).map_err(|why| BadUsage(why).into());
        }
        loop {
            let typed = self.ask(question, default)?;
            match read(&typed) {
                Ok(answer) => return Ok(answer),
                Err(why) => writeln!(self.screen, "  {why}")?,
            }
        }
    }

    fn ask(&mut self, question: &str, default: &str) -> anyhow::Result<String> {
        match default {
            "" => write!(self.screen, "{question}: ")?,
            _ => write!(self.screen, "{question} [{default}]: ")?,
        }
        self.screen.flush()?;
        let mut line = String::new();
        let read = self
            .input
            .read_line(&mut line)
            .context("cannot read the answer")?;
        anyhow::ensure!(
            read > 0,
            "nothing was written: the questions were not answered"
        );
        match line.trim() {
            "" => Ok(default.to_owned()),
            answer => Ok(answer.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a dialog gives and shows.
    fn typed<T>(
        typed: &str,
        is_on: bool,
        talk: impl FnOnce(&mut Dialog<'_>) -> anyhow::Result<T>,
    ) -> (Result<T, String>, String) {
        let (mut input, mut screen) = (typed.as_bytes(), Vec::new());
        let given = talk(&mut Dialog::new(is_on, &mut input, &mut screen));
        let given = given.map_err(|error| error.to_string());
        (given, String::from_utf8(screen).unwrap())
    }

    #[test]
    fn an_empty_answer_is_the_default() {
        let (given, shown) = typed("\n", true, |it| it.text("Folder", None, "here"));
        assert_eq!(given.as_deref(), Ok("here"));
        assert_eq!(shown, "Folder [here]: ");
    }

    #[test]
    fn a_wrong_answer_is_told_and_asked_again() {
        let (given, shown) = typed("2fast\nFast\n", true, |it| {
            it.name("Name", None, "MyExecutor")
        });
        assert_eq!(given.unwrap().camel, "Fast");
        assert!(shown.contains("`2fast` is no name"), "{shown}");
    }

    #[test]
    fn options_are_not_asked_and_not_asked_again() {
        let ask = |it: &mut Dialog<'_>| it.name("Name", Some("2fast"), "MyExecutor");
        let (given, shown) = typed("Fast\n", true, ask);
        assert!(given.unwrap_err().contains("is no name"));
        assert_eq!(shown, "");
    }

    #[test]
    fn where_nobody_can_be_asked_defaults_count() {
        let (given, shown) = typed("y\n", false, |it| it.agrees("More?"));
        assert_eq!((given, shown.as_str()), (Ok(false), ""));
    }

    #[test]
    fn a_dialog_that_breaks_off_writes_nothing() {
        let (given, _) = typed("", true, |it| it.text("Folder", None, "here"));
        assert!(given.unwrap_err().starts_with("nothing was written"));
    }
}
