//! Progress on terminals of several widths, and in a pipe.

use std::{
    fs::File,
    io::{Read, Write as _},
    num::NonZero,
    os::fd::{AsFd as _, OwnedFd},
    process::{Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use rustix::{
    process::Signal,
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use crate::{
    messages::{Transcript, sorted},
    sandbox::{Ended, Running, Sandbox, until},
};

const ROWS: NonZero<u16> = NonZero::new(24).unwrap();

const RECIPE: &str = "
steps:
  quick: { uses: mock, resources: { cpus: 1 } }
  broken: { uses: mock, with: { end: fail }, resources: { cpus: 1 } }
  slow:
    uses: mock
    matrix: { variant: [1234567890, 1234567891], seed: [7], value: [0.12345678901234, 0.12345678901235] }
    with: { seconds: 600, steps: 6000 }
    resources: { cpus: 1 }
";

/// A program on a separate terminal.
pub(crate) struct Terminal {
    program: Running,
    screen: Arc<Mutex<vt100::Parser>>,
    reader: thread::JoinHandle<()>,
    keyboard: File,
    /// Turns true when the terminal is to hang up.
    hung_up: Arc<AtomicBool>,
}

impl Terminal {
    pub(crate) fn start(sandbox: &Sandbox, columns: u16, args: &[&str]) -> Self {
        let mut command = sandbox.command(args);
        command.env("TERM", "xterm-256color").env_remove("CI");
        Self::with(command, columns)
    }

    /// The terminal of a separate session, whose programs it can interrupt.
    pub(crate) fn session(sandbox: &Sandbox, columns: u16, args: &[&str]) -> Self {
        Self::session_of(sandbox, columns, &[], args)
    }

    /// A shell with this script in such a session; `$0` in it is the program.
    pub(crate) fn shell(sandbox: &Sandbox, columns: u16, script: &str) -> Self {
        Self::session_of(sandbox, columns, &["sh", "-c", script], &[])
    }

    fn session_of(sandbox: &Sandbox, columns: u16, before: &[&str], args: &[&str]) -> Self {
        let program = sandbox.command(args);
        let mut command = Command::new("setsid");
        command.arg("--ctty").args(before).arg(program.get_program()).args(program.get_args());
        command.current_dir(program.get_current_dir().unwrap());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.env("TERM", "xterm-256color").env_remove("CI");
        Self::with(command, columns)
    }

    /// A program on a terminal.
    fn with(mut command: Command, columns: u16) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let size = Winsize { ws_row: ROWS.get(), ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(ours.as_fd(), size).unwrap();
        let theirs = File::options().read(true).write(true).open(name).unwrap();
        command.stdin(theirs.try_clone().unwrap());
        command.stdout(theirs.try_clone().unwrap()).stderr(Stdio::from(theirs));
        let keyboard = File::from(ours.try_clone().unwrap());
        let program = Running::from(command.spawn().unwrap());
        drop(command);
        let screen = Arc::new(Mutex::new(vt100::Parser::new(ROWS, NonZero::new(columns).unwrap(), 0)));
        let (shown, hung_up) = (Arc::clone(&screen), Arc::new(AtomicBool::new(false)));
        let until_hung_up = Arc::clone(&hung_up);
        let reader = thread::spawn(move || follow(ours, &shown, &until_hung_up));
        Self { program, screen, reader, keyboard, hung_up }
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        rows(&self.screen.lock().unwrap())
    }

    /// Types keys.
    pub(crate) fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until a row of the screen contains a text.
    pub(crate) fn until_shown(&self, text: &str) {
        until(&format!("the screen has `{text}`"), || self.lines().iter().any(|line| line.contains(text)));
    }

    /// The screen as it is now.
    pub(crate) fn with_screen<T>(&self, look: impl FnOnce(&vt100::Screen) -> T) -> T {
        look(self.screen.lock().unwrap().screen())
    }

    /// Hangs up, as a lost connection does, and waits for the program's end. The key must change the screen.
    pub(crate) fn hang_up(mut self, key: &str) {
        self.hung_up.store(true, Ordering::SeqCst);
        self.press(key);
        let Self { program, reader, keyboard, .. } = self;
        reader.join().unwrap();
        drop(keyboard);
        program.code();
    }

    /// Sends the program a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        self.program.signal(signal);
    }

    /// True if the terminal echoes its input, as it does for a shell.
    pub(crate) fn has_echo(&self) -> bool {
        rustix::termios::tcgetattr(&self.keyboard).unwrap().local_modes.contains(rustix::termios::LocalModes::ECHO)
    }

    /// Waits for the program's end with this code, and returns the rows that it has left.
    pub(crate) fn ended(self, code: i32) -> Vec<String> {
        let Self { program, screen, reader, keyboard, .. } = self;
        let ended = program.code();
        drop(keyboard);
        reader.join().unwrap();
        let rows = rows(&screen.lock().unwrap());
        assert_eq!(ended, Some(code), "{rows:#?}");
        rows
    }

    /// Ends a run whose jobs go on for long.
    pub(crate) fn interrupt(self) {
        self.program.signal(Signal::INT);
        until("the engine has heard it", || {
            self.lines().iter().any(|line| line.contains("Ctrl-C") || line.contains("stopping"))
        });
        self.program.signal(Signal::INT);
        self.ended(130);
    }
}

/// The rows of a screen that are not empty.
fn rows(screen: &vt100::Parser) -> Vec<String> {
    let (_, columns) = screen.screen().size();
    let rows = screen.screen().rows(0, columns.get());
    rows.map(|row| row.trim_end().to_owned()).filter(|row| !row.is_empty()).collect()
}

fn follow(terminal: OwnedFd, screen: &Mutex<vt100::Parser>, hung_up: &AtomicBool) {
    let mut terminal = File::from(terminal);
    let mut buffer = [0; 4096];
    // It fails when the last program has closed the terminal.
    while let Ok(count) = terminal.read(&mut buffer)
        && count > 0
        && !hung_up.load(Ordering::SeqCst)
    {
        screen.lock().unwrap().process(&buffer[..count]);
    }
}

#[test]
fn bars_fit_terminals_of_any_width_and_leave_them_as_they_were() {
    for columns in [80, 200] {
        let sandbox = Sandbox::with(RECIPE);
        let terminal = Terminal::start(&sandbox, columns, &["run", "recipe.yaml", "--jobs", "1"]);
        until("a slow job shows progress", || {
            let lines = terminal.lines();
            lines.iter().any(|line| line.contains("/6000") && line.contains("loss"))
                && lines.last().is_some_and(|line| line.contains(" 2/6 ") && line.contains("eta"))
        });
        let lines = terminal.lines();
        println!("{}", lines.join("\n"));
        // A row for the concurrency, one for each job that has ended, one for the job that runs and one for the whole.
        assert_eq!(lines.len(), 5, "{lines:#?}");
        // The result of the one is stored while the other runs, so that either may be first.
        let row = |beginning: &str| lines.iter().find(|line| line.starts_with(beginning)).unwrap();
        assert!(row("  ✓ quick ").ends_with("s  value 0.00"), "{lines:#?}");
        assert!(row("  ✗ broken ").contains(sandbox.failure("broken")["message"].as_str().unwrap()), "{lines:#?}");
        // Where a failure's line has no room for it, the log is named at the end.
        assert_eq!(row("  ✗ broken ").contains("sweep logs "), columns > 80, "{lines:#?}");
        let [.., running, whole] = lines.as_slice() else { panic!("{lines:#?}") };
        // At every width, a name keeps both its ends, and a part without room is omitted completely.
        assert!(running.contains(" slow variant=1") && running.contains("2345678901234  "), "{lines:#?}");
        assert!(columns == 80 || running.contains("eta "), "{lines:#?}");
        assert!(running.ends_with('▁') || running.ends_with(" s") || running.ends_with(" ms"), "{lines:#?}");
        assert_message!(whole, "^[^ ]* *[^ ]*  2/6" => "[bar]  2/6", "eta .*" => "eta [time]");

        terminal.program.signal(Signal::INT);
        until("the engine has heard it", || !sandbox.journal("stopping").is_empty());
        terminal.program.signal(Signal::INT);
        let Terminal { program, screen, reader, keyboard, .. } = terminal;
        drop(keyboard);
        assert_eq!(program.code(), Some(130));
        reader.join().unwrap();
        let screen = screen.lock().unwrap();
        let rows = rows(&screen);
        assert!(!rows.concat().contains("/6000"), "the bars are gone: {rows:#?}");
        assert_eq!(rows.concat().matches("sweep logs ").count(), 1, "{rows:#?}");
        assert_eq!(sandbox.tally(), [("done", 1), ("failed", 1), ("skipped", 4)], "{rows:#?}");
        assert!(!screen.screen().hide_cursor(), "the cursor is there");
        assert!(!screen.screen().alternate_screen());
    }
}

#[test]
fn a_log_is_above_the_bars() {
    let sandbox = Sandbox::with(RECIPE);
    let terminal = Terminal::start(&sandbox, 200, &["-v", "run", "recipe.yaml", "--jobs", "1"]);
    // The rows are drawn again and again: only between two times are all of them there.
    until("log lines are above one row for the running job and one for the whole", || {
        let lines = terminal.lines();
        let [log @ .., running, whole] = lines.as_slice() else { return false };
        running.contains(" slow variant=1")
            && whole.contains("2/6 jobs · 1 failed")
            && log.iter().any(|line| line.contains(" INFO spawn{job=\"quick\" attempt=1 pid="))
            && log.iter().any(|line| line.contains(" INFO commit{key="))
            && !log.iter().any(|line| line.contains("/6 jobs") || line.contains("/6000"))
    });
    terminal.program.signal(Signal::INT);
    until("the engine has heard it", || terminal.lines().iter().any(|line| line.contains("Ctrl-C")));
    terminal.program.signal(Signal::INT);
    let Terminal { program, reader, keyboard, .. } = terminal;
    drop(keyboard);
    assert_eq!(program.code(), Some(130));
    reader.join().unwrap();
}

#[test]
fn control_c_that_is_typed_leaves_no_row_behind() {
    let sandbox = Sandbox::with(RECIPE);
    let mut terminal = Terminal::session(&sandbox, 80, &["run", "recipe.yaml", "--jobs", "1"]);
    let running = |lines: &[String]| lines.iter().filter(|line| line.contains("/6000")).count();
    until("a slow job shows progress", || running(&terminal.lines()) == 1);
    terminal.keyboard.write_all(b"\x03").unwrap();
    until("the engine says so", || {
        let lines = terminal.lines();
        lines.iter().any(|line| line.contains("Ctrl-C")) && lines.last().unwrap().contains("/6 ")
    });
    // The bars are drawn again and again, and only once.
    for _ in 0..20 {
        thread::sleep(std::time::Duration::from_millis(20));
        assert!(running(&terminal.lines()) <= 1, "{:#?}", terminal.lines());
    }
    terminal.keyboard.write_all(b"\x03").unwrap();
    let Terminal { program, screen, reader, keyboard, .. } = terminal;
    assert_eq!(program.code(), Some(130));
    let modes = rustix::termios::tcgetattr(&keyboard).unwrap().local_modes;
    assert!(modes.contains(rustix::termios::LocalModes::ECHOCTL), "the terminal is as it was");
    drop(keyboard);
    reader.join().unwrap();
    let rows = rows(&screen.lock().unwrap());
    assert_eq!(running(&rows), 0, "{rows:#?}");
    assert!(!rows.concat().contains("^C"), "{rows:#?}");
}

#[test]
fn what_only_looks_like_a_terminal_gets_lines() {
    for (name, value) in [("CI", "true"), ("TERM", "dumb")] {
        let sandbox = Sandbox::with("steps: { quick: { uses: mock } }");
        let mut command = sandbox.command(&["run", "recipe.yaml"]);
        command.env(name, value);
        let terminal = Terminal::with(command, 80);
        let Terminal { program, screen, reader, keyboard, .. } = terminal;
        assert_eq!(program.code(), Some(0));
        drop(keyboard);
        reader.join().unwrap();
        let rows = rows(&screen.lock().unwrap());
        assert_message!(rows[0]);
    }
}

#[test]
fn a_pipe_gets_no_control_characters() {
    let sandbox = Sandbox::with(&RECIPE.replace("seconds: 600, steps: 6000", "steps: 3"));
    let mut command = sandbox.command(&["run", "recipe.yaml"]);
    let ended = command.env_remove("NO_COLOR").env("CLICOLOR_FORCE", "1").output().unwrap();
    let text = String::from_utf8([ended.stdout, ended.stderr].concat()).unwrap();
    assert_message!(sorted(&text));
    assert!(text.chars().all(|char| !char.is_control() || char == '\n'), "{text:?}");
}

#[test]
fn whoever_verifies_a_bundle_is_asked_before_its_commands_run() {
    let sandbox =
        Sandbox::with("name: study\nsteps: { a: { uses: command, with: { run: 'date +%N > ran; echo x=1' } } }\n");
    assert_eq!(sandbox.sweep(&["run", "recipe.yaml"]).code, Some(0));
    assert_eq!(sandbox.sweep(&["bundle", "recipe.yaml"]).code, Some(0));
    let mut said = Transcript::default();
    for (answer, code) in [("n\n", 2), ("y\n", 0)] {
        let mut terminal = Terminal::start(&sandbox, 200, &["verify", "study.sweep.tar", "--rerun", "1"]);
        // Nothing runs until there is an answer.
        until("it asks", || terminal.lines().iter().any(|line| line.contains("[y/N]")));
        terminal.keyboard.write_all(answer.as_bytes()).unwrap();
        let Terminal { program, screen, reader, keyboard, .. } = terminal;
        drop(keyboard);
        assert_eq!(program.code(), Some(code));
        reader.join().unwrap();
        let rows = rows(&screen.lock().unwrap());
        said.add(answer.trim(), &rows.join("\n"));
    }
    assert_message!(said);
}

#[test]
fn runs_of_many_jobs_have_few_lines_off_a_terminal() {
    let sandbox = Sandbox::with(
        "steps:
  a:
    uses: command
    matrix: { i: { range: [0, 60, 1] } }
    with: { run: '[ ${{ matrix.i }} != 7 ] || exit 3; echo x=${{ matrix.i }}' }
  data: { uses: command, with: { run: 'exit 4' } }
  b:
    uses: command
    needs: [data]
    matrix: { i: { range: [0, 60, 1] } }
    with: { run: 'echo x=${{ matrix.i }}' }
",
    );
    let ended = sandbox.sweep(&["run", "recipe.yaml"]);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    let lines = |ended: &Ended, text: &str| ended.stderr.lines().filter(|line| line.contains(text)).count();
    assert_eq!(lines(&ended, "] done "), 0, "{}", ended.stderr);
    assert_eq!(lines(&ended, "] skipped b i="), 1, "the first job of a step: {}", ended.stderr);
    assert!(ended.stderr.contains("FAILED a i=7"), "{}", ended.stderr);
    assert!(ended.stderr.contains("121 jobs: 59 done, 2 failed, 60 skipped"), "{}", ended.stderr);
    // The number of remaining jobs decides: one job is shown.
    let ended = sandbox.sweep(&["run", "recipe.yaml", "--only", "a", "--axis", "a.i=7,8,100"]);
    assert!(ended.stderr.contains("done a i=100"), "{}", ended.stderr);
    let other = Sandbox::with(&sandbox.read("recipe.yaml"));
    let ended = other.sweep(&["run", "recipe.yaml", "--verbose"]);
    assert_eq!(lines(&ended, "] done a i="), 59, "{}", ended.stderr);
    assert_eq!(lines(&ended, "] skipped b i="), 60, "{}", ended.stderr);
}
