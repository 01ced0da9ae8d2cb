//! The code that programs were observed to read, as it is now: which of a job's records is still valid, and the key of
//! the job if none is.
//!
//! A record is valid if the files and packages of its manifest are unchanged. Otherwise the key contains the present digests of *all* files
//! that any earlier run of the job read, not only the latest run: otherwise a file that only some versions of the code read would be
//! missing, and the key could match a record that was computed with another content of this file.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use fs_err as fs;
use sweep_job::{Ignore, ParamType as _, Value, Values, tasks::Tracks};
use sweep_observer::Layer;

use super::{
    Digests,
    environment::{self, ENVIRONMENTS},
    lint,
    site::{Code, CodeFile, Site, layer_of, of_site},
    values::CODE,
};
use crate::{
    host::{folder::OWN_FOLDERS, packages, project_of},
    record::{
        ABSENT, ELSEWHERE, Environment, FILE_ELSEWHERE, Identity, Key, Line, Manifest, Own, ReadSet, code_digest, fact,
        path_text, text_path,
    },
    variant::text_of,
};

/// The manifests of a store.
#[derive(Debug, Default)]
pub struct Manifests {
    /// The folder of the sets.
    sets: PathBuf,
    by_base: HashMap<Key, Vec<Manifest>>,
    /// The records with their sets that are listed.
    listed: HashSet<(Key, String)>,
    /// States in which jobs left paths that they had looked at.
    left: HashMap<String, HashSet<String>>,
    /// Paths that jobs created in folders that they had listed.
    made: HashSet<String>,
    /// The code of jobs on the machine that had the files, by their base keys.
    locked: BTreeMap<Key, String>,
    /// The names of the layers of that code, by the values of `code`.
    variants: BTreeMap<String, String>,
    /// On a host to which jobs are sent with their code: the files of the project as they were sent, as far as known.
    hosted: Option<Vec<CodeFile>>,
    /// Sets that were read; `None` for unreadable sets.
    known: HashMap<String, Option<Arc<ReadSet>>>,
    /// Environments that were read; `None` for unreadable environments.
    environments: HashMap<String, Option<Arc<Environment>>>,
    /// The present state of sets and of unions of sets, below a project's folder.
    states: HashMap<(PathBuf, Site, Vec<String>), Arc<Code>>,
    /// The projects and places of the first jobs without manifests, by base key.
    first: HashMap<Key, (PathBuf, String)>,
    /// Packages installed in a folder.
    installed: HashMap<String, BTreeMap<String, String>>,
    /// The places of folders and scripts in projects, by the projects and their paths.
    places: HashMap<(PathBuf, String), String>,
    /// Folders of projects, by the folders of recipes.
    projects: HashMap<PathBuf, PathBuf>,
    /// Layers, by the projects and the layers' folders.
    layers: HashMap<(PathBuf, String), Layer>,
}

impl Manifests {
    /// The manifests of the list in `list`, whose sets are in `sets`. Unreadable manifests count as missing.
    pub fn open(list: &Path, sets: PathBuf) -> Self {
        let mut manifests = Self { sets, ..Self::default() };
        let text = fs::read(list).unwrap_or_default();
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        for manifest in lines.filter_map(|line| Line::parse(line).manifest()) {
            manifests.add(manifest);
        }
        manifests
    }

    /// Adds a manifest that comes after the others.
    pub fn add(&mut self, manifest: Manifest) {
        self.listed.insert((manifest.record, manifest.set.clone()));
        self.add_own(&manifest.own);
        self.by_base.entry(manifest.base).or_default().push(manifest);
    }

    /// True if a manifest ties this set to this record.
    pub fn lists(&self, record: Key, set: &str) -> bool {
        self.listed.contains(&(record, set.to_owned()))
    }

    /// True if a set is there and whole.
    pub(crate) fn has_set(&mut self, id: &str) -> bool {
        self.set(id).is_some()
    }

