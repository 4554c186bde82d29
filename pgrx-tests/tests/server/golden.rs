//! What people read: the examples of docs/ and the psql transcripts of golden/, run as they stand and compared with the
//! output that is written down. With UPDATE_GOLDEN=1 the written output is replaced instead; read the change before you
//! commit it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use pg_graphrag_tests::Database;

/// A line that no output holds: it parts the output of one example from the next.
const MARK: &str = "-- next example --";

fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == ending))
        .collect();
    files.sort();
    assert!(!files.is_empty() || updating());
    files
}

fn updating() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

/// What psql shows in a terminal: without the place in the script, spaces at the ends of lines, and times.
fn tidy(output: &str) -> String {
    let mut text = String::new();
    for line in output.lines() {
        let place = line.strip_prefix("psql:").and_then(|rest| rest.split_once(": "));
        let line = match place {
            Some((number, rest)) if number.parse::<u32>().is_ok() => rest,
            _ => line,
        };
        text.push_str(&timeless(line.trim_end()));
        text.push('\n');
    }
    let text = text.trim_matches('\n');
    if text.is_empty() {
        String::new()
    } else {
        format!("{text}\n")
    }
}

/// A notice of a refresh without the seconds that the step took on this machine.
fn timeless(line: &str) -> String {
    let seconds = |time: &str| {
        time.strip_suffix(" s")
            .is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
    };
    match line.rsplit_once(", ") {
        Some((rest, time)) if line.starts_with("NOTICE:") && seconds(time) => format!("{rest}, 0 s"),
        _ => line.to_owned(),
    }
}

/// The lines that differ, each run of them with the line before; nothing if the texts are equal.
fn difference(expected: &str, actual: &str) -> Option<String> {
    if expected == actual {
        return None;
    }
    let (old, new): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), actual.lines().collect());
    // common[i][j]: the length of the longest common subsequence of old[i..] and new[j..].
    let mut common = vec![vec![0u32; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = match old[i] == new[j] {
                true => common[i + 1][j + 1] + 1,
                false => common[i + 1][j].max(common[i][j + 1]),
            };
        }
    }
    let (mut i, mut j, mut text, mut same) = (0, 0, String::new(), true);
    while i < old.len() || j < new.len() {
        let equal = i < old.len() && j < new.len() && old[i] == new[j];
        if same && !equal {
            text.push_str(&format!("line {}:\n  {}\n", i + 1, if i > 0 { old[i - 1] } else { "" }));
        }
        same = equal;
        if equal {
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || (i < old.len() && common[i + 1][j] >= common[i][j + 1]) {
            text.push_str(&format!("- {}\n", old[i]));
            i += 1;
        } else {
            text.push_str(&format!("+ {}\n", new[j]));
            j += 1;
        }
    }
    Some(text)
}

/// A page of docs/ in pieces: a line of prose, or an example with the output that follows it.
enum Piece {
    Prose(String),
    Example { sql: String, output: String },
}

fn parse(page: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut lines = page.lines().peekable();
    let fenced = |lines: &mut dyn Iterator<Item = &str>| -> String {
        lines
            .take_while(|line| *line != "```")
            .map(|line| format!("{line}\n"))
            .collect()
    };
    while let Some(line) = lines.next() {
        assert_ne!(line, "```text", "an output must follow its example");
        if line != "```sql" {
            pieces.push(Piece::Prose(line.to_owned()));
            continue;
        }
        let sql = fenced(&mut lines);
        let output = if lines.next_if_eq(&"```text").is_some() {
            fenced(&mut lines)
        } else {
            String::new()
        };
        pieces.push(Piece::Example { sql, output });
    }
    pieces
}

fn print(pieces: &[Piece]) -> String {
    let mut page = String::new();
    for piece in pieces {
        match piece {
            Piece::Prose(line) => page.push_str(&format!("{line}\n")),
            Piece::Example { sql, output } => {
                page.push_str(&format!("```sql\n{sql}```\n"));
                if !output.is_empty() {
                    page.push_str(&format!("```text\n{output}```\n"));
                }
            }
        }
    }
    page
}

