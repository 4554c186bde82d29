//! A throw-away PostgreSQL cluster for the tests, and a database of its own for each of them.
//!
//! The extension must be installed into the PostgreSQL that the environment variable `PG_CONFIG` names; `make test`
//! does both. The cluster is started once a process. It is stopped and removed when the process ends, however it ends.
#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

use postgres::{Client, Config, NoTls};

/// A running cluster. Dropping it stops it and removes its folder.
pub struct Cluster {
    bin: PathBuf,
    folder: PathBuf,
    /// While this process lives it holds the other end of the pipe that the reaper reads from.
    reaper: std::process::Child,
}

/// The cluster that the tests share.
struct Shared {
    cluster: Cluster,
    /// A connection that is open all the time: it breaks if any backend crashes and resets the server.
    witness: Mutex<Client>,
}

static SHARED: OnceLock<Shared> = OnceLock::new();
static NEXT: AtomicU32 = AtomicU32::new(0);

const TEMPLATE: &str = "graphrag_template";

/// The user and group that run the server if this process is root, which PostgreSQL refuses.
fn server_user() -> Option<(u32, u32)> {
    let root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let find = |name: &str| {
        let fields: Vec<&str> = users
            .lines()
            .find(|line| line.split(':').next() == Some(name))?
            .split(':')
            .collect();
        Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
    };
    root.then(|| {
        find("postgres")
            .or_else(|| find("nobody"))
            .expect("a user to run PostgreSQL as")
    })
}

fn pg_config(what: &str) -> String {
    let program =
        std::env::var("PG_CONFIG").expect("PG_CONFIG names the pg_config of the PostgreSQL to test; run `make test`");
    let output = Command::new(program).arg(what).output().expect("pg_config runs");
    String::from_utf8(output.stdout)
        .expect("pg_config answers UTF-8")
        .trim()
        .to_owned()
}

/// A program of PostgreSQL, to be run as the server's user, without what the environment could change in its output.
fn program(bin: &Path, name: &str) -> Command {
    let mut command = Command::new(bin.join(name));
    for (key, _) in std::env::vars().filter(|(key, _)| key.starts_with("PG")) {
        command.env_remove(key);
    }
    // With it set, pgrx adds a backtrace to the DETAIL of every error.
    command
        .env_remove("RUST_BACKTRACE")
        .current_dir("/")
        .stdin(Stdio::null());
    if let Some((user, group)) = server_user() {
        command.uid(user).gid(group);
    }
    command
}

