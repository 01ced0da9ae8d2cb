//! `executor: { ssh: … }`: hosts that are reached by SSH.

use std::{collections::BTreeSet, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::Settings;
use crate::recipe::{
    keys::{Custom, Declaration, Flag, Mapping as _, Size, Text, Texts, TimeSpan, Whole, mapping},
    lower::Lower,
    node::{Node, NodeKind},
    source::{Span, Spanned},
};

/// Hosts of a sweep that are reached by SSH.
#[derive(Debug, Clone, PartialEq)]
pub struct Ssh {
    /// The hosts.
    pub hosts: Vec<SshHost>,
    /// True if jobs also run on this machine.
    pub local: bool,
    /// Patterns of ignored files that the jobs need nevertheless.
    pub sync: Vec<String>,
    /// Time after which the jobs of an unreachable host run on other places.
    pub lost_after: Duration,
}

impl Default for Ssh {
    fn default() -> Self {
        Self { hosts: Vec::new(), local: true, sync: Vec::new(), lost_after: Duration::from_mins(10) }
    }
}

impl Ssh {
    /// Replaces the hosts by those of these names. A host that is there already keeps its settings.
    ///
    /// # Errors
    /// A name that `ssh` would not take for a host, and why.
    pub fn select(&mut self, names: &[String]) -> Result<(), (String, &'static str)> {
        let mut hosts: Vec<SshHost> = Vec::new();
        for name in names {
            let host = self.hosts.iter().find(|host| host.host == *name).cloned();
            let host = host.map_or_else(|| SshHost::named(name), Ok).map_err(|reason| (name.clone(), reason))?;
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        self.hosts = hosts;
        Ok(())
    }
}

/// A host, and the part of its resources that jobs may use. Parts that are not given default to all that the host has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SshHost {
    /// The host's name for `ssh`: a host name, `user@host`, or an entry of the OpenSSH configuration.
    pub host: String,
    /// Cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<usize>,
    /// GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<usize>,
    /// Main memory in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// The folder for everything that is kept there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// Further arguments of `ssh`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

impl SshHost {
    /// A host of this name, with everything that it has.
    ///
    /// # Errors
    /// The reason, if `ssh` would not take it for a host.
    pub fn named(name: &str) -> Result<Self, &'static str> {
        let reason = match name.chars().next() {
            None => "it is empty",
            Some('-') => "`ssh` would parse it as an option",
            _ if name.chars().any(|char| char.is_whitespace() || char.is_control()) => "it contains spaces",
            _ => return Ok(Self { host: name.to_owned(), ..Self::default() }),
        };
        Err(reason)
    }
}

mapping! {
    /// The keys of `ssh`.
    struct SshKeys = "ssh" {
        /// The hosts: names for `ssh`, or maps with further keys.
        ///
        /// A name is a host name, `user@host`, or an entry of `~/.ssh/config`. Hosts added with `sweep hosts add` are
        /// also used.
        hosts: Custom = Custom { schema: hosts, accepts: "a list of names and `{ host: NAME, … }`" },
        /// True if jobs also run on this machine. Default: `true`.
        local: Flag,
        /// Patterns of files that jobs need although Git ignores the files, such as `data/*.bin`.
        ///
        /// The inputs of jobs, and the files below the project's folder that Git does not ignore, are always sent.
        /// Patterns are relative to the project's folder.
        sync: Texts = Texts {
            schema: || json!({ "type": ["array", "string"], "items": { "type": "string", "minLength": 1 } }),
            accepts: "a pattern, or a list of patterns",
        },
        /// The time after which the jobs of a host that cannot be reached run elsewhere. Default: `10m`.
        ///
        /// Until then, these jobs count as running, because they usually are. The first result is used.
        lost_after = "lost_after": TimeSpan = TimeSpan { zero: true },
    }
}

mapping! {
    /// The keys of a host.
    struct SshHostKeys = "ssh-host" {
        /// The name of the host for `ssh`.
        host [required]: Text = Text { schema: || json!({ "type": "string", "pattern": NAME }), accepts: "a name for `ssh`" },
        /// The number of cores that jobs use on the host. Default: all cores.
        cpus: Whole = Whole { range: 1..=4096, of: "cores" },
        /// The number of GPUs that jobs use on the host. Default: all GPUs that the host reports.
        gpus: Whole = Whole { range: 0..=1024, of: "GPUs" },
        /// The main memory that jobs use on the host. Default: all memory.
        memory: Size,
        /// The folder on the host for programs, files and records. Default: `~/.sweep`.
        workdir: Text,
        /// Further arguments of `ssh`, one per entry, such as `[-F, ssh-config]`.
        options: Texts = Texts {
            schema: || json!({ "type": ["array", "string"], "items": { "type": "string" } }),
            accepts: "an argument, or a list of arguments",
        },
    }
}

/// Names that `ssh` does not take for an option.
const NAME: &str = r"^[^\s-]\S*$";

fn hosts() -> Json {
    let name = json!({ "type": "string", "pattern": NAME });
    json!({ "type": "array", "minItems": 1, "items": { "anyOf": [name, SshHostKeys::schema()] } })
}

impl Settings for Ssh {
    fn read(lower: &mut Lower<'_>, node: &Node) -> (Self, Vec<Spanned<String>>) {
        let keys = SshKeys::read_or_empty(lower, node, "`ssh`");
        let mut hosts: Vec<SshHost> = Vec::new();
        let mut names = BTreeSet::new();
        for (host, span) in keys.hosts.node().map(|node| read_hosts(lower, node)).unwrap_or_default() {
            if names.insert(host.host.clone()) {
                hosts.push(host);
            } else {
                let help = "write one entry for each host; its jobs share the resources";
                lower.problem(span, format!("the host `{}` is listed twice", host.host), "also here", help);
            }
        }
        let default = Self::default();
        let settings = Self {
            hosts,
            local: keys.local.value.unwrap_or(default.local),
            sync: keys.sync.value.unwrap_or_default().into_iter().map(|pattern| pattern.value).collect(),
            lost_after: keys.lost_after.value.unwrap_or(default.lost_after),
        };
        (settings, Vec::new())
    }

    fn declarations() -> Vec<Declaration> {
        vec![SshHostKeys::declaration()]
    }
}

fn read_hosts(lower: &mut Lower<'_>, node: &Node) -> Vec<(SshHost, Span)> {
    let NodeKind::List(items) = &node.kind else {
        let help = "write a list, for example `hosts: [box1, box2]`";
        lower.problem(node.span, format!("`hosts` must be a list, found {}", node.describe()), "not a list", help);
        return Vec::new();
    };
    items.iter().filter_map(|item| Some((read_host(lower, item)?, item.span))).collect()
}

fn read_host(lower: &mut Lower<'_>, node: &Node) -> Option<SshHost> {
    if let NodeKind::Scalar(_) = &node.kind {
        let name = lower.text(node, "a host")?;
        return named(lower, &Spanned::new(name, node.span));
    }
    let keys = SshHostKeys::read(lower, node, "a host")?;
    let number = |value: Option<u32>| value.and_then(|value| usize::try_from(value).ok());
    let (cpus, gpus, memory) = (number(keys.cpus.value), number(keys.gpus.value), keys.memory.value);
    let options = keys.options.value.unwrap_or_default().into_iter().map(|option| option.value).collect();
    let workdir = keys.workdir.value;
    let Some(name) = keys.host.spanned() else {
        lower.problem(node.span, "a host has no name", "`host` is missing", "write `{ host: box1, … }`");
        return None;
    };
    Some(SshHost { cpus, gpus, memory, workdir, options, ..named(lower, &name)? })
}

fn named(lower: &mut Lower<'_>, name: &Spanned<String>) -> Option<SshHost> {
    match SshHost::named(&name.value) {
        Ok(host) => Some(host),
        Err(reason) => {
            let help = "write a host name that `ssh` accepts, for example `box1` or `me@box1`";
            lower.problem(name.span, format!("`{}` is not a host: {reason}", name.value), "not a host", help);
            None
        }
    }
}