/// Runs all examples of a page in one session; answers the page with the output that they gave.
fn run(page: &str) -> String {
    let database = Database::empty();
    let mut pieces = parse(page);
    let examples = pieces.iter().filter_map(|piece| {
        if let Piece::Example { sql, .. } = piece {
            Some(sql)
        } else {
            None
        }
    });
    let script: String = examples.map(|sql| format!("{sql}\n\\echo '{MARK}'\n")).collect();
    let output = database.psql(&script);
    let mut outputs = output.split(MARK);
    for piece in &mut pieces {
        if let Piece::Example { output, .. } = piece {
            *output = tidy(outputs.next().unwrap_or("psql has stopped before this example"));
        }
    }
    assert_eq!(
        outputs.map(str::trim).collect::<String>(),
        "",
        "more output than examples"
    );
    print(&pieces)
}

/// Whether the server is of the version whose wording (EXPLAIN, psql) the written outputs have.
fn is_the_version_written_for() -> bool {
    let version: i32 = Database::empty()
        .client()
        .query_one("SELECT current_setting('server_version_num')::int / 10000", &[])
        .unwrap()
        .get(0);
    if version != 18 {
        eprintln!("the written outputs are those of PostgreSQL 18; not compared with version {version}");
    }
    version == 18
}

/// Compares what was run with what is written, file by file, or rewrites it; panics with all differences.
fn compare(results: Vec<(PathBuf, String)>) {
    let mut differences = String::new();
    for (path, actual) in results {
        if updating() {
            fs::write(&path, actual).unwrap();
            continue;
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        if let Some(difference) = difference(&expected, &actual) {
            differences.push_str(&format!("\n{}\n{difference}", path.display()));
        }
    }
    assert!(
        differences.is_empty(),
        "- is written, + was given; UPDATE_GOLDEN=1 rewrites it\n{differences}"
    );
}

#[test]
fn every_example_of_the_documentation_gives_the_output_that_is_shown() {
    if !is_the_version_written_for() {
        return;
    }
    let mut pages = files("../docs", "md");
    pages.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md"));
    compare(
        pages
            .into_iter()
            .map(|path| (path.clone(), run(&fs::read_to_string(path).unwrap())))
            .collect(),
    );
}

#[test]
fn the_transcripts_are_what_psql_shows() {
    if !is_the_version_written_for() {
        return;
    }
    let mut results = Vec::new();
    for path in files("golden", "sql") {
        let script = fs::read_to_string(&path).unwrap();
        let database = Database::empty();
        let output = database
            .psql(&format!("\\set ECHO all\n{script}"))
            .replace(database.name(), "mydb");
        results.push((path.with_extension("out"), tidy(&output)));
    }
    let outputs: BTreeSet<PathBuf> = results.iter().map(|(path, _)| path.clone()).collect();
    let written: BTreeSet<PathBuf> = files("golden", "out").into_iter().collect();
    assert!(written.is_subset(&outputs), "an output without a script");
    compare(results);
}

/// Type names as people write them, and no spaces.
fn squeeze(signature: &str) -> String {
    let mut text = signature.to_owned();
    for (long, short) in [
        ("double precision", "float8"),
        ("integer", "int"),
        ("boolean", "bool"),
        ("timestamp with time zone", "timestamptz"),
    ] {
        text = text.replace(long, short);
    }
    text.retain(|c| !c.is_whitespace());
    text
}

#[test]
fn every_function_is_documented_with_its_true_signature() {
    let database = Database::new();
    let rows = database
        .client()
        .query(
            "SELECT concat(CASE p.prokind WHEN 'p' THEN 'CALL ' END, p.proname, '(', \
                      regexp_replace(pg_get_function_arguments(p.oid), '::[a-z ]+(\\[\\])?|\\mIN ', '', 'g'), ')', \
                      ' → ' || pg_get_function_result(p.oid)) \
             FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e' \
             JOIN pg_extension e ON e.oid = d.refobjid WHERE e.extname = 'pg_graphrag' AND p.proname !~ '^_' ORDER BY 1",
            &[],
        )
        .unwrap();
    assert!(rows.len() > 15);
    let pages: String = files("../docs", "md")
        .iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    // Signatures stand in fences without a language, one or more in each.
    let pages = squeeze(&pages);
    let missing: Vec<String> = rows
        .iter()
        .map(|row| row.get::<_, String>(0))
        .filter(|signature| !pages.contains(&squeeze(signature)))
        .collect();
    assert!(
        missing.is_empty(),
        "not in docs/, or with other arguments:\n{}",
        missing.join("\n")
    );
}