    /// The paths of a set that its job itself has changed; none if the set cannot be read.
    pub(crate) fn own_of(&mut self, id: &str) -> Own {
        self.set(id).map(|set| set.own.clone()).unwrap_or_default()
    }

    /// Adds the paths that a job has changed.
    pub fn add_own(&mut self, own: &Own) {
        for (path, state) in &own.left {
            self.left.entry(path.clone()).or_default().insert(state.clone());
        }
        self.made.extend(own.made.iter().cloned());
    }

    /// True if a job left a path in this state.
    pub fn is_left(&self, path: &str, state: &str) -> bool {
        self.left.get(path).is_some_and(|states| states.contains(state))
    }

    /// True if jobs have changed a path that they had looked at.
    pub fn is_rewritten(&self, path: &str) -> bool {
        self.left.contains_key(path)
    }

    /// True if a job has created the file at a path of a project, even if other jobs have changed it since.
    pub fn is_made(&self, project: &Path, path: &Path, digests: &mut Digests) -> bool {
        let place = path_text(path.strip_prefix(project).unwrap_or(path));
        self.made.contains(&place) && self.is_left(&place, &state_now(digests, path))
    }

    /// Creates the manifests of jobs whose files are on another machine, from the code of the jobs by base key.
    pub fn locked(code: BTreeMap<Key, String>) -> Self {
        Self { locked: code, ..Self::default() }
    }

    /// Returns these manifests with the names of the layers of code by the values of `code`.
    #[must_use]
    pub fn with_variants(self, variants: BTreeMap<String, String>) -> Self {
        Self { variants, ..self }
    }

    /// The name of the layer of a value of `code` on the machine that had the files; `None` if it is not known.
    pub(super) fn variant(&self, value: &Value) -> Option<&str> {
        self.variants.get(&text_of(value)).map(String::as_str)
    }

    /// Creates the manifests of jobs that were sent to this machine with their files, from the code of the jobs by base
    /// key, and from the digests of the sent files by their paths in the project.
    pub fn hosted(code: BTreeMap<Key, String>, sent: BTreeMap<String, String>) -> Self {
        let sent = sent.into_iter().map(|(path, digest)| CodeFile { path, digest, by: None }).collect();
        Self { locked: code, hosted: Some(sent), ..Self::default() }
    }

    /// The files and packages that the job of a record read in its latest observed run.
    pub fn set_of(&mut self, base: Key, record: Key) -> Option<Arc<ReadSet>> {
        self.observation(base, record).map(|(_, set)| set)
    }

    /// The files and packages that the job of a record read, from the set that the record names. Records of earlier versions name no set;
    /// their line in the list names it.
    pub fn read_by(&mut self, named: Option<&str>, identity: &Identity, record: Key) -> Option<Arc<ReadSet>> {
        match named {
            Some(id) => self.set(id),
            None => self.set_of(identity.base_key().ok()?, record),
        }
    }

    /// The latest observed run of the job of a record.
    pub fn observation(&mut self, base: Key, record: Key) -> Option<(Manifest, Arc<ReadSet>)> {
        let manifest = self.by_base.get(&base)?.iter().rfind(|manifest| manifest.record == record)?.clone();
        let set = self.set(&manifest.set)?;
        Some((manifest, set))
    }

    /// The folder of the project that a folder belongs to: the nearest one with `.git` or `pyproject.toml`, else itself.
    pub(super) fn project(&mut self, folder: &Path) -> PathBuf {
        self.projects.entry(folder.to_owned()).or_insert_with(|| project_of(folder)).clone()
    }

