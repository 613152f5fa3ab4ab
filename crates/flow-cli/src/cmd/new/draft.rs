//! The properties of a new executor, from options and answers.

use std::io::{self, IsTerminal};

use clap::{Args, ValueEnum};

use super::dialog::Dialog;
use super::name::Name;
use super::source;

/// The language of an executor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Language {
    /// A package for flow's Rust SDK.
    #[default]
    Rust,
    /// A module of Python.
    Python,
}

/// The machine that its image is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Dockerfile {
    /// No image.
    #[default]
    None,
    /// A machine without a GPU.
    Cpu,
    /// A machine with an NVIDIA GPU.
    #[value(aliases = ["torch-gpu", "tf-gpu", "jax-gpu"])]
    Cuda,
}

/// Heading of the options of the project.
const PROJECT: &str = "Project";

/// Options of `flow new executor` and `flow new flow`.
#[derive(Debug, Args)]
pub(crate) struct DraftOptions {
    /// Language of the executor: rust or python [default: rust]
    #[arg(long, value_enum, value_name = "LANGUAGE", hide_possible_values = true, help_heading = PROJECT)]
    lang: Option<Language>,
    /// One-line description of the executor
    #[arg(long, value_name = "TEXT", help_heading = PROJECT)]
    description: Option<String>,
    /// Keywords to find the executor by, separated by commas
    #[arg(long, value_name = "WORD,...", value_delimiter = ',', help_heading = PROJECT)]
    keywords: Option<Vec<String>>,
    /// Web address of the executor's project
    #[arg(long, help_heading = PROJECT)]
    url: Option<String>,
    /// Write a Dockerfile for machines without a GPU (cpu) or with one (cuda) [default: none]
    #[arg(long, value_enum, value_name = "none|cpu|cuda")]
    #[arg(hide_possible_values = true, help_heading = PROJECT)]
    dockerfile: Option<Dockerfile>,
    /// Same as `--dockerfile cpu`; for compatibility with `jina hub new`
    #[arg(long, hide = true, conflicts_with = "dockerfile")]
    add_dockerfile: bool,
    /// Source of flow to build against: a checkout, or a URL that git can clone [default: the checkout that
    /// this program was built in, or flow's repository]
    #[arg(long, value_name = "PATH|URL", help_heading = PROJECT)]
    flow_source: Option<String>,
    /// Do not ask questions; take the defaults for what the options leave open
    #[arg(long, short)]
    yes: bool,
    /// Ask about everything; for compatibility with `jina hub new`
    #[arg(long, hide = true)]
    advance_configuration: bool,
}

impl DraftOptions {
    /// Whether to ask for what the options leave open.
    pub(super) fn may_ask(&self) -> bool {
        !self.yes && io::stdin().is_terminal() && io::stderr().is_terminal()
    }
}

/// A new executor.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) name: Name,
    pub(super) language: Language,
    pub(super) description: String,
    pub(super) keywords: Vec<String>,
    pub(super) url: String,
    pub(super) dockerfile: Dockerfile,
    /// The dependency on the SDK, as Cargo.toml has it; empty for Python.
    pub(super) source: String,
}

/// The description of an executor without one.
const DESCRIPTION_DEFAULT: &str = "Greets every text.";

impl Draft {
    /// Asks for what the options leave open. The less important questions follow only on request.
    pub(super) fn new(
        name: Name,
        options: DraftOptions,
        dialog: &mut Dialog<'_>,
    ) -> anyhow::Result<Self> {
        let language = match options.lang {
            Some(language) => language,
            None => dialog.answer("Language, rust or python", None, "rust", word)?,
        };
        // A module of Python is found by its path, so it may have the name of a built-in executor, as in the tutorial of Jina.
        if language == Language::Rust {
            name.check_not_built_in().map_err(anyhow::Error::msg)?;
        }
        let source = match language {
            Language::Rust => source::dependency(options.flow_source.as_deref())?,
            Language::Python => String::new(),
        };
        let more = options.advance_configuration
            || dialog.agrees("Set Dockerfile, description, keywords and URL too? y/n")?;
        if !more {
            dialog.end();
        }
        let dockerfile = match options.dockerfile {
            Some(dockerfile) => dockerfile,
            None if options.add_dockerfile => Dockerfile::Cpu,
            None => dialog.answer("Dockerfile: none, cpu or cuda", None, "none", word)?,
        };
        let line = |text: &str| plain(text);
        let keywords = options.keywords.map(|words| words.join(","));
        Ok(Self {
            name,
            language,
            description: dialog.answer(
                "Description in one line",
                options.description.as_deref(),
                DESCRIPTION_DEFAULT,
                line,
            )?,
            keywords: dialog.answer(
                "Keywords, separated by commas",
                keywords.as_deref(),
                "",
                words,
            )?,
            url: dialog.answer("URL of the project", options.url.as_deref(), "", line)?,
            dockerfile,
            source,
        })
    }
}

