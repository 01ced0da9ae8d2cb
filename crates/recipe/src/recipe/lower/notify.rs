//! `notify`: messages about a run. `notify` is not part of a key.

use super::Lower;
use crate::recipe::{
    keys::{Flag, Given, Mapping as _, Text, Words, mapping},
    node::Node,
};

/// Messages about a run: where they go, and what they are about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notify {
    /// A command for `/bin/sh`, which has the message in its environment.
    pub command: Option<String>,
    /// An address that takes the message as JSON, or `$NAME` for one in the environment.
    pub webhook: Option<String>,
    /// True if the message is shown on the desktop.
    pub desktop: bool,
    /// An address for mail.
    pub mail: Option<String>,
    /// The reported occasions.
    pub on: Vec<Occasion>,
}

/// Reason for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Occasion {
    /// A run has ended.
    End,
    /// A job has failed.
    Failure,
    /// A claim has a verdict, at the end of a run.
    Verdict,
    /// A metric of a job is no finite number.
    Divergence,
    /// A job gave no sign of life and was ended.
    Stall,
}

impl Occasion {
    const WORDS: &[(&str, Self)] = &[
        ("end", Self::End),
        ("failure", Self::Failure),
        ("verdict", Self::Verdict),
        ("divergence", Self::Divergence),
        ("stall", Self::Stall),
    ];

    /// The occasion as a recipe has it.
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, occasion)| *occasion == self).map_or("", |(word, _)| word)
    }
}

mapping! {
    /// The keys of `notify`.
    struct NotifyKeys = "notify" {
        /// A command for `/bin/sh`. The variables `SWEEP_TITLE` and `SWEEP_TEXT` contain the message, `SWEEP_EVENT`
        /// the occasion and `SWEEP_STUDY` the name of the study.
        command: Text,
        /// A URL that accepts a POST request with JSON: `text` and `content` (the message, as Slack, Mattermost and
        /// Discord expect it), `title`, `event` and `study`. `$NAME` reads the URL from the environment, so that the
        /// recipe contains no secret.
        webhook: Text,
        /// Shows the message on the desktop, by `notify-send`. Default: `false`.
        desktop: Flag,
        /// Sends the message to this address, by `sendmail`.
        mail: Text,
        /// The occasions: the `end` of a run, a `failure` of a job, a `verdict` on a claim at the end, a `divergence`
        /// (a metric is not finite), or a `stall` (a job was ended because it showed no activity). Default: all.
        on: Words<Occasion> = Words(Occasion::WORDS),
    }
}

impl Lower<'_> {
    /// Reads `notify: { command, webhook, desktop, mail, on }`.
    pub(super) fn notify(&mut self, node: &Node) -> Option<Notify> {
        let keys = NotifyKeys::read(self, node, "`notify`")?;
        let all = || Occasion::WORDS.iter().map(|(_, occasion)| *occasion).collect();
        let mut address = |key: &str, address: Given<'_, String>, is_address: fn(&str) -> bool, example: &str| {
            let address = address.spanned()?;
            if !is_address(&address.value) {
                let message = format!("`{key}` must be an address, found `{}`", address.value);
                self.problem(address.span, message, "no address", example);
            }
            Some(address.value)
        };
        let example = "write `https://…`, or `$NAME` for a variable";
        let webhook = address("webhook", keys.webhook, is_webhook, example);
        let mail = address("mail", keys.mail, is_mailbox, "write one address, for example `me@example.org`");
        let notify = Notify {
            command: keys.command.value,
            webhook,
            desktop: keys.desktop.value.unwrap_or(false),
            mail,
            on: keys.on.value.unwrap_or_else(all),
        };
        if notify.command.is_none() && notify.webhook.is_none() && notify.mail.is_none() && !notify.desktop {
            let help = "add `command`, `webhook`, `desktop: true` or `mail`";
            self.problem(node.span, "`notify` has no destination", "no destination", help);
        }
        Some(notify)
    }
}

fn is_webhook(address: &str) -> bool {
    let is_url = address.starts_with("https://") || address.starts_with("http://");
    let name = address.strip_prefix('$').unwrap_or_default();
    is_url || (!name.is_empty() && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_'))
}

/// True for one mailbox that cannot add a header or an option.
fn is_mailbox(address: &str) -> bool {
    let is_plain = |char: char| char.is_ascii_graphic() && !matches!(char, ',' | ';' | '<' | '>' | '"');
    address.chars().all(is_plain) && !address.starts_with('-') && address.len() < 255
}
