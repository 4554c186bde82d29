//! What rag_add makes of each format, and that it is an upsert.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::support::{misplaced, one, run};

fn stored(client: &mut Client, body: &str, format: &str) -> (String, String) {
    let id: i64 = client
        .query_one("SELECT rag_add('kb', $1, format => $2)", &[&body, &format])
        .unwrap_or_else(|error| panic!("{body}: {error:?}"))
        .get(0);
    let row = client
        .query_one("SELECT body, format FROM kb.document WHERE id = $1", &[&id])
        .unwrap();
    (row.get(0), row.get(1))
}

#[test]
fn each_format_is_stored_as_text_or_markdown() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, "SELECT rag_create('kb', 8)");
    for (format, kept_as, body, expected) in [
        (
            "text",
            "text",
            "# No <b>heading</b>\r\n\n  as, it; is\n",
            "# No <b>heading</b>\r\n\n  as, it; is\n",
        ),
        (
            "markdown",
            "markdown",
            "# Title\n\n* one, <b>two</b>\n",
            "# Title\n\n* one, <b>two</b>\n",
        ),
        (
            "html",
            "markdown",
            "<html><head><title>t</title><style>p {}</style></head><body><h1>Title</h1><p>One &amp; \
             <a href='x'>two</a>.</p>\
             <script>evil()</script><h2>Part</h2><ul><li>a</li><li>b</li></ul></body></html>",
            "# Title\n\nOne & two.\n\n## Part\n\n- a\n- b\n",
        ),
        (
            "csv",
            "markdown",
            "name,city,note\nAnna,\"Ulm, old\",\"said \"\"hi\"\"\"\nBert,,x\n",
            "## Anna\n\nname: Anna\ncity: Ulm, old\nnote: said \"hi\"\n\n## Bert\n\nname: Bert\nnote: x\n",
        ),
        (
            "json",
            "markdown",
            "[{\"name\": \"Anna\", \"zip\": 12345678901234567890123}, {\"name\": \"Bert\", \
             \"at\": {\"city\": \"Ulm\"}}]",
            "## Anna\n\nname: Anna\nzip: 12345678901234567890123\n\n## Bert\n\nname: Bert\n  at.city: Ulm\n",
        ),
        ("html", "markdown", "", ""),
        ("csv", "markdown", "", ""),
        ("csv", "markdown", "a,b\n", ""),
        ("json", "markdown", "[]", ""),
    ] {
        let (body, kept) = stored(&mut client, body, format);
        assert_eq!((body.as_str(), kept.as_str()), (expected, kept_as), "{format}");
    }
    assert_eq!(misplaced(&mut client, "kb"), 0);
    let text: i64 = one(
        &mut client,
        "SELECT count(*) FROM kb.block WHERE section_path = '{}' AND text LIKE '# No%'",
    );
    assert_eq!(text, 1, "a text has no headings");
}

#[test]
fn a_row_and_an_object_are_sections() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, "SELECT rag_create('kb', 8)");
    let long = "Das ist ein langer Satz über Österreich. ".repeat(60);
    let csv = format!("name,text\nAnna,\"{long}\"\nBert,\"{long}\"\n");
    let json = serde_json::json!([{"name": "Anna", "text": long}, {"name": "Bert", "text": long}]).to_string();
    let html = format!("<h2>Anna</h2><p>{long}</p><h2>Bert</h2><p>{long}</p>");
    for (format, body) in [("csv", csv), ("json", json), ("html", html)] {
        run(&mut client, "TRUNCATE kb.document");
        stored(&mut client, &body, format);
        let sections: Vec<Vec<String>> = client
            .query("SELECT section_path FROM kb.block ORDER BY ordinal", &[])
            .unwrap()
            .iter()
            .map(|row| row.get(0))
            .collect();
        assert_eq!(sections, [["Anna"], ["Bert"]], "{format}");
        assert_eq!(misplaced(&mut client, "kb"), 0, "{format}");
    }
}

#[test]
fn adding_again_under_the_same_key_replaces() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, "SELECT rag_create('kb', 8)");
    let first: i64 = one(
        &mut client,
        "SELECT rag_add('kb', '<p>Old</p>', 'T', 'k', '{\"a\": 1}', 'html')",
    );
    let again: i64 = one(
        &mut client,
        "SELECT rag_add('kb', 'New.', source_key => 'k', format => 'text')",
    );
    assert_eq!(first, again);
    let row = client
        .query_one(
            "SELECT body, title, metadata::text, format, created_at <= updated_at FROM kb.document",
            &[],
        )
        .unwrap();
    assert_eq!((row.get::<_, &str>(0), row.get::<_, Option<&str>>(1)), ("New.", None));
    assert_eq!(
        (row.get::<_, &str>(2), row.get::<_, &str>(3), row.get::<_, bool>(4)),
        ("{}", "text", true)
    );
    assert_eq!(
        one::<String>(&mut client, "SELECT string_agg(text, '|') FROM kb.node"),
        "New."
    );
    // Without a key each is a document of its own, even with the same text.
    let other: i64 = one(&mut client, "SELECT rag_add('kb', 'New.')");
    let third: i64 = one(&mut client, "SELECT rag_add('kb', 'New.', source_key => '')");
    assert!(other != first && third != other && third != first);
    assert_eq!(
        one::<i64>(&mut client, "SELECT rag_add('kb', 'Newer.', source_key => '')"),
        third
    );
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM kb.document"), 3);
}
