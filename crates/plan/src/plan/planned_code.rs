//! The code of planned jobs: its comparison with their keys, and its state for their programs during a run.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use sweep_job::Value;

use super::{Code, Digests, Job, JobId, Manifests, Plan, PlanError, site::CodeFile};
use crate::record::{self, FILE_ELSEWHERE, Key, path_text, text_path};

impl Plan {
    /// Finds the code of jobs that another process has planned. A job whose code no longer matches its key is marked as such.
    pub fn find_code(&mut self, digests: &mut Digests) -> Result<(), PlanError> {
        let mut manifests = std::mem::take(&mut digests.manifests);
        for job in &mut self.jobs {
            let Some(code) = &job.code else { continue };
            let base = job.identity.base_key()?;
            let (is_planned, now) = manifests.is_planned(base, code, job.identity.code.as_ref(), digests);
            job.code = Some(if is_planned { now } else { Arc::new(now.as_stale()) });
        }
        Ok(())
    }

    /// True if the code in a job's key differs from the present manifests: a record that has come since the plan was
    /// made may have been made with other code.
    pub fn has_other_code(&self, id: JobId, manifests: &mut Manifests, digests: &mut Digests) -> bool {
        let Some(code) = self.job(id).code.as_ref() else { return false };
        self.is_other(id, code, manifests, digests)
    }

    /// The comparison for the files as of the run's beginning.
    pub fn had_other_code(&self, id: JobId, manifests: &mut Manifests, digests: &mut Digests) -> bool {
        let Some(code) = self.job(id).code.as_ref() else { return false };
        let code = self.earlier(code, &|path| manifests.is_rewritten(&path_text(path)));
        self.is_other(id, &code, manifests, digests)
    }

    fn is_other(&self, id: JobId, code: &Code, manifests: &mut Manifests, digests: &mut Digests) -> bool {
        let identity = &self.job(id).identity;
        let Ok(base) = identity.base_key() else { return true };
        !code.hosted && !manifests.is_planned(base, code, identity.code.as_ref(), digests).0
    }

    /// The code of a job of a run, with the files that its program finds: as they were when the run began, if it runs
    /// in a view of its project. `is_written` returns true for the paths in the project that jobs write.
    pub fn code_in_run(&self, id: JobId, is_written: &dyn Fn(&Path) -> bool) -> Option<Arc<Code>> {
        let code = self.job(id).code.as_ref()?;
        if !self.has_view(id) {
            return Some(Arc::clone(code));
        }
        let earlier = self.earlier(code, is_written);
        let is_found = Arc::ptr_eq(&earlier, code) || self.moments.have_views();
        Some(if is_found { earlier } else { Arc::clone(code) })
    }

    /// Code with the files as they were when the run began.
    fn earlier(&self, code: &Arc<Code>, is_written: &dyn Fn(&Path) -> bool) -> Arc<Code> {
        let layer = self.moments.layer(&code.project, &code.site.layer, is_written);
        layer.map_or_else(|| Arc::clone(code), |layer| Arc::new(code.under(layer)))
    }

    /// True if the program of a job runs in its project.
    pub fn has_view(&self, id: JobId) -> bool {
        self.job(id).values.get("project").and_then(Value::as_text).is_some()
    }

    /// Keeps the files of the projects of the jobs that `runs`, for jobs that start after an edit. `results` is the
    /// results folder.
    ///
    /// # Errors
    /// The copies cannot be written.
    pub fn begin_moments(&self, results: &Path, runs: impl Fn(JobId) -> bool) -> io::Result<()> {
        let mut projects: BTreeMap<PathBuf, BTreeSet<PathBuf>> = BTreeMap::new();
        for (_, job) in self.jobs().filter(|(id, _)| runs(*id)) {
            let Some(code) = job.code.as_ref().filter(|code| !code.hosted) else { continue };
            let known = projects.entry(code.project.clone()).or_default();
            let inside = code.files.iter().filter(|file| !file.path.starts_with(FILE_ELSEWHERE));
            known.extend(inside.map(|file| text_path(&file.path)).filter(|path| path.is_relative()));
        }
        self.moments.begin(results, projects)
    }

    /// A file, a package or a part of the environment that has changed since the job of a record read it.
    pub fn changed_file(&self, id: JobId, manifests: &mut Manifests, digests: &mut Digests) -> Option<String> {
        let Job { identity, code: Some(code), key, .. } = self.job(id) else { return None };
        let base = identity.base_key().ok()?;
        let now = manifests.resolve(base, code.project.clone(), code.site.clone(), digests).1;
        let set = manifests.set_of(base, *key)?;
        let mut files = now.files.iter();
        let file = files.find(|now| set.files.get(&now.path).is_some_and(|then| then.digest != now.digest));
        let package = |(name, folder, version): &&(String, String, String)| {
            set.packages.get(name).is_some_and(|then| then.folder == *folder && then.version != *version)
        };
        let fact = |now: &CodeFile| {
            let then = set.facts.get(&now.path).filter(|then| record::fact::is_other(then, &now.digest))?;
            Some(record::fact::change(&now.path, then, &now.digest, "").0)
        };
        let package = || Some(now.packages.iter().find(package)?.0.clone());
        let mut part = || {
            let then = manifests.environment_states(&set);
            now.environment.iter().find(|(name, now)| then.get(*name).is_some_and(|then| then != *now))
        };
        let file = file.map(|file| file.path.clone()).or_else(|| now.facts.iter().find_map(fact));
        file.or_else(package).or_else(|| Some(part()?.0.clone()))
    }

    /// True if the reads of a record's job are known.
    pub fn has_read_set(&self, id: JobId, manifests: &mut Manifests) -> bool {
        let Job { identity, key, .. } = self.job(id);
        identity.base_key().is_ok_and(|base| manifests.set_of(base, *key).is_some())
    }

    /// The key of a job without its code, but with the variant of it.
    pub fn key_of_variant(&self, id: JobId) -> Result<Key, serde_json::Error> {
        let Job { identity, code, .. } = self.job(id);
        let base = identity.base_key()?;
        Ok(code.as_ref().map_or(base, |code| code.site.key(base)))
    }

    /// The code in the identities of jobs, by their base keys.
    pub fn code(&self) -> Result<BTreeMap<Key, String>, serde_json::Error> {
        let with_code = self.jobs().filter_map(|(id, job)| Some((self.key_of_variant(id), job.identity.code.clone()?)));
        with_code.map(|(key, code)| Ok((key?, code))).collect()
    }
}