    /// The place of a program in its project: the folder that it runs in, and its scripts; nothing for the project's own folder.
    fn place(&mut self, values: &Values, project: &Path) -> String {
        let inputs = values.get("inputs").map_or(&[][..], |inputs| match inputs {
            Value::List(items) => items,
            _ => &[],
        });
        let scripts = inputs.iter().filter_map(Value::as_text).filter(|path| is_script(Path::new(path)));
        let folder = values.get("project").and_then(Value::as_text);
        let mut places = Vec::new();
        for path in folder.into_iter().chain(scripts) {
            let known = self.places.entry((project.to_owned(), path.to_owned()));
            places.push(
                known
                    .or_insert_with(|| {
                        let real = fs::canonicalize(path).unwrap_or_default();
                        real.strip_prefix(project).map(path_text).unwrap_or_default()
                    })
                    .clone(),
            );
        }
        places.retain(|place| !place.is_empty());
        places.join(" ")
    }

    /// Adds the code that a job was observed to read to its identity; returns its key, and its code if the job is observed. `folder` has
    /// the recipe. The project is the project of the folder in which the program runs, else of the recipe.
    pub(super) fn keyed(
        &mut self,
        identity: &mut Identity,
        values: &Values,
        folder: &Path,
        digests: &mut Digests,
    ) -> Result<(Key, Option<Arc<Code>>), serde_json::Error> {
        let base = identity.key()?;
        let tracks = values.get("tracks").and_then(<Option<Tracks>>::from_value).flatten();
        if identity.task != lint::COMMAND || tracks == Some(Tracks::Declared) {
            return Ok((base, None));
        }
        let own = values.get("project").and_then(Value::as_text).map(Path::new);
        let project = self.project(own.unwrap_or(folder));
        let place = self.place(values, &project);
        let layer = values.get(CODE).and_then(Value::as_text).unwrap_or_default();
        let layer =
            self.layers.entry((project.clone(), layer.to_owned())).or_insert_with(|| layer_of(values, &project));
        let site = Site::under(layer.clone(), place, values, &project);
        let (digest, code) = self.resolve(base, project, site, digests);
        identity.code = digest;
        let key = if identity.code.is_some() { identity.key()? } else { base };
        Ok((key, Some(code)))
    }

    /// The code in the identity of a job with this base key, and its present state.
    pub fn resolve(
        &mut self,
        base: Key,
        project: PathBuf,
        site: Site,
        digests: &mut Digests,
    ) -> (Option<String>, Arc<Code>) {
        if let Some(sent) = &self.hosted {
            let code = Code { hosted: true, files: sent.clone(), ..Code::of_project(project, site) };
            return (self.locked.get(&base).cloned(), Arc::new(code));
        }
        if let Some(code) = self.locked.get(&site.key(base)) {
            return (Some(code.clone()), Arc::new(Code::of_project(project, site)));
        }
        let known: Vec<(Key, Option<String>, String)> = self.by_base.get(&base).map_or_else(Vec::new, |manifests| {
            manifests.iter().map(|known| (known.record, known.code.clone(), known.set.clone())).collect()
        });
        let is_known = !known.is_empty();
        let here: Vec<_> = known.into_iter().filter(|(_, _, set)| self.is_at(set, &site.place)).collect();
        if here.is_empty() {
            // Copies of a program have the same base key, but the files beside the copies may differ.
            let is_first = !is_known && !site.is_variant() && {
                let own = (project.clone(), site.place.clone());
                *self.first.entry(base).or_insert_with(|| own.clone()) == own
            };
            let code = (!is_first).then(|| of_site(&project, &site));
            return (code, Arc::new(Code::of_project(project, site)));
        }
        let mut seen = HashSet::new();
        // Only the latest run of a job counts.
        let latest = here.iter().rev().filter(|(record, ..)| seen.insert(*record));
        let latest: Vec<(Option<String>, String)> = latest.map(|(_, code, set)| (code.clone(), set.clone())).collect();
        let all: BTreeSet<String> = here.into_iter().map(|(_, _, set)| set).collect();
        for (code, set) in &latest {
            let state = self.state(&project, &site, vec![set.clone()], digests);
            if state.unchanged {
                return (code.clone(), state);
            }
        }
        let union = self.state(&project, &site, all.into_iter().collect(), digests);
        let mut code = union.digest.clone();
        // A record may be filed under the key of files that its program did not read: made on another machine, or by a
        // program that changed them. All such records are passed over.
        while let Some((_, set)) =
            latest.iter().find(|(own, set)| own.as_ref() == Some(&code) && self.contradicts(set, &union))
        {
            let other = [("not", code.as_str()), ("set", set.as_str())];
            code = code_digest(other.into_iter(), std::iter::empty(), std::iter::empty());
        }
        (Some(code), union)
    }

