//! A private view of a folder: a program sees the folder where it is, and its writes go to another place.
//!
//! The program's process gets its own mount namespace, in which an overlay covers the folder. Without the right to mount, it gets a user
//! namespace, too, with the same user and group. All of it ends with the last process that is in it.

use std::{
    ffi::{CStr, CString, OsStr},
    fs::{self, DirBuilder, File, FileTimes},
    io,
    os::{
        fd::RawFd,
        unix::{ffi::OsStrExt as _, fs::DirBuilderExt as _, process::CommandExt as _},
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    ptr,
};

use super::{
    layer::Layer,
    mounts::{self, MAX_MOUNTS, Mounted, options, text},
};

/// Maximum number of shared paths of a view.
const MAX_SHARED: usize = 4;

/// A file or a folder that a view does not cover.
#[derive(Debug, Clone, Copy)]
pub struct Shared<'a> {
    /// The path, absolute and without links.
    pub path: &'a Path,
    /// True if the program may write to it.
    pub is_writable: bool,
}

#[derive(Debug, Clone)]
struct Bind {
    path: CString,
    /// Flags that make the mount read-only; `None` if it is writable.
    read_only: Option<libc::c_ulong>,
}

impl Bind {
    fn new(shared: Shared<'_>) -> io::Result<Self> {
        let path = text(shared.path)?;
        let read_only = if shared.is_writable { None } else { Some(read_only(&path)?) };
        Ok(Self { path, read_only })
    }
}

/// A private view of a folder.
#[derive(Debug, Clone)]
pub struct View {
    folder: CString,
    /// File systems inside, the outer ones first.
    mounts: Vec<Mounted>,
    /// Paths inside that are not covered, in the order in which they are mounted.
    shared: Vec<Bind>,
    working: CString,
    upper: PathBuf,
    options: CString,
    /// Options for a mount in a user namespace.
    user_options: CString,
    user_map: Vec<u8>,
    group_map: Vec<u8>,
}

