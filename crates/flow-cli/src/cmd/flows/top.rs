//! `flow top`: the processes of running flows on a terminal, as they do now.
//!
//! ```text
//! sample.rs   what is known at one moment: the only file that asks flows
//! rates.rs    what was counted between two moments      pure
//! model.rs    samples → rows and charts                 pure
//! columns.rs  rows → cells; which columns fit; sorting  pure
//! input.rs    key → action                              pure
//! app.rs      action → what is shown                    pure
//! view.rs     what is shown → screen                    pure
//! plain.rs    rows → a table of text                    pure
//! screen.rs   the terminal
//! ```

mod app;
mod columns;
#[cfg(test)]
mod fixture;
mod input;
mod model;
mod plain;
mod rates;
mod sample;
mod screen;
mod view;

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use crossterm::event::{Event, EventStream};
use flow_launch::StateDirectory;
use flow_process::on_termination;
use futures_util::StreamExt;
use tokio::sync::{mpsc, oneshot};

use self::app::{App, LOG_LINES_MAX, WantedLog};
use self::columns::Sort;
use self::model::FlowModel;
use self::sample::{FlowSample, Sampler};
use self::screen::Screen;
use self::view::Theme;
use crate::cmd::flows::logs::LogFeed;
use crate::cmd::flows::running;
use crate::exit::Exit;
use crate::output::{self, Painter};
use crate::shell::Shell;

const EXAMPLES: &str = "\
EXAMPLES:
  flow top                        # all running flows; Tab changes between them
  flow top flows/encode.yml
  flow top encode --interval 5s
  flow top --once                 # a table of text, also if the output is no terminal

Keys: arrows select a process, s and < > sort, r reverses, Enter follows a node, l shows logs, ? lists
all keys, q quits. NO_COLOR turns colors off.

Exit codes: 0 success, 1 no flow is running, 2 bad usage.";

/// How often the log that is shown is read.
const LOG_INTERVAL: Duration = Duration::from_millis(250);

/// A flow answers in milliseconds, and reading the CPU times of many processes takes about one.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Samples that wait to be shown. The next one is not taken before.
const SAMPLES_MAX: usize = 1;

/// Options of `flow top`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Top {
    /// Show only this running flow: its name, the name of its file, or the file
    #[arg(value_name = "FLOW")]
    flow: Option<String>,
    /// Time between two updates, such as 500ms or 5s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Print one table as text and end
    #[arg(long)]
    once: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    match interval >= INTERVAL_MIN {
        true => Ok(interval),
        false => Err(format!("must be at least {INTERVAL_MIN:?}")),
    }
}

pub(super) async fn run(top: Top, shell: &Shell) -> anyhow::Result<Exit> {
    let sampler = Sampler {
        registry: running::registry_folder(shell),
        wanted: top.flow,
        began: Instant::now(),
    };
    let first = sampler.take();
    if first.is_empty() {
        match &sampler.wanted {
            None => anyhow::bail!("no flow is running"),
            Some(flow) => {
                anyhow::bail!("no flow `{flow}` is running; `flow ps` lists those that are")
            }
        }
    }
    let is_dumb = shell.variable("TERM").is_some_and(|it| it == "dumb");
    if top.once || is_dumb || !Screen::is_there() {
        return once(&first, &sampler, top.interval, shell);
    }
    let theme = Theme {
        has_colors: shell.wants_colour,
    };
    let watch = Watch {
        app: App::new(top.interval),
        theme,
        log: None,
    };
    watch.run(first, sampler, top.interval).await
}

/// Prints what happens within one interval.
fn once(
    first: &[FlowSample],
    sampler: &Sampler,
    interval: Duration,
    shell: &Shell,
) -> anyhow::Result<Exit> {
    thread::sleep(interval);
    let columns = output::columns(io::stdout());
    for FlowSample { entry, sample } in sampler.take() {
        let mut model = FlowModel::default();
        if let Some(before) = first.iter().find(|it| it.entry == entry) {
            model.push(before.sample.clone());
        }
        model.push(sample);
        output::line(&running::name(&entry))?;
        let mut rows = model.rows();
        Sort::default().apply(&mut rows);
        output::line(&plain::table(&rows).text(Painter::stdout(shell), columns))?;
    }
    Ok(Exit::Fine)
}