    /// True if the present content of a file, package or other path differs from a set. A job may create paths that are absent in the set.
    fn contradicts(&mut self, set: &str, now: &Code) -> bool {
        let Some(set) = self.set(set) else { return true };
        let mut files = now.files.iter().filter(|file| file.digest != ABSENT && !file.path.starts_with(FILE_ELSEWHERE));
        let mut packages = now.packages.iter().filter(|(_, _, version)| version != ABSENT);
        let mut facts = now.facts.iter().filter(|fact| fact.digest != ABSENT);
        files.any(|now| set.files.get(&now.path).is_some_and(|then| then.digest != now.digest))
            || packages.any(|(name, folder, version)| {
                set.packages.get(name).is_some_and(|then| then.folder == *folder && then.version != *version)
            })
            || facts.any(|now| set.facts.get(&now.path).is_some_and(|then| fact::is_other(then, &now.digest)))
            || (!now.environment.is_empty() && self.has_other_environment(&set, now))
    }

    /// True if the environment of a set differs from the present one.
    fn has_other_environment(&mut self, set: &ReadSet, now: &Code) -> bool {
        self.environment_states(set).iter().any(|(name, then)| now.environment.get(name).is_some_and(|now| now != then))
    }

    /// The parts of the environment that a set names, as they were.
    pub fn environment_states(&mut self, set: &ReadSet) -> BTreeMap<String, String> {
        environment::states(self.environment_of(set).as_deref())
    }

    /// Returns the environment of a set; `None` if it is unknown.
    fn environment_of(&mut self, set: &ReadSet) -> Option<Arc<Environment>> {
        let id = set.environment.as_ref()?;
        if let Some(environment) = self.environments.get(id) {
            return environment.clone();
        }
        let folder = self.sets.with_file_name(ENVIRONMENTS);
        let text = set_file(&folder, id).and_then(|file| fs::read(file).ok());
        let environment = text.and_then(|text| Environment::parse(&text, id)).map(Arc::new);
        self.environments.insert(id.clone(), environment.clone());
        environment
    }

    /// True if the files and packages of a set are as they were, for a job with this code.
    pub fn is_unchanged(&mut self, code: &Code, set: &str, digests: &mut Digests) -> bool {
        self.state(&code.project, &code.site, vec![set.to_owned()], digests).unchanged
    }

    /// True unless a set is of a program that ran at another place.
    fn is_at(&mut self, set: &str, place: &str) -> bool {
        self.set(set).is_none_or(|set| set.facts.get(fact::PLACE).is_none_or(|then| *then == fact::at(place)))
    }

    fn set(&mut self, id: &str) -> Option<Arc<ReadSet>> {
        if let Some(set) = self.known.get(id) {
            return set.clone();
        }
        let text = set_file(&self.sets, id).and_then(|file| fs::read(file).ok());
        let set = text.and_then(|text| ReadSet::parse(&text, id)).map(Arc::new);
        self.known.insert(id.to_owned(), set.clone());
        set
    }

