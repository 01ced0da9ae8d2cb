//! A submitting machine with a recipe, and connections from it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        mpsc::{Receiver, channel},
    },
    time::Duration,
};

use serde_json::Value;
use sweep_engine::{
    batches::Batches,
    hosts::{
        Connection, HostError, HostEvent, Hosted, Probe, Project, Shipped, StartJob, Started, Submitter, Target,
        declared_env, hosted,
    },
    plan::{Plan, SerializedJob},
    recipe::{Draft, Request},
    record::Key,
    store::{Imported, Origin, Store},
};
use sweep_job::Backend;

use super::sshd::Sshd;
use crate::sandbox::Sandbox;

/// Longer than anything here may take.
const TIMEOUT: Duration = Duration::from_mins(2);

/// A folder with a recipe, as the submitting side has it.
pub(crate) struct World {
    pub(crate) sandbox: Sandbox,
    pub(crate) store: Store,
}

/// A connection, and its messages.
pub(crate) struct Link {
    pub(crate) connection: Connection,
    events: Mutex<Receiver<HostEvent>>,
}

/// The end of a job on a host, with its journal's events.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) has_record: bool,
    pub(crate) said: Vec<Value>,
}

impl World {
    pub(crate) fn with(recipe: &str) -> Self {
        let sandbox = Sandbox::with(recipe);
        let store = Store::new(&sandbox.path("results"));
        store.create().unwrap();
        Self { sandbox, store }
    }

    /// The plan of the recipe.
    pub(crate) fn plan(&self) -> Plan {
        let paths = [self.sandbox.path("recipe.yaml")];
        let draft = Draft::load(&Request { paths: &paths, ..Request::default() }).unwrap();
        Batches::plan(draft, Backend::Cpu, &self.store).map_err(|_| "the recipe is wrong").unwrap().1
    }

    /// The jobs of the recipe with whole identities, by label.
    pub(crate) fn jobs(&self) -> BTreeMap<String, SerializedJob> {
        let plan = self.plan();
        let jobs = plan.jobs().map(|(id, job)| {
            let spec = SerializedJob { identity: job.identity.clone(), ..plan.serialize_job(id, |_| 0) };
            (job.label.to_string(), spec)
        });
        jobs.collect()
    }

    pub(crate) fn project(&self) -> Project {
        Project::collect(&self.sandbox.path(""), &self.sandbox.path("results"), &[]).unwrap()
    }

    /// A job of the recipe as it goes to a host.
    pub(crate) fn hosted(&self, label: &str) -> Hosted {
        hosted(self.jobs()[label].clone(), &self.project(), &self.store, &self.sandbox.path("")).unwrap()
    }

    pub(crate) fn open(&self, sshd: &Sshd, host: &str) -> Link {
        self.open_with(sshd.options(), host, Path::new(env!("CARGO_BIN_EXE_sweep-engine")))
    }

    pub(crate) fn open_with(&self, options: Vec<String>, host: &str, program: &Path) -> Link {
        let target = Target { host: host.to_owned(), options, workdir: None };
        let submitter = Submitter { program: program.to_owned(), store: self.store.id().unwrap() };
        let (sender, events) = channel();
        let connection = Connection::open(target, submitter, move |event| drop(sender.send(event))).unwrap();
        Link { connection, events: Mutex::new(events) }
    }

    /// Takes the record of a job from a host.
    pub(crate) fn fetch(&self, link: &Link, key: Key) -> Imported {
        let file: PathBuf = self.sandbox.path("results/fetched.tar");
        link.connection.fetch(key, &file).unwrap();
        let archive = fs_err::File::open(file).unwrap();
        self.store.import_only(archive, key, &Origin::new("a host")).unwrap()
    }
}

impl Link {
    pub(crate) fn next(&self) -> HostEvent {
        self.events.lock().unwrap().recv_timeout(TIMEOUT).expect("the connection says something")
    }

    /// Waits until it is connected.
    pub(crate) fn connected(&self) -> Probe {
        loop {
            match self.next() {
                HostEvent::Connected(probe) => return *probe,
                HostEvent::Lost(error) if error.is_lasting() => panic!("{error}"),
                _ => {}
            }
        }
    }

    /// Waits until the connection is lost, or cannot be made.
    pub(crate) fn lost(&self) -> HostError {
        loop {
            if let HostEvent::Lost(error) = self.next() {
                return error;
            }
        }
    }

    /// Sends a job and the files that it needs, and starts it.
    pub(crate) fn start(&self, hosted: &Hosted, tag: &str) -> (Shipped, Started) {
        let shipped = self.connection.prepare(&hosted.shipment).unwrap();
        (shipped, self.connection.start(&start_of(hosted, tag)).unwrap())
    }

    /// Waits for the end of a job.
    pub(crate) fn ended(&self, job: Key) -> End {
        let mut said = Vec::new();
        loop {
            match self.next() {
                HostEvent::Said { key, line, .. } if key == job => said.push(serde_json::from_str(&line).unwrap()),
                HostEvent::Ended { key, has_record } if key == job => return End { has_record, said },
                _ => {}
            }
        }
    }

    /// Waits until a job has said that its process was started.
    pub(crate) fn started(&self, job: Key) {
        loop {
            match self.next() {
                HostEvent::Said { key, line, .. } if key == job && line.contains("\"started\"") => return,
                HostEvent::Ended { key, .. } => assert_ne!(key, job, "it has ended"),
                _ => {}
            }
        }
    }
}

/// The start of a job.
pub(crate) fn start_of(hosted: &Hosted, tag: &str) -> StartJob {
    StartJob {
        key: hosted.spec.key,
        tag: tag.to_owned(),
        env: declared_env(&hosted.spec),
        spec: hosted.spec.clone(),
        project: hosted.shipment.project.digest().to_owned(),
        gpus: None,
    }
}

impl End {
    /// The kinds of its events.
    pub(crate) fn kinds(&self) -> Vec<&str> {
        self.said.iter().filter_map(|line| line["event"].as_object()?.keys().next().map(String::as_str)).collect()
    }
}