fn succeed(mut command: Command) -> Output {
    let output = command.output().expect("the program starts");
    assert!(
        output.status.success(),
        "{command:?} failed:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

impl Cluster {
    /// A cluster of a test of its own, which may crash it or stop it; its one database has the extension.
    pub fn own() -> Cluster {
        Cluster::start(&format!("-own-{}", NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    fn start(suffix: &str) -> Cluster {
        let bin = PathBuf::from(pg_config("--bindir"));
        let folder = std::env::temp_dir().join(format!("pg_graphrag-test-{}{suffix}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&folder)
            .expect("a folder for the cluster");
        if let Some((user, group)) = server_user() {
            chown(&folder, Some(user), Some(group)).expect("the folder goes to the server's user");
        }
        let data = folder.join("data");
        let mut initdb = program(&bin, "initdb");
        initdb
            .args([
                "-U",
                "postgres",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C",
                "--no-sync",
                "-D",
            ])
            .arg(&data);
        succeed(initdb);
        // Waits until this process is gone and its pipe closes, then stops the server and removes its folder.
        let script = "read _; \"$0\" -D \"$1/data\" -m immediate -s stop; rm -rf \"$1\"";
        let mut reaper = program(Path::new("/bin"), "sh");
        reaper
            .args(["-c", script])
            .arg(bin.join("pg_ctl"))
            .arg(&folder)
            .stdin(Stdio::piped());
        reaper.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let reaper = reaper.spawn().expect("the reaper starts");

        let cluster = Cluster { bin, folder, reaper };
        cluster.up();
        let mut admin = connect(&cluster.folder, "postgres", "postgres").expect("a connection");
        admin
            .batch_execute(&format!("CREATE DATABASE {TEMPLATE}"))
            .expect("a template");
        cluster
            .client()
            .batch_execute("CREATE EXTENSION pg_graphrag CASCADE")
            .expect("the extension installs");
        cluster
    }

    /// Starts the server.
    pub fn up(&self) {
        let options = format!(
            "-c listen_addresses='' -c unix_socket_directories='{}' -c fsync=off -c max_connections=100 \
             -c autovacuum=off -c max_prepared_transactions=2",
            self.folder.display()
        );
        let mut start = program(&self.bin, "pg_ctl");
        start
            .args(["-w", "-s", "-o", &options, "-l"])
            .arg(self.folder.join("log"))
            .arg("-D")
            .arg(self.folder.join("data"))
            .arg("start");
        start.stdout(Stdio::null()).stderr(Stdio::null());
        assert!(
            start.status().expect("pg_ctl starts").success(),
            "the server does not start; see {}",
            self.folder.display()
        );
    }

    /// Stops the server in a mode of pg_ctl, and waits until it is down.
    pub fn stop(&self, mode: &str) {
        let mut stop = program(&self.bin, "pg_ctl");
        stop.args(["-w", "-s", "-m", mode, "-D"])
            .arg(self.folder.join("data"))
            .arg("stop");
        succeed(stop);
    }

    /// A connection as superuser to the database of a cluster of its own.
    pub fn client(&self) -> Client {
        self.try_client().expect("a connection")
    }

    /// The same; an error while the server recovers or is down.
    pub fn try_client(&self) -> Result<Client, postgres::Error> {
        connect(&self.folder, TEMPLATE, "postgres")
    }

    /// What the server has logged so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.folder.join("log")).expect("a log")).into_owned()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.reaper.stdin.take());
        // It has nothing to say.
        let _ = self.reaper.wait();
    }
}

impl Shared {
    fn get() -> &'static Shared {
        SHARED.get_or_init(|| {
            let cluster = Cluster::start("");
            let witness = Mutex::new(connect(&cluster.folder, "postgres", "postgres").expect("a connection"));
            Shared { cluster, witness }
        })
    }

    /// Panics if the server has crashed since it was started.
    fn check_witness(&self) {
        let mut witness = self.witness.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        witness.query_one("SELECT 1", &[]).expect("the server has not crashed");
    }
}

fn config(folder: &Path, database: &str, role: &str) -> Config {
    let mut config = Config::new();
    config
        .host_path(folder)
        .dbname(database)
        .user(role)
        .application_name("pg_graphrag_tests");
    config
}

fn connect(folder: &Path, database: &str, role: &str) -> Result<Client, postgres::Error> {
    config(folder, database, role).connect(NoTls)
}

/// A database for one test, with the extension installed; dropped with it.
pub struct Database {
    name: String,
}

impl Default for Database {
    fn default() -> Self {
        Self::new()
    }
}

impl Database {
    pub fn new() -> Database {
        Self::from_template(TEMPLATE)
    }

    /// A database without the extension.
    pub fn empty() -> Database {
        Self::from_template("template0")
    }

    fn from_template(template: &str) -> Database {
        let shared = Shared::get();
        let name = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let mut witness = shared.witness.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        witness
            .batch_execute(&format!("CREATE DATABASE {name} TEMPLATE {template}"))
            .expect("a database");
        Database { name }
    }

    /// The name of the database.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A connection as superuser.
    pub fn client(&self) -> Client {
        self.client_as("postgres")
    }

    /// How to connect as superuser.
    pub fn config(&self) -> Config {
        config(&Shared::get().cluster.folder, &self.name, "postgres")
    }

    /// A connection as a role that stands already; roles are shared by all databases, so give them names of their own.
    pub fn client_as(&self, role: &str) -> Client {
        connect(&Shared::get().cluster.folder, &self.name, role).expect("a connection")
    }

    /// Makes a role that may log in, and answers its name, which no other test has.
    pub fn role(&self, prefix: &str) -> String {
        let role = format!("{prefix}_{}", self.name);
        self.client()
            .batch_execute(&format!("CREATE ROLE {role} LOGIN"))
            .expect("a role");
        role
    }

    /// Runs a script in psql, and answers what a person sees: output, notices and errors in their order.
    pub fn psql(&self, script: &str) -> String {
        self.psql_as("postgres", script)
    }

    pub fn psql_as(&self, role: &str, script: &str) -> String {
        let cluster = &Shared::get().cluster;
        let file = cluster
            .folder
            .join(format!("{}-{}.sql", self.name, NEXT.fetch_add(1, Ordering::Relaxed)));
        fs::write(&file, script).expect("the script is written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("the script can be read");
        // One pipe for both streams, so that notices stand where a person would see them.
        let mut command = program(Path::new("/bin"), "sh");
        command.args(["-c", "exec \"$0\" -X -q -h \"$1\" -U \"$2\" -d \"$3\" -f \"$4\" 2>&1"]);
        command
            .arg(cluster.bin.join("psql"))
            .arg(&cluster.folder)
            .args([role, &self.name])
            .arg(&file);
        let output = command.output().expect("psql starts");
        let text = String::from_utf8(output.stdout).expect("psql answers UTF-8");
        text.replace(&format!("psql:{}:", file.display()), "psql:")
    }

    /// What the server that the tests share has logged so far.
    pub fn log(&self) -> String {
        Shared::get().cluster.log()
    }

    /// Another program of PostgreSQL (pg_dump, say) on this database, as superuser; answers its standard output.
    pub fn run(&self, name: &str, arguments: &[&str]) -> String {
        let cluster = &Shared::get().cluster;
        let mut command = program(&cluster.bin, name);
        command
            .arg("-h")
            .arg(&cluster.folder)
            .args(["-U", "postgres", "-d", &self.name])
            .args(arguments);
        String::from_utf8(succeed(command).stdout).expect("UTF-8")
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let shared = Shared::get();
        if std::thread::panicking() {
            return;
        }
        shared.check_witness();
        let mut witness = shared.witness.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let _ = witness.batch_execute(&format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}