    /// True if the code `planned`, with which a job was planned, is the job's present code; also returns the present code. Other runs of
    /// the program, with other variants of its code, may have read the same files meanwhile, or others.
    pub fn is_planned(
        &mut self,
        base: Key,
        code: &Code,
        planned: Option<&String>,
        digests: &mut Digests,
    ) -> (bool, Arc<Code>) {
        let (digest, now) = self.resolve(base, code.project.clone(), code.site.clone(), digests);
        if now.is_planned(digest.as_ref(), planned) {
            return (true, now);
        }
        let known = self.by_base.get(&base).map_or(&[][..], Vec::as_slice);
        // Only the latest run of a job counts.
        let own = known.iter().rfind(|run| run.code.as_ref() == planned).map(|run| run.set.clone());
        let is_current = match own {
            Some(set) => self.is_at(&set, &code.site.place) && self.is_unchanged(code, &set, digests),
            // The files that a program reads are unknown before its first run.
            None => planned.is_none_or(|planned| *planned == of_site(&code.project, &code.site)),
        };
        (is_current, now)
    }

    /// The present state of the paths in some sets.
    fn state(&mut self, project: &Path, site: &Site, sets: Vec<String>, digests: &mut Digests) -> Arc<Code> {
        let known = (project.to_owned(), site.clone(), sets);
        if let Some(state) = self.states.get(&known) {
            return Arc::clone(state);
        }
        let (project, site, sets) = &known;
        // Invalid patterns have been reported as mistakes of the recipe.
        let ignore = Ignore::only(&site.ignore).unwrap_or_default();
        let is_ignored = |path: &Path| fact::is_ignored(&ignore, project, path);
        let mut unchanged = true;
        let (mut files, mut packages) = (BTreeMap::new(), BTreeMap::new());
        let mut facts: BTreeMap<(String, String), String> = BTreeMap::new();
        let mut environment = BTreeMap::new();
        for id in sets {
            let Some(set) = self.set(id) else {
                // Without the set, the key must differ from every key that a record may have had with the set.
                unchanged = false;
                files.insert(format!("set {id}"), (ABSENT.to_owned(), None));
                continue;
            };
            for (path, file) in set.files.iter().filter(|(path, _)| !is_ignored(&project.join(text_path(path)))) {
                if path.starts_with(FILE_ELSEWHERE) {
                    files.entry(path.clone()).or_insert_with(|| (file.digest.clone(), None));
                    continue;
                }
                let now =
                    files.entry(path.clone()).or_insert_with(|| (digest_now(digests, &site.real(project, path)), None));
                unchanged &= now.0 == file.digest || self.is_own(&set.own, path, &now.0);
                now.1.clone_from(&file.by);
            }
            for (path, then) in set.facts.iter().filter(|(path, _)| !is_ignored(&project.join(text_path(path)))) {
                let now = facts.get(&(path.clone(), then.clone())).cloned();
                let now = now.unwrap_or_else(|| match path.as_str() {
                    fact::PLACE => fact::at(&site.place),
                    fact::IGNORE => fact::patterns_now(then, &site.ignore),
                    _ => self.fact_now(project, &site.layer, (path, then), &is_ignored, digests),
                });
                unchanged &= now == *then || self.is_own_fact(&set.own, &site.real(project, path), path, &now, digests);
                facts.insert((path.clone(), then.clone()), now);
            }
            for (name, package) in &set.packages {
                let is_elsewhere = package.folder.starts_with(ELSEWHERE);
                let now = if is_elsewhere { package.version.clone() } else { self.version(&package.folder, name) };
                unchanged &= now == package.version;
                packages.insert((name.clone(), package.folder.clone()), now);
            }
            if let Some(present) = &site.environment {
                let own = self.environment_of(&set);
                let now = environment::states_now(own.as_deref(), present, digests);
                unchanged &= now == environment::states(own.as_deref());
                environment.extend(now);
            }
        }
        let names: Vec<String> = environment.keys().map(|name| format!("//environment/{name}")).collect();
        let used = names.iter().zip(environment.values()).map(|(name, now)| (name.as_str(), now.as_str()));
        let digest = code_digest(
            files.iter().map(|(path, (digest, _))| (path.as_str(), digest.as_str())),
            packages.iter().map(|((name, _), version)| (name.as_str(), version.as_str())),
            facts.iter().map(|((path, _), now)| (path.as_str(), now.as_str())).chain(used),
        );
        let facts = facts.into_iter().map(|((path, _), digest)| CodeFile { path, digest, by: None }).collect();
        let files = files.into_iter().map(|(path, (digest, by))| CodeFile { path, digest, by }).collect();
        let packages = packages.into_iter().map(|((name, folder), version)| (name, folder, version)).collect();
        let code = Arc::new(Code {
            project: project.clone(),
            site: site.clone(),
            files,
            packages,
            facts,
            environment,
            unchanged,
            digest,
            stale: false,
            hosted: false,
        });
        self.states.insert(known, Arc::clone(&code));
        code
    }