impl View {
    /// A view of `folder`, an absolute path without links. Writes go to the folder `upper` in `place`, which is created.
    ///
    /// Programs start in the folder `working`. The paths `shared` below `folder` are not covered: writes to the writable ones reach them,
    /// and the kernel refuses writes to the others, except below a writable one that follows. The files of `layer` replace files of
    /// `folder`. Other file systems that are mounted inside of `folder` have views of their own, which write to `upper`, too; writes to
    /// the one that contains `place` reach it.
    ///
    /// # Errors
    ///
    /// If `place` cannot be created, if a file of the layer cannot be copied, or if a path has a NUL character.
    pub fn new(folder: &Path, working: &Path, shared: &[Shared<'_>], place: &Path, layer: &Layer) -> io::Result<Self> {
        let (upper, work) = (place.join("upper"), place.join("work"));
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o755);
        // Relative paths of the program start from the working folder, so its outputs are expected there.
        builder.create(upper.join(working.strip_prefix(folder).unwrap_or(Path::new(""))))?;
        builder.create(&work)?;
        lay(layer, &upper)?;
        let [own_options, user_options] = options(folder, &upper, &work)?;
        let inside = shared.iter().filter(|shared| shared.path.starts_with(folder));
        if shared.len() > MAX_SHARED {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut mounts = mounts::below(folder);
        mounts.retain(|path| !shared.iter().any(|shared| path.starts_with(shared.path)));
        let mounts = mounts::of_view(&mounts, folder, &upper, place)?;
        // SAFETY: the calls take no arguments and cannot fail.
        let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
        Ok(Self {
            folder: text(folder)?,
            mounts,
            shared: inside.map(|shared| Bind::new(*shared)).collect::<io::Result<_>>()?,
            working: text(working)?,
            upper,
            options: own_options,
            user_options,
            user_map: format!("{user} {user} 1").into_bytes(),
            group_map: format!("{group} {group} 1").into_bytes(),
        })
    }

    /// The folder that the view covers.
    pub fn folder(&self) -> &Path {
        Path::new(OsStr::from_bytes(self.folder.as_bytes()))
    }

    /// The folder with the files that programs have written below the folder of the view, at the same relative paths.
    pub fn written(&self) -> &Path {
        &self.upper
    }

    /// Removes copies of the layer's files that no program has changed from the written files.
    ///
    /// # Errors
    ///
    /// A file cannot be removed.
    pub fn take_away(&self, layer: &Layer) -> io::Result<()> {
        for (path, file) in layer.files().filter_map(|(path, file)| Some((path, file?))) {
            let copy = self.upper.join(path);
            if is_copy(&file, &copy) {
                fs::remove_file(&copy)?;
                // Folders with other files in them stay.
                let folders = copy.ancestors().skip(1).take_while(|folder| *folder != self.upper);
                for folder in folders {
                    if fs::remove_dir(folder).is_err() {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Makes `command` start its program in the view.
    pub fn apply(&self, command: &mut Command) {
        let view = self.clone();
        // SAFETY: between fork and exec, `enter` only makes system calls with memory that was allocated before the fork.
        unsafe {
            command.pre_exec(move || view.enter());
        }
    }

    /// Checks that this machine lets a program start in a view: starts one in a view of an empty folder below `place`.
    ///
    /// # Errors
    ///
    /// The reason why this machine does not allow it.
    pub fn check(place: &Path) -> io::Result<()> {
        let folder = place.join("folder");
        DirBuilder::new().recursive(true).create(folder.join("shared"))?;
        let folder = folder.canonicalize()?;
        let shared = [Shared { path: &folder.join("shared"), is_writable: false }];
        Self::new(&folder, &folder, &shared, place, &Layer::default())?.start()
    }

    /// Checks that this machine lets a program start in a view of `folder`, in which other file systems are mounted. Without the right to
    /// mount, the kernel may refuse an overlay of such a folder. Uses the folder `place`.
    ///
    /// # Errors
    ///
    /// The reason why this machine does not allow it.
    pub fn check_mounts(folder: &Path, place: &Path) -> io::Result<()> {
        let Some(inner) = mounts::below(folder).into_iter().next() else { return Ok(()) };
        let view = Self::new(folder, folder, &[], place, &Layer::default())?;
        let inner = inner.display();
        view.start().map_err(|error| {
            io::Error::other(format!(
                "`{inner}` is another file system inside of the project, which needs the right to mount: {error}"
            ))
        })
    }

    /// Starts a program that does nothing.
    fn start(&self) -> io::Result<()> {
        let mut command = Command::new("true");
        self.apply(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let refusal = |error: io::Error| match error.raw_os_error() {
            // The kernel reports an exceeded limit of user namespaces as a full disk.
            Some(libc::ENOSPC | libc::EPERM | libc::EUSERS) => io::Error::other("user namespaces are not allowed"),
            _ => error,
        };
        let status = command.status().map_err(refusal)?;
        if status.success() { Ok(()) } else { Err(io::Error::other(format!("`true` ended with {status}"))) }
    }

    fn enter(&self) -> io::Result<()> {
        // SAFETY: takes a flag.
        let is_privileged = unsafe { libc::unshare(libc::CLONE_NEWNS) } == 0;
        if !is_privileged {
            // SAFETY: as above.
            done(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) })?;
            write(c"/proc/self/setgroups", b"deny")?;
            write(c"/proc/self/uid_map", &self.user_map)?;
            write(c"/proc/self/gid_map", &self.group_map)?;
        }
        mount(c"none", c"/", None, libc::MS_REC | libc::MS_PRIVATE, None)?;
        // Opened before the overlay covers them. The array is on the stack: memory must not be allocated here.
        let mut handles = [None; MAX_SHARED];
        for (bind, handle) in self.shared.iter().zip(&mut handles) {
            *handle = Some(open(&bind.path)?);
        }
        // The inner ones first: the overlay of an outer one covers them.
        let mut inside = [None; MAX_MOUNTS];
        for (Mounted { path, overlay }, handle) in self.mounts.iter().zip(&mut inside).rev() {
            if let Some([options, user_options]) = overlay {
                let options = if is_privileged { options } else { user_options };
                // Some file systems cannot be below an overlay; the program sees them as they are.
                let _ = mount(c"overlay", path, Some(c"overlay"), 0, Some(options));
            }
            // A mount that this user may not open is none of the program's, either.
            *handle = open(path).ok();
        }
        let options = if is_privileged { &self.options } else { &self.user_options };
        mount(c"overlay", &self.folder, Some(c"overlay"), 0, Some(options))?;
        for (Mounted { path, .. }, handle) in self.mounts.iter().zip(inside) {
            let Some(handle) = handle else { continue };
            let mut source = [0; 32];
            mount(descriptor(handle, &mut source), path, None, libc::MS_BIND | libc::MS_REC, None)?;
            // SAFETY: the descriptor is this function's own.
            done(unsafe { libc::close(handle) })?;
        }
        for (Bind { path, read_only }, handle) in self.shared.iter().zip(handles) {
            let Some(handle) = handle else { continue };
            let mut source = [0; 32];
            mount(descriptor(handle, &mut source), path, None, libc::MS_BIND | libc::MS_REC, None)?;
            // SAFETY: the descriptor is this function's own.
            done(unsafe { libc::close(handle) })?;
            if let Some(flags) = read_only {
                mount(c"none", path, None, libc::MS_REMOUNT | libc::MS_BIND | flags, None)?;
            }
        }
        // SAFETY: the path ends with NUL and lives as long as the call.
        done(unsafe { libc::chdir(self.working.as_ptr()) })
    }
}

/// Copies the files of a layer to the folder for writes, where they cover the project's files: an overlay accepts no folder inside another
/// of its folders as a layer, and results are often inside the project.
fn lay(layer: &Layer, upper: &Path) -> io::Result<()> {
    for (path, file) in layer.files() {
        let copy = upper.join(path);
        if let Some(folder) = copy.parent() {
            DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
        }
        match file {
            None => {
                let path = text(&copy)?;
                // SAFETY: the path ends with NUL and lives as long as the call. This device is the mark of an overlay for a
                // path that does not exist; it needs no privilege.
                done(unsafe { libc::mknod(path.as_ptr(), libc::S_IFCHR | 0o600, 0) })?;
            }
            Some(file) if file.is_symlink() => std::os::unix::fs::symlink(fs::read_link(&file)?, &copy)?,
            Some(file) => {
                fs::copy(&file, &copy)?;
                let times = FileTimes::new().set_modified(fs::metadata(&file)?.modified()?);
                // This also works for a copy that its owner may not write.
                File::open(&copy)?.set_times(times)?;
            }
        }
    }
    Ok(())
}

/// Returns true if a copy of a layer's file is unchanged.
fn is_copy(file: &Path, copy: &Path) -> bool {
    let (Ok(file_metadata), Ok(copy_metadata)) = (fs::symlink_metadata(file), fs::symlink_metadata(copy)) else {
        return false;
    };
    if file_metadata.is_symlink() {
        return fs::read_link(file).ok() == fs::read_link(copy).ok();
    }
    copy_metadata.is_file()
        && (file_metadata.len(), file_metadata.modified().ok()) == (copy_metadata.len(), copy_metadata.modified().ok())
}

/// The flags of a read-only mount of a path. A user namespace may not clear flags that the path's mount has.
fn read_only(path: &CStr) -> io::Result<libc::c_ulong> {
    // SAFETY: the structure is plain data, for which zeros are valid.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with NUL, and both pointers live as long as the call.
    done(unsafe { libc::statvfs(path.as_ptr(), &raw mut found) })?;
    let pairs = [
        (libc::ST_NOSUID, libc::MS_NOSUID),
        (libc::ST_NODEV, libc::MS_NODEV),
        (libc::ST_NOEXEC, libc::MS_NOEXEC),
        (libc::ST_NOATIME, libc::MS_NOATIME),
        (libc::ST_NODIRATIME, libc::MS_NODIRATIME),
        (libc::ST_RELATIME, libc::MS_RELATIME),
    ];
    let kept = pairs.into_iter().filter(|(flag, _)| found.f_flag & flag != 0);
    Ok(kept.fold(libc::MS_RDONLY, |flags, (_, flag)| flags | flag))
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn mount(
    source: &CStr,
    target: &CStr,
    kind: Option<&CStr>,
    flags: libc::c_ulong,
    options: Option<&CString>,
) -> io::Result<()> {
    let kind = kind.map_or(ptr::null(), CStr::as_ptr);
    let options = options.map_or(ptr::null(), |options| options.as_ptr().cast());
    // SAFETY: all texts end with NUL and live as long as the call; a null pointer stands for an absent text.
    done(unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind, flags, options) })
}

fn open(path: &CStr) -> io::Result<RawFd> {
    // SAFETY: the path ends with NUL and lives as long as the call.
    let number = unsafe { libc::open(path.as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
    if number < 0 { Err(io::Error::last_os_error()) } else { Ok(number) }
}

/// The path by which a descriptor of this process can be mounted. Written without allocating.
fn descriptor(number: RawFd, text: &mut [u8; 32]) -> &CStr {
    const START: &[u8] = b"/proc/self/fd/";
    text[..START.len()].copy_from_slice(START);
    let mut digits = [0; 12];
    let mut count = 0;
    let mut remainder = number;
    while remainder > 0 || count == 0 {
        digits[count] = b'0' + u8::try_from(remainder % 10).unwrap_or(0);
        remainder /= 10;
        count += 1;
    }
    for index in 0..count {
        text[START.len() + index] = digits[count - 1 - index];
    }
    CStr::from_bytes_until_nul(text).unwrap_or(c"")
}

/// Writes to a file that exists.
fn write(path: &CStr, content: &[u8]) -> io::Result<()> {
    // SAFETY: the path ends with NUL, the content has its length, both live as long as the calls, and the descriptor is closed once.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        let count = libc::write(file, content.as_ptr().cast(), content.len());
        let result = if count < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
        libc::close(file);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(view: &View, script: &str) -> String {
        let mut command = Command::new("sh");
        command.args(["-eu", "-c", script]);
        view.apply(&mut command);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn a_program_sees_the_folder_and_its_writes_are_its_own() {
        let place = tempfile::tempdir().unwrap();
        if let Err(error) = View::check(&place.path().join("check")) {
            println!("no views on this machine: {error}");
            return;
        }
        // Commas, colons and backslashes separate options of a mount.
        let project = place.path().canonicalize().unwrap().join(r"a,b:c\d");
        let (sources, results) = (project.join("src"), project.join("results"));
        fs::create_dir_all(&sources).unwrap();
        fs::create_dir_all(&results).unwrap();
        fs::write(project.join("data"), "old\n").unwrap();
        fs::write(sources.join("gone"), "").unwrap();
        let shared = [Shared { path: &results, is_writable: true }];
        let view = View::new(&project, &sources, &shared, &results.join("view"), &Layer::default()).unwrap();
        let script = "pwd; cat ../data; echo new >> ../data; cat ../data; rm gone; echo x > made; mkdir -p ../runs/1; \
                      echo kept > ../results/kept; ls";
        let expected = format!("{}\nold\nold\nnew\nmade\n", sources.display());
        assert_eq!(shell(&view, script), expected);
        assert_eq!(fs::read_to_string(project.join("data")).unwrap(), "old\n");
        assert!(sources.join("gone").exists() && !sources.join("made").exists() && !project.join("runs").exists());
        assert_eq!(fs::read_to_string(results.join("kept")).unwrap(), "kept\n");
        assert_eq!(fs::read_to_string(view.written().join("src/made")).unwrap(), "x\n");
        assert!(view.written().join("runs/1").is_dir());
        // Two views do not see each other's writes.
        let other_view = View::new(&project, &sources, &shared, &results.join("other"), &Layer::default()).unwrap();
        assert_eq!(shell(&other_view, "cat ../data; ls"), "old\ngone\n");
    }

    #[test]
    fn a_program_changes_only_the_writable_ones_of_shared_paths() {
        let place = tempfile::tempdir().unwrap();
        if let Err(error) = View::check(&place.path().join("check")) {
            println!("no views on this machine: {error}");
            return;
        }
        let project = place.path().canonicalize().unwrap();
        let results = project.join("results");
        let (own, file) = (results.join("staging/own"), results.join("staging/file"));
        fs::create_dir_all(&own).unwrap();
        for path in [&results.join("record"), &file, &own.join("old")] {
            fs::write(path, "kept\n").unwrap();
        }
        let shared = [(&results, false), (&own, true), (&file, true)];
        let shared = shared.map(|(path, is_writable)| Shared { path, is_writable });
        let view = View::new(&project, &project, &shared, &project.join("view"), &Layer::default()).unwrap();
        let script = "rm -rf results 2>/dev/null || true; cat results/record; echo x > results/record || true; \
                      echo new > results/staging/own/new; echo more >> results/staging/file; ls results/staging/own";
        assert_eq!(shell(&view, &format!("exec 2>/dev/null; {script}")), "kept\nnew\n");
        assert_eq!(fs::read_to_string(results.join("record")).unwrap(), "kept\n");
        assert_eq!(fs::read_to_string(&file).unwrap(), "kept\nmore\n");
        assert!(own.join("new").exists() && !own.join("old").exists());
    }

    #[test]
    fn a_program_sees_the_files_of_a_layer_and_what_it_wrote_is_told_from_them() {
        let place = tempfile::tempdir().unwrap();
        if let Err(error) = View::check(&place.path().join("check")) {
            println!("no views on this machine: {error}");
            return;
        }
        let project = place.path().canonicalize().unwrap().join("project");
        let (sources, results) = (project.join("src"), project.join("results"));
        for folder in [&sources, &project.join("old"), &results] {
            fs::create_dir_all(folder).unwrap();
        }
        for (path, text) in [("src/model", "base\n"), ("src/gone", ""), ("old/a", ""), ("data", "d\n")] {
            fs::write(project.join(path), text).unwrap();
        }
        let shared = [Shared { path: &results, is_writable: true }];
        let folder = results.join("layer");
        let files = Layer::write(&folder, [Path::new("src/gone"), Path::new("old")].into_iter()).unwrap();
        fs::create_dir_all(files.join("src/new")).unwrap();
        fs::write(files.join("src/model"), "variant\n").unwrap();
        fs::write(files.join("src/new/part"), "part\n").unwrap();
        std::os::unix::fs::symlink("model", files.join("src/link")).unwrap();
        let layer = Layer::open(&project, &folder).unwrap();
        let view = View::new(&project, &sources, &shared, &results.join("view"), &layer).unwrap();
        let script = "cat model link new/part ../data; ls; ls ..; echo mine >> new/part; echo out > out";
        assert_eq!(shell(&view, script), "variant\nvariant\npart\nd\nlink\nmodel\nnew\ndata\nresults\nsrc\n");
        assert_eq!(fs::read_to_string(files.join("src/new/part")).unwrap(), "part\n", "the layer is as it was");
        assert_eq!(fs::read_to_string(sources.join("model")).unwrap(), "base\n");
        view.take_away(&layer).unwrap();
        let changes = view.written().join("src");
        assert_eq!(fs::read_to_string(changes.join("new/part")).unwrap(), "part\nmine\n");
        assert!(changes.join("out").exists() && !changes.join("model").exists() && !changes.join("link").exists());
    }

    #[test]
    fn numbers_of_descriptors_are_written_out() {
        let mut text = [0; 32];
        assert_eq!(descriptor(0, &mut text), c"/proc/self/fd/0");
        assert_eq!(descriptor(1_024, &mut [0; 32]), c"/proc/self/fd/1024");
    }
}