/// Parses a value of an option.
fn word<T: ValueEnum>(text: &str) -> Result<T, String> {
    T::from_str(text, true).map_err(|_| {
        let known = T::value_variants().iter().filter_map(T::to_possible_value);
        let known: Vec<String> = known.map(|it| format!("`{}`", it.get_name())).collect();
        format!("`{text}` is not one of {}", known.join(", "))
    })
}

/// A text that needs no escapes in Rust, Python, TOML, YAML and a Dockerfile.
fn plain(text: &str) -> Result<String, String> {
    let is_odd = |it: char| it.is_control() || matches!(it, '"' | '\\' | '$' | '@');
    match text.trim().find(is_odd) {
        Some(_) => Err(format!(
            "`{}` must be one line without any of \" \\ $ @",
            text.escape_debug()
        )),
        None => Ok(text.trim().to_owned()),
    }
}

fn words(text: &str) -> Result<Vec<String>, String> {
    let words = plain(text)?;
    let words = words.split(',').map(str::trim);
    Ok(words
        .filter(|it| !it.is_empty())
        .map(str::to_owned)
        .collect())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        options: DraftOptions,
    }

    const SOURCE: &str = "--flow-source=https://example.com/flow";

    fn draft(options: &[&str], typed: Option<&str>) -> Result<String, String> {
        let arguments = ["x", SOURCE].iter().chain(options);
        let options = Typed::try_parse_from(arguments).map_err(|it| it.to_string())?;
        let (mut input, mut screen) = (typed.unwrap_or("").as_bytes(), io::sink());
        let mut dialog = Dialog::new(typed.is_some(), &mut input, &mut screen);
        let name = Name::parse("MyExecutor").unwrap();
        let made = Draft::new(name, options.options, &mut dialog).map_err(|it| it.to_string())?;
        Ok(format!(
            "{:?} {:?} {} {:?} {}",
            made.language, made.dockerfile, made.description, made.keywords, made.url
        ))
    }

    #[test]
    fn options_replace_the_defaults() {
        let check = |options: &[&str], expected: &str| {
            assert_eq!(draft(options, None).as_deref(), Ok(expected));
        };
        check(&[], "Rust None Greets every text. [] ");
        check(
            &[
                "--lang",
                "python",
                "--description",
                "Shouts",
                "--keywords",
                "a, b",
                "--url",
                "x.org",
            ],
            "Python None Shouts [\"a\", \"b\"] x.org",
        );
        check(
            &["--dockerfile", "torch-gpu"],
            "Rust Cuda Greets every text. [] ",
        );
        check(&["--add-dockerfile"], "Rust Cpu Greets every text. [] ");
    }

    #[test]
    fn the_less_important_questions_follow_on_request() {
        let check = |typed: &str, expected: &str| {
            assert_eq!(draft(&[], Some(typed)).as_deref(), Ok(expected));
        };
        check("\n\n", "Rust None Greets every text. [] ");
        check("perl\npython\nn\n", "Python None Greets every text. [] ");
        check(
            "\ny\ncuda\nShouts\na,b\nx.org\n",
            "Rust Cuda Shouts [\"a\", \"b\"] x.org",
        );
    }

    #[test]
    fn a_text_that_needs_escapes_is_refused() {
        let output = draft(&["--description", "a \"quoted\" word"], None).unwrap_err();
        assert!(output.contains("without any of"), "{output}");
    }
}