    /// True if a file that the job has changed itself is as a job left it.
    fn is_own(&self, own: &Own, path: &str, now: &str) -> bool {
        own.left.get(path).is_some_and(|left| left == now || self.is_left(path, now))
    }

    /// True if a path with a different property is in the state in which the job left it. A path that was absent then may have been created
    /// by any job.
    fn is_own_fact(&self, own: &Own, real: &Path, path: &str, now: &str, digests: &mut Digests) -> bool {
        if fact::is_names(now) {
            return self.is_own(own, path, now);
        }
        let state = state_now(digests, real);
        own.left.get(path) == Some(&state) || self.is_left(path, &state)
    }

    /// The present property of a path. Names in a folder that jobs have created do not count.
    fn fact_now(
        &self,
        project: &Path,
        layer: &Layer,
        (path, then): (&str, &str),
        is_ignored: &dyn Fn(&Path) -> bool,
        digests: &mut Digests,
    ) -> String {
        let results = self.sets.ancestors().nth(3).map(fact::real);
        fact::now(then, &project.join(text_path(path)), layer, &mut |entry| {
            results.as_deref().is_some_and(|results| is_of_results(results, entry))
                || is_ignored(entry)
                || self.is_made(project, entry, digests)
        })
    }

    fn version(&mut self, folder: &str, name: &str) -> String {
        let installed =
            self.installed.entry(folder.to_owned()).or_insert_with(|| packages::installed(&text_path(folder)));
        installed.get(name).cloned().unwrap_or_else(|| ABSENT.to_owned())
    }
}

/// True for a folder for results, and for the folders that `sweep` makes in it.
fn is_of_results(results: &Path, entry: &Path) -> bool {
    entry == results
        || entry.strip_prefix(results).is_ok_and(|name| OWN_FOLDERS.iter().any(|own| name == Path::new(own)))
}

/// True if a path leads to a script, by its extension.
pub fn is_script(path: &Path) -> bool {
    path.extension().is_some_and(|end| lint::EXTENSIONS.iter().any(|known| end == *known))
}

/// Returns the file of a set in the folder `sets`; `None` if `id` is not a digest.
pub fn set_file(sets: &Path, id: &str) -> Option<PathBuf> {
    let is_digest = id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_digest.then(|| sets.join(&id[..2]).join(id))
}

/// The digest that a file has now, or a word for its absence.
pub fn digest_now(digests: &mut Digests, path: &Path) -> String {
    match digests.of_file(path) {
        Ok(digest) => digest,
        Err(error) if error.kind() == io::ErrorKind::NotFound => ABSENT.to_owned(),
        Err(_) => "unreadable".to_owned(),
    }
}

/// The state of a path now: the digest of a file, or the property of anything else.
pub fn state_now(digests: &mut Digests, path: &Path) -> String {
    match fact::state(path) {
        state if state == fact::FILE => digest_now(digests, path),
        state => state,
    }
}

mod adopted;
#[cfg(test)]
mod tests;