/// What is shown, and what is read for it.
struct Watch {
    app: App,
    theme: Theme,
    /// The log that is read, unless it cannot be.
    log: Option<(WantedLog, Option<LogFeed>)>,
}

impl Watch {
    async fn run(
        mut self,
        first: Vec<FlowSample>,
        sampler: Sampler,
        interval: Duration,
    ) -> anyhow::Result<Exit> {
        // Before the terminal is changed: a signal from then on restores it.
        let (terminated, mut termination) = oneshot::channel();
        let termination_signals = on_termination(move || {
            // Without a receiver, the program ends already.
            terminated.send(()).ok();
        });
        let mut termination_signals = std::pin::pin!(termination_signals);
        let began = sampler.began;
        self.app.add(first);
        let mut screen = Screen::open()?;
        let mut samples = sample_all(sampler, interval)?;
        let mut events = EventStream::new();
        let mut log_ticks = tokio::time::interval(LOG_INTERVAL);
        loop {
            self.app.now = began.elapsed();
            self.read_log();
            let (app, theme) = (&mut self.app, self.theme);
            screen
                .terminal
                .draw(|frame| view::draw(frame, app, theme))?;
            tokio::select! {
                event = events.next() => match event {
                    Some(event) => if !self.on_event(&event?) {
                        return Ok(Exit::Fine);
                    },
                    // The terminal is gone.
                    None => return Ok(Exit::Interrupted),
                },
                Some(sample) = samples.recv() => self.app.add(sample),
                _ = log_ticks.tick() => {}
                _ = &mut termination => return Ok(Exit::Interrupted),
                () = &mut termination_signals => return Ok(Exit::Interrupted),
            }
        }
    }

    /// `false` ends the program.
    fn on_event(&mut self, event: &Event) -> bool {
        let action = event.as_key_event().and_then(input::action);
        action.is_none_or(|action| self.app.act(action))
    }

    /// Reads what was written to the log that is shown.
    fn read_log(&mut self) {
        let wanted = self.app.wanted_log();
        if self.log.as_ref().map(|(of, _)| of) != wanted.as_ref() {
            self.app.log = app::Log::default();
            self.log = wanted.map(|wanted| {
                let feed = self.open_log(&wanted);
                (wanted, feed)
            });
            return;
        }
        if let Some((_, Some(feed))) = &mut self.log {
            match feed.more() {
                Ok(entries) => self.app.add_log(entries),
                Err(error) => self.app.log.problem = Some(format!("{error:#}")),
            }
        }
    }

    fn open_log(&mut self, wanted: &WantedLog) -> Option<LogFeed> {
        let folder = StateDirectory::logs(&wanted.state_directory);
        match LogFeed::open(folder, Some(wanted.name.clone()), LOG_LINES_MAX) {
            Ok((feed, last)) => {
                self.app.add_log(last);
                Some(feed)
            }
            Err(error) => {
                self.app.log.problem = Some(format!("{error:#}"));
                None
            }
        }
    }
}

/// Takes samples on a thread of its own, because a flow that hangs does not answer.
fn sample_all(sampler: Sampler, interval: Duration) -> io::Result<mpsc::Receiver<Vec<FlowSample>>> {
    let (samples, taken) = mpsc::channel(SAMPLES_MAX);
    let take = move || {
        loop {
            thread::sleep(interval);
            if samples.blocking_send(sampler.take()).is_err() {
                return;
            }
        }
    };
    thread::Builder::new()
        .name("samples".to_owned())
        .spawn(take)?;
    Ok(taken)
}
