//! A picture as SVG. Colours are classes, so that the reader's light or dark ground decides them.

use std::fmt::Write as _;

use super::frames::{
    ARROW, CHIP, Frame, Frames, LETTERS_MAX, LINE, LinkLine, PADDING, Room, SMALL, STACK, TITLE,
    is_door,
};
use super::picture::{Card, CardKind, Link, Picture};
use super::words::{cut, escape, width};

const MARGIN: f64 = 32.0;
/// Height that the title takes.
const HEAD: f64 = 44.0;
/// Height that the line below takes, which says what dashes mean.
const FOOT: f64 = 28.0;
const TITLE_MAX: usize = 80;

const STYLE: &str = "\
text{font-family:Inter,'Segoe UI','Helvetica Neue',Arial,'DejaVu Sans',sans-serif}\
.ground{fill:#ffffff}.head{fill:#0f172a;font-size:19px;font-weight:700}\
.card{fill:#f8fafc;stroke:#94a3b8;stroke-width:1.4}.behind{fill:#e2e8f0;stroke:#94a3b8;stroke-width:1.2}\
.aside{stroke-dasharray:5 4}.bar{fill:#4f46e5}.bar-external{fill:#0d9488}.bar-aside{fill:#94a3b8}\
.name{fill:#0f172a;font-size:15px;font-weight:600}.small{fill:#475569;font-size:12px}\
.chip{fill:#fef3c7;stroke:#f59e0b;stroke-width:1}.chip-text{fill:#78350f;font-size:12px}\
.door{fill:#0f172a}.door-name{fill:#ffffff;font-size:15px;font-weight:600}.door-small{fill:#cbd5e1;font-size:12px}\
.link{fill:none;stroke:#475569;stroke-width:1.8}.tip{fill:#475569}\
.link-aside{fill:none;stroke:#94a3b8;stroke-width:1.6;stroke-dasharray:5 4}.tip-aside{fill:#94a3b8}\
@media (prefers-color-scheme:dark){\
.ground{fill:#0b1220}.head{fill:#f1f5f9}\
.card{fill:#172033;stroke:#64748b}.behind{fill:#0f172a;stroke:#475569}\
.bar{fill:#818cf8}.bar-external{fill:#2dd4bf}.bar-aside{fill:#64748b}\
.name{fill:#f1f5f9}.small{fill:#a8b5c7}\
.chip{fill:#3b2a08;stroke:#d97706}.chip-text{fill:#fcd34d}\
.door{fill:#e2e8f0}.door-name{fill:#0f172a}.door-small{fill:#475569}\
.link{stroke:#a8b5c7}.tip{fill:#a8b5c7}.link-aside{stroke:#64748b}.tip-aside{fill:#64748b}}";

pub(super) fn draw(picture: &Picture, title: &str) -> String {
    let frames = Frames::of(picture, Room::NONE);
    let has_asides = picture.links.iter().any(|link| link.is_aside);
    let foot = if has_asides { FOOT } else { 0.0 };
    let whole_width =
        (frames.width + 2.0 * MARGIN).max(width(&cut(title, TITLE_MAX), 19.0) + 2.0 * MARGIN);
    let whole_height = frames.height + 2.0 * MARGIN + HEAD + foot;
    let mut svg = Svg {
        text: String::new(),
    };
    svg.add(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {whole_width:.1} {whole_height:.1}\" \
         width=\"{whole_width:.1}\" height=\"{whole_height:.1}\" role=\"img\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n\
         <rect class=\"ground\" width=\"100%\" height=\"100%\" rx=\"14\"/>\n",
        escape(title)
    ));
    svg.words("head", MARGIN, MARGIN + 16.0, title);
    svg.add(format_args!(
        "<g transform=\"translate({MARGIN} {:.1})\">\n",
        MARGIN + HEAD
    ));
    for (link, line) in picture.links.iter().zip(&frames.links) {
        svg.link(link, line);
    }
    for (card, frame) in picture.cards.iter().zip(&frames.cards) {
        svg.card(card, frame);
    }
    svg.add(format_args!("</g>\n"));
    if has_asides {
        svg.legend(whole_height - MARGIN + 8.0);
    }
    svg.add(format_args!("</svg>\n"));
    svg.text
}

