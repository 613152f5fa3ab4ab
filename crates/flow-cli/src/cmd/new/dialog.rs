//! Questions on a terminal. Without a terminal, every answer is its default.

use std::io::{BufRead, Write};

use anyhow::Context;

use super::name::Name;
use crate::exit::BadUsage;

/// Asks questions, or takes the defaults.
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

    /// Takes the defaults from here on.
    pub(super) fn end(&mut self) {
        self.is_on = false;
    }

    /// A text from an option or an answer.
    pub(super) fn text(
        &mut self,
        question: &str,
        given: Option<&str>,
        default: &str,
    ) -> anyhow::Result<String> {
        self.answer(question, given, default, |text| Ok(text.to_owned()))
    }

    /// The name of an executor from an option or an answer.
    pub(super) fn name(
        &mut self,
        question: &str,
        given: Option<&str>,
        default: &str,
    ) -> anyhow::Result<Name> {
        self.answer(question, given, default, Name::parse)
    }

    /// Whether the user agrees; without questions, no.
    pub(super) fn agrees(&mut self, question: &str) -> anyhow::Result<bool> {
        self.answer(question, None, "n", |text| match text {
            "y" | "Y" | "yes" => Ok(true),
            "n" | "N" | "no" => Ok(false),
            _ => Err("answer y or n".to_owned()),
        })
    }

    /// An answer that `read` accepts. A bad answer is asked for again; a bad option is an error.
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
            "no files were written: the questions were not answered"
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

    /// The result of a dialog, and what it shows.
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
    fn a_bad_answer_is_asked_for_again() {
        let (given, shown) = typed("2fast\nFast\n", true, |it| {
            it.name("Name", None, "MyExecutor")
        });
        assert_eq!(given.unwrap().camel, "Fast");
        assert!(shown.contains("`2fast` is not a name"), "{shown}");
    }

    #[test]
    fn a_bad_option_is_an_error() {
        let ask = |it: &mut Dialog<'_>| it.name("Name", Some("2fast"), "MyExecutor");
        let (given, shown) = typed("Fast\n", true, ask);
        assert!(given.unwrap_err().contains("is not a name"));
        assert_eq!(shown, "");
    }

    #[test]
    fn without_questions_the_default_is_taken() {
        let (given, shown) = typed("y\n", false, |it| it.agrees("More?"));
        assert_eq!((given, shown.as_str()), (Ok(false), ""));
    }

    #[test]
    fn a_dialog_that_ends_early_is_an_error() {
        let (given, _) = typed("", true, |it| it.text("Folder", None, "here"));
        assert!(given.unwrap_err().starts_with("no files were written"));
    }
}
