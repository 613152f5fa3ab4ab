//! The fenced blocks of a page, the commands in them, and patterns of what commands print.

/// A fenced block.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) language: String,
    pub(crate) lines: Vec<String>,
}

/// A command of a `console` block, and what it prints.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) line: String,
    pub(crate) printed: Vec<String>,
}

/// The blocks of a page, in their order.
pub(crate) fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in text.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(info), None) => {
                open = Some(Block {
                    language: info.split(',').next().unwrap_or_default().to_owned(),
                    lines: Vec::new(),
                });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => block.lines.push(line.to_owned()),
            (None, None) => {}
        }
    }
    blocks
}

impl Block {
    pub(crate) fn text(&self) -> String {
        self.lines.join("\n") + "\n"
    }

    /// The file that the first line names in a comment, such as `# flow.yml`.
    pub(crate) fn file(&self) -> Option<&str> {
        let name = self.lines.first()?.strip_prefix("# ")?;
        let is_file = name.contains('.') && !name.contains(char::is_whitespace);
        is_file.then_some(name)
    }

    /// Whether it is a whole flow file.
    pub(crate) fn is_flow(&self) -> bool {
        let is_jtype = |line: &String| line == "jtype: Flow" || line == "jtype: Deployment";
        self.lines.iter().any(is_jtype)
    }

    /// The commands of a `console` block.
    pub(crate) fn commands(&self) -> Vec<Command> {
        let mut commands: Vec<Command> = Vec::new();
        for line in &self.lines {
            match (line.strip_prefix("$ "), commands.last_mut()) {
                (Some(line), _) => commands.push(Command {
                    line: line.to_owned(),
                    printed: Vec::new(),
                }),
                (None, Some(command)) => command.printed.push(line.clone()),
                (None, None) => panic!("a console block begins with a command: {self:?}"),
            }
        }
        commands
    }
}

/// Whether `lines` are what `pattern` says; a line of `…` alone stands for any lines.
pub(crate) fn shows(pattern: &[String], lines: &[String]) -> bool {
    match pattern {
        [] => lines.is_empty(),
        [any, rest @ ..] if any == "…" => {
            (0..=lines.len()).any(|skip| shows(rest, &lines[skip..]))
        }
        [line, rest @ ..] => lines
            .split_first()
            .is_some_and(|(first, others)| line_shows(line, first) && shows(rest, others)),
    }
}

/// `…` within a line stands for any text.
fn line_shows(pattern: &str, line: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('…') else {
        return pattern == line;
    };
    let Some(line) = line.strip_prefix(start) else {
        return false;
    };
    line.char_indices()
        .map(|(at, _)| at)
        .chain([line.len()])
        .any(|at| line_shows(rest, &line[at..]))
}

#[test]
fn dots_stand_for_anything() {
    let check = |pattern: &[&str], lines: &[&str], expected: bool| {
        let owned = |lines: &[&str]| lines.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            shows(&owned(pattern), &owned(lines)),
            expected,
            "{pattern:?} {lines:?}"
        );
    };
    check(&["a"], &["a"], true);
    check(&["a"], &["b"], false);
    check(&["a…c"], &["abc"], true);
    check(&["a…c"], &["abd"], false);
    check(&["…", "z"], &["x", "y", "z"], true);
    check(&["…"], &[], true);
    check(&["a"], &["a", "b"], false);
}

#[test]
fn a_block_knows_its_file_and_whether_it_is_a_flow() {
    let check = |lines: &[&str], file: Option<&str>, is_flow: bool| {
        let block = Block {
            language: "yaml".to_owned(),
            lines: lines.iter().map(|line| (*line).to_owned()).collect(),
        };
        assert_eq!(
            (block.file(), block.is_flow()),
            (file, is_flow),
            "{lines:?}"
        );
    };
    check(&["# flow.yml", "jtype: Flow"], Some("flow.yml"), true);
    check(
        &["# config.yml", "jtype: Greeter"],
        Some("config.yml"),
        false,
    );
    check(&["# A comment.", "jtype: Flow"], None, true);
    check(&["jtype: Deployment"], None, true);
}