struct Svg {
    text: String,
}

impl Svg {
    fn add(&mut self, what: std::fmt::Arguments<'_>) {
        self.text
            .write_fmt(what)
            .expect("writing to a String cannot fail");
    }

    fn words(&mut self, class: &str, x: f64, y: f64, text: &str) {
        let shown = escape(&cut(
            text,
            LETTERS_MAX.max(if class == "head" { 80 } else { 0 }),
        ));
        self.add(format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{shown}</text>\n"
        ));
    }

    fn rect(&mut self, class: &str, frame: &Frame, round: f64) {
        let Frame {
            left,
            top,
            width,
            height,
        } = frame;
        self.add(format_args!(
            "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"{round}\"/>\n"
        ));
    }

    fn card(&mut self, card: &Card, frame: &Frame) {
        if is_door(card) {
            return self.door(card, frame);
        }
        let output = [&card.title, &card.program]
            .into_iter()
            .chain(&card.when)
            .chain(&card.details);
        let output: Vec<&str> = output.map(String::as_str).collect();
        self.add(format_args!(
            "<g><title>{}</title>\n",
            escape(&output.join("\n"))
        ));
        for behind in [2.0, 1.0] {
            if card.is_stack {
                let shift = behind * STACK;
                let frame = Frame {
                    left: frame.left + shift,
                    top: frame.top - shift,
                    ..*frame
                };
                self.rect("behind", &frame, 10.0);
            }
        }
        let dashed = card.is_aside || card.kind == CardKind::External;
        self.rect(if dashed { "card aside" } else { "card" }, frame, 10.0);
        let bar = Frame {
            left: frame.left + 8.0,
            top: frame.top + 12.0,
            width: 4.0,
            height: frame.height - 24.0,
        };
        self.rect(bar_class(card), &bar, 2.0);
        self.lines(card, frame);
        self.add(format_args!("</g>\n"));
    }

    fn lines(&mut self, card: &Card, frame: &Frame) {
        let left = frame.left + PADDING + 4.0;
        let mut base = frame.top + PADDING;
        if let Some(when) = &card.when {
            let shown = cut(when, LETTERS_MAX);
            let chip = Frame {
                left,
                top: base - 4.0,
                width: width(&shown, SMALL) + 14.0,
                height: CHIP,
            };
            self.rect("chip", &chip, 11.0);
            self.words("chip-text", left + 7.0, base + 11.0, when);
            base += CHIP + 8.0;
        }
        base += TITLE - 2.0;
        self.words("name", left, base, &card.title);
        for line in [&card.program].into_iter().chain(&card.details) {
            base += LINE;
            self.words("small", left, base, line);
        }
    }

    fn door(&mut self, card: &Card, frame: &Frame) {
        self.rect("door", frame, 26.0);
        let middle = frame.left + frame.width / 2.0;
        let base = frame.top + PADDING + TITLE - 1.0;
        let lines = [
            ("door-name", base, &card.title),
            ("door-small", base + LINE, &card.program),
        ];
        for (class, y, text) in lines {
            let text = escape(text);
            self.add(format_args!(
                "<text class=\"{class}\" x=\"{middle:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{text}</text>\n"
            ));
        }
    }

    fn link(&mut self, link: &Link, line: &LinkLine) {
        let LinkLine { path, tip: (x, y) } = line;
        let aside = if link.is_aside { "-aside" } else { "" };
        let half = ARROW * 0.55;
        self.add(format_args!(
            "<path class=\"link{aside}\" d=\"{path}\"/>\n\
             <path class=\"tip{aside}\" d=\"M{x:.1} {y:.1}l-{ARROW} -{half:.1}v{:.1}z\"/>\n",
            2.0 * half
        ));
    }

    fn legend(&mut self, base: f64) {
        self.add(format_args!(
            "<path class=\"link-aside\" d=\"M{MARGIN} {:.1}h34\"/>\n",
            base - 4.0
        ));
        let text = "the reply does not wait for it";
        self.words("small", MARGIN + 44.0, base, text);
    }
}

fn bar_class(card: &Card) -> &'static str {
    match card.kind {
        _ if card.is_aside => "bar-aside",
        CardKind::External => "bar-external",
        CardKind::Start | CardKind::End | CardKind::Local => "bar",
    }
}
