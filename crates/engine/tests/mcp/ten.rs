//! The ten tasks of `docs/usability.md` by an agent that has the tools and a shell. The test counts all that the agent writes and reads.

use serde_json::{Value, json};

use crate::client::{Client, Project};

/// Maximum number of bytes: four are about a token.
const MAX_BYTES: usize = 4 * 10_000;

/// The first block of a language in the page of the ten tasks.
fn block(language: &str) -> String {
    let text = fs_err::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/usability.md")).unwrap();
    text.split(&format!("```{language}\n")).nth(1).unwrap().split("```").next().unwrap().to_owned()
}

/// An agent.
struct Agent {
    project: Project,
    client: Client,
    /// Bytes of commands and of their output.
    bytes: usize,
}

impl Agent {
    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.client.call(tool, arguments)
    }

    /// Runs recipes to their end.
    fn run(&mut self, arguments: Value) -> Value {
        let answer = self.call("run", arguments);
        if answer["state"] == "done" { answer } else { self.client.wait() }
    }

    /// Runs a command of this program, and returns its standard output.
    fn sweep(&mut self, args: &[&str]) -> String {
        let ended = self.project.command(args).stderr(std::process::Stdio::piped()).output().unwrap();
        assert!(ended.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ended.stderr));
        self.bytes += args.join(" ").len() + ended.stdout.len() + ended.stderr.len();
        String::from_utf8(ended.stdout).unwrap()
    }

    /// Replaces a text in a file.
    fn edit(&mut self, file: &str, old: &str, new: &str) {
        let text = fs_err::read_to_string(self.project.path(file)).unwrap();
        assert!(text.contains(old));
        self.project.write(file, &text.replace(old, new));
        self.bytes += file.len() + old.len() + new.len();
    }
}

#[test]
fn ten_tasks_take_few_tokens_with_the_tools() {
    let project = Project::new();
    project.write("study.yaml", &block("yaml"));
    project.write("train.py", &block("python"));
    let client = Client::start(&project, &["--allow-run", ".", "--allow-programs"]);
    let mut agent = Agent { project, client, bytes: 0 };
    agent.bytes += agent.client.request("tools/list", &json!({}))["result"].to_string().len();
    let study = || json!({ "recipes": ["study.yaml"], "wait_seconds": 60 });
    let job = "train/lr=0.03,momentum=0.9,seed=0";

    // 1. The best configuration.
    assert_eq!(agent.run(study())["used"]["jobs"], 12);
    let tables = agent.call("report", json!({ "recipes": ["study.yaml"], "tables": ["loss"] }));
    assert!(tables["tables"][0]["markdown"].as_str().unwrap().contains("0.0078"), "{tables:#}");
    // 2. The reason why a job runs again.
    agent.edit("train.py", "range(1, 51)", "range(1, 61)");
    let reason = agent.call("explain", json!({ "recipes": ["study.yaml"], "job": job }));
    assert!(reason.to_string().contains("train.py"), "{reason:#}");
    // 3. Five seeds.
    agent.edit("study.yaml", "seeds: 3", "seeds: 5");
    assert_eq!(agent.run(study())["used"]["jobs"], 20);
    let report = agent.call("report", json!({ "recipes": ["study.yaml"] }));
    assert_eq!(report["verdicts"][0]["state"], "supported", "{report:#}");
    // 4. Two runs.
    let runs = agent.project.runs();
    assert!(agent.sweep(&["diff", &runs[0], &runs[1]]).contains("12 in both"));
    // 5. A table for a paper.
    let table = json!({ "uri": "sweep://reports/study/tables/loss.tex" });
    let table = agent.client.request("resources/read", &table)["result"].to_string();
    assert!(table.contains("tabular"), "{table}");
    agent.bytes += table.len();
    // 6. One job again.
    agent.sweep(&["cache", "rm", job, "--yes"]);
    assert_eq!(agent.run(study())["used"]["jobs"], 1);
    // 7. The cache.
    agent.sweep(&["cache", "gc", "study.yaml", "--recent", "0s", "--yes"]);
    // 8. A log.
    assert!(agent.sweep(&["logs", "train/lr=0.03,momentum=0,seed=1"]).contains("step 60 loss"));
    // 9. A script.
    agent.sweep(&["new", "train.py"]);
    let script = json!({ "recipes": ["train.yaml"], "axes": ["lr=0.01,0.03"], "wait_seconds": 60 });
    assert_eq!(agent.run(script)["used"]["jobs"], 2);
    // 10. A bundle.
    agent.sweep(&["bundle", "create", "study.yaml"]);
    assert!(agent.sweep(&["bundle", "verify", "study.sweep.tar", "--rerun", "2", "--yes"]).contains("2 of 2 jobs"));

    let bytes = agent.bytes + agent.client.bytes;
    assert!(bytes <= MAX_BYTES, "{bytes} bytes");
    agent.client.close();
}
