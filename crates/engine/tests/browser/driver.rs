//! A headless Chromium, driven over its `DevTools` protocol.
//!
//! The protocol goes through two named pipes, which the browser has as its descriptors 3 and 4: no port is opened, and no
//! driver of another version is needed.

use std::{
    collections::VecDeque,
    fs::{File, OpenOptions},
    io::{Read as _, Write as _},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

/// Longer than anything here may take, even on a machine that is busy with other things.
const TIMEOUT: Duration = Duration::from_mins(3);

/// Width of a sheet of paper between its margins, in pixels.
const PAPER: u32 = 718;

/// A browser; ended when dropped.
pub(crate) struct Browser {
    child: Child,
    to: File,
    from: Receiver<Value>,
    events: VecDeque<Value>,
    session: String,
    last: u64,
    /// Errors in pages, in words.
    errors: Vec<String>,
    _folder: tempfile::TempDir,
}

/// The program, or why there is none that these tests can use.
fn program() -> Result<PathBuf, String> {
    let named = std::env::var_os("CHROMIUM").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let found = names.iter().flat_map(|name| std::env::split_paths(&path).map(move |folder| folder.join(name)));
    let program = named.into_iter().chain(found).find(|path| path.is_file());
    let program = program.ok_or("there is no Chromium; scripts/test-deps.sh installs it on Debian")?;
    let real = std::fs::canonicalize(&program).unwrap_or_else(|_| program.clone());
    let script = std::fs::read(&real).unwrap_or_default();
    let mentions_snap = script.len() < 10_000 && String::from_utf8_lossy(&script).contains("snap");
    if real.starts_with("/snap") || real.ends_with("usr/bin/snap") || mentions_snap {
        return Err(format!("{} is a snap, which does not see the files of tests", program.display()));
    }
    let version = Command::new(&program).arg("--version").stdin(Stdio::null()).output();
    match version {
        Ok(output) if output.status.success() => Ok(program),
        Ok(output) => Err(format!("{} does not start: {}", program.display(), String::from_utf8_lossy(&output.stderr))),
        Err(error) => Err(format!("{} does not start: {error}", program.display())),
    }
}

impl Browser {
    /// Starts one with an empty page; says why where there is none.
    pub(crate) fn start() -> Option<Self> {
        let program = match program() {
            Ok(program) => program,
            Err(reason) => {
                println!("this test cannot run: {reason}");
                return None;
            }
        };
        let folder = tempfile::tempdir().unwrap();
        let (input, output) = (folder.path().join("in"), folder.path().join("out"));
        let made = Command::new("mkfifo").args([&input, &output]).status().unwrap();
        assert!(made.success());
        let mut command = Command::new("sh");
        command.args(["-c", r#"in=$1; out=$2; shift 2; exec "$@" 3<"$in" 4>"$out""#, "sh"]).args([&input, &output]);
        command.arg(program).args([
            "--headless=new",
            "--remote-debugging-pipe",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-extensions",
            "--disable-sync",
            "--no-default-browser-check",
            "--no-first-run",
            "--force-color-profile=srgb",
            "--hide-scrollbars",
            // Nothing but this machine.
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
        ]);
        if rustix::process::getuid().is_root() {
            // Chromium refuses to sandbox itself as root, the user of most containers.
            command.arg("--no-sandbox");
        }
        command.arg(format!("--user-data-dir={}", folder.path().join("profile").display()));
        // Where it leaves files if it is killed.
        command.env("TMPDIR", folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let child = command.spawn().unwrap();
        let to = OpenOptions::new().write(true).open(&input).unwrap();
        let from = File::open(&output).unwrap();
        let (sender, receiver) = channel();
        thread::spawn(move || follow(from, |message| sender.send(message).is_ok()));
        let mut browser = Self {
            child,
            to,
            from: receiver,
            events: VecDeque::new(),
            session: String::new(),
            last: 0,
            errors: Vec::new(),
            _folder: folder,
        };
        let target = browser.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let attached =
            browser.call("Target.attachToTarget", &json!({ "targetId": target["targetId"], "flatten": true }));
        attached["sessionId"].as_str().unwrap().clone_into(&mut browser.session);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.call(domain, &json!({}));
        }
        Some(browser)
    }

    /// Calls a method of the protocol.
    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        let mut text = message.to_string().into_bytes();
        text.push(0);
        self.to.write_all(&text).unwrap();
        let begun = Instant::now();
        loop {
            let message = self.receive(begun, method);
            if message["id"] == self.last {
                // A page that is being left answers nothing; the next one does.
                if message["error"]["message"] == "Inspected target navigated or closed" {
                    return self.call(method, params);
                }
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
        }
    }

    /// The next message; its errors are collected.
    fn receive(&mut self, begun: Instant, what: &str) -> Value {
        let left = TIMEOUT.saturating_sub(begun.elapsed());
        let message = match self.from.recv_timeout(left) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => panic!("waited in vain for {what}"),
            Err(RecvTimeoutError::Disconnected) => panic!("the browser ended during {what}"),
        };
        let params = &message["params"];
        match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => {
                self.errors.push(format!("exception: {}", params["exceptionDetails"]));
            }
            Some("Runtime.consoleAPICalled")
                if ["error", "warning", "assert"].contains(&params["type"].as_str().unwrap()) =>
            {
                self.errors.push(format!("console: {}", params["args"]));
            }
            Some("Log.entryAdded") if ["error", "warning"].contains(&params["entry"]["level"].as_str().unwrap()) => {
                self.errors.push(format!("log: {}", params["entry"]));
            }
            Some("Page.javascriptDialogOpening") => self.errors.push(format!("dialog: {}", params["message"])),
            _ => {}
        }
        if message["id"].is_null() {
            self.events.push_back(message.clone());
        }
        message
    }

    /// Opens an address and waits until it is there.
    pub(crate) fn open(&mut self, url: &str) {
        self.events.clear();
        let answer = self.call("Page.navigate", &json!({ "url": url }));
        assert!(answer["errorText"].is_null(), "{url}: {}", answer["errorText"]);
        let begun = Instant::now();
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            self.receive(begun, url);
        }
    }

    /// Opens a file.
    pub(crate) fn open_file(&mut self, path: &Path) {
        self.open(&format!("file://{}", path.display()));
    }

    /// Value of an expression in the page.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", &params);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// The text of the first element that a selector finds.
    pub(crate) fn text(&mut self, selector: &str) -> String {
        let value = self.eval(&format!("document.querySelector({})?.textContent ?? null", &json!(selector)));
        value.as_str().unwrap_or_else(|| panic!("there is no {selector}")).to_owned()
    }

    /// The texts of all elements that a selector finds.
    pub(crate) fn texts(&mut self, selector: &str) -> Vec<String> {
        let value = self.eval(&format!(
            "[...document.querySelectorAll({})].map((element) => element.textContent)",
            json!(selector)
        ));
        value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    }

    /// Waits until an expression holds. A page that loads itself anew meanwhile has none for a moment.
    pub(crate) fn until(&mut self, expression: &str) {
        let begun = Instant::now();
        loop {
            let params = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
            let answer = self.call("Runtime.evaluate", &params);
            if answer["result"]["value"] == true {
                return;
            }
            if begun.elapsed() > TIMEOUT {
                let text = self.eval("document.body.innerText");
                panic!("waited in vain until {expression}: {answer}\n{}", text.as_str().unwrap_or_default());
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Value of an expression once it has been the same for a second: curves may still be on their way.
    pub(crate) fn settled(&mut self, expression: &str) -> Value {
        let (mut value, mut same) = (self.eval(expression), 0);
        while same < 5 {
            thread::sleep(Duration::from_millis(200));
            let now = self.eval(expression);
            same = if now == value { same + 1 } else { 0 };
            value = now;
        }
        value
    }

    /// Frame of an element in the window. Waits until it no longer moves, because the page may still draw or load other elements.
    fn frame(&mut self, selector: &str) -> Value {
        self.eval(&format!(
            "(async () => {{ let before = null; for (;;) {{
             const element = document.querySelector({}); element.scrollIntoView({{ block: 'center', inline: 'center' }});
             const {{ x, y, width, height }} = element.getBoundingClientRect(); const frame = {{ x, y, width, height }};
             if (JSON.stringify(frame) === before) {{
               const hit = document.elementFromPoint(x + width / 2, y + height / 2);
               return {{ ...frame, hit: element.contains(hit) || hit?.contains(element) || false }};
             }}
             before = JSON.stringify(frame); await new Promise((resolve) => setTimeout(resolve, 150));
             }} }})()",
            json!(selector)
        ))
    }

    /// Clicks where an element is, as a hand would.
    pub(crate) fn click(&mut self, selector: &str) {
        let place = self.frame(selector);
        assert_eq!(place["hit"], true, "{selector} cannot be clicked: something is in front of it");
        let side = |name: &str| place[name].as_f64().unwrap();
        let (x, y) = (side("x") + side("width") / 2.0, side("y") + side("height") / 2.0);
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            let button = if kind == "mouseMoved" { "none" } else { "left" };
            let params = json!({ "type": kind, "x": x, "y": y, "button": button, "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", &params);
        }
    }

    /// Drags within an element, from one place to another, in shares of its width and height.
    pub(crate) fn drag(&mut self, selector: &str, from: (f64, f64), to: (f64, f64)) {
        let frame = self.frame(selector);
        let side = |name: &str| frame[name].as_f64().unwrap();
        for (kind, (x, y)) in [("mouseMoved", from), ("mousePressed", from), ("mouseMoved", to), ("mouseReleased", to)]
        {
            let (x, y) = (side("x") + x * side("width"), side("y") + y * side("height"));
            let params = json!({ "type": kind, "x": x, "y": y, "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", &params);
        }
    }

    /// Presses a key.
    pub(crate) fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            "Space" => (32, " "),
            "Escape" => (27, ""),
            "PageDown" => (34, ""),
            "End" => (35, ""),
            "ArrowUp" => (38, ""),
            "ArrowRight" => (39, ""),
            "ArrowDown" => (40, ""),
            other => panic!("{other} is not known"),
        };
        let name = if key == "Space" { " " } else { key };
        for kind in ["keyDown", "keyUp"] {
            let mut params = json!({ "type": kind, "key": name, "code": key, "windowsVirtualKeyCode": code });
            if kind == "keyDown" && !text.is_empty() {
                params["text"] = text.into();
            }
            self.call("Input.dispatchKeyEvent", &params);
        }
    }

    /// Types a text.
    pub(crate) fn write(&mut self, text: &str) {
        self.call("Input.insertText", &json!({ "text": text }));
    }

    /// Makes the window so wide, and the surroundings dark or light.
    pub(crate) fn look(&mut self, width: u32, dark: bool) {
        let mobile = width < 600;
        let params = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": mobile });
        self.call("Emulation.setDeviceMetricsOverride", &params);
        let scheme = if dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }, { "name": "prefers-reduced-motion", "value": "reduce" }]);
        self.call("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// Keeps a picture of the whole page in the target folder.
    pub(crate) fn picture(&mut self, name: &str) {
        let size = self.call("Page.getLayoutMetrics", &json!({}));
        let (width, height) = (&size["cssContentSize"]["width"], size["cssContentSize"]["height"].as_f64().unwrap());
        let clip = json!({ "x": 0, "y": 0, "width": width, "height": height.min(4000.0), "scale": 1 });
        let answer = self
            .call("Page.captureScreenshot", &json!({ "format": "png", "captureBeyondViewport": true, "clip": clip }));
        let bytes = BASE64_STANDARD.decode(answer["data"].as_str().unwrap()).unwrap();
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("screenshots");
        fs_err::create_dir_all(&folder).unwrap();
        fs_err::write(folder.join(format!("{name}.png")), bytes).unwrap();
    }

    /// At all widths, in light and in dark, and as it is printed: everything has room, axe finds nothing, and a picture is kept.
    pub(crate) fn inspect(&mut self, name: &str) {
        for (width, dark) in [(1280, false), (1280, true), (390, false), (390, true), (768, false), (1920, false)] {
            self.look(width, dark);
            let scheme = if dark { "dark" } else { "light" };
            let place = format!("{name}-{width}-{scheme}");
            self.picture(&place);
            self.has_room(&place);
            self.axe(&place);
        }
        self.look(PAPER, false);
        self.media("print");
        self.picture(&format!("{name}-print"));
        self.has_room(&format!("{name}-print"));
        self.media("");
        self.look(1280, false);
    }

    /// Shows the page as on paper (`print`), or on a screen again.
    pub(crate) fn media(&mut self, kind: &str) {
        self.call("Emulation.setEmulatedMedia", &json!({ "media": kind }));
    }

    /// Prints the page to a PDF, which is not kept.
    pub(crate) fn print(&mut self) {
        let answer = self.call("Page.printToPDF", &json!({}));
        assert!(answer["data"].as_str().is_some_and(|data| data.len() > 1000));
    }

    /// Nothing is wider than the window, and no text is in a column that is too narrow for its words.
    pub(crate) fn has_room(&mut self, name: &str) {
        let narrow = self.eval(include_str!("columns.js"));
        assert_eq!(narrow, json!([]), "{name}: {narrow:#}");
    }

    /// Height of the page, in pixels.
    pub(crate) fn height(&mut self) -> u64 {
        self.eval("document.scrollingElement.scrollHeight").as_u64().unwrap()
    }

    /// Has axe-core look at the page.
    fn axe(&mut self, name: &str) {
        self.eval(concat!(include_str!("axe-core/axe.min.js"), "; true"));
        let found = self.eval(
            "axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations.map((violation) => ({
             impact: violation.impact, id: violation.id, help: violation.help,
             nodes: violation.nodes.slice(0, 3).map((node) => node.html.slice(0, 200) + ' ' + node.failureSummary) })))",
        );
        assert_eq!(found, json!([]), "{name}: {found:#}");
    }

    /// Nothing has gone wrong in any page.
    pub(crate) fn is_content(&mut self) {
        // Whatever was said before this answer has been heard.
        self.eval("1");
        assert!(self.errors.is_empty(), "{:#?}", self.errors);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser's processes are a separate group, whose leader is the process that was started here.
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// Reads messages, each of which ends with a zero.
fn follow(mut from: File, mut on_message: impl FnMut(Value) -> bool) {
    let mut text = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count) = from.read(&mut buffer)
        && count > 0
    {
        for byte in &buffer[..count] {
            if *byte != 0 {
                text.push(*byte);
            } else if !on_message(serde_json::from_slice(&std::mem::take(&mut text)).unwrap_or(Value::Null)) {
                return;
            }
        }
    }
}
